"""Opening the database: what cannot be used is refused with its name, the cause and the cure."""

import sqlite3
from pathlib import Path

import pytest
from collector_events import T0, begun, ended
from collector_store import Store
from rollcall_collector.store import DatabaseError, open_database
from rollcall_collector.store.schema import SCHEMA_VERSION


def refusal(url: str) -> str:
    """The text with which the database is refused."""
    with pytest.raises(DatabaseError) as refused:
        open_database(url).dispose()
    return str(refused.value)


def test_a_new_database_is_made_with_its_folders(tmp_path: Path) -> None:
    """And can be opened again."""
    url = f"sqlite:///{tmp_path}/some/where/x.sqlite3"
    open_database(url).dispose()
    open_database(url).dispose()
    assert (tmp_path / "some/where/x.sqlite3").exists()


def test_what_was_committed_is_there_when_the_database_is_opened_again(tmp_path: Path) -> None:
    """Verdicts and numbers of senders alike."""
    first = Store(tmp_path / "x.sqlite3")
    first.session()
    first.sends(begun(), ended())
    first.close()
    again = Store(tmp_path / "x.sqlite3")
    again.takes(2, ended(ending="bad"))
    assert again.counts() == {"succeeded": 1}
    again.close()


def test_a_newer_schema_is_refused_with_both_versions(tmp_path: Path) -> None:
    """It is left as it is, and the cure is named."""
    path = tmp_path / "x.sqlite3"
    open_database(f"sqlite:///{path}").dispose()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE schema_version SET version = 99")
    text = refusal(f"sqlite:///{path}")
    assert f"schema version 99, this program knows {SCHEMA_VERSION}" in text
    assert "use the newer gym-rollcall" in text
    assert str(path) in text


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """And not overwritten."""
    path = tmp_path / "rollouts.jsonl"
    path.write_text('{"reward": 1.0}\n' * 100)
    assert "file is not a database" in refusal(f"sqlite:///{path}")
    assert path.read_text().startswith('{"reward"')


def test_a_folder_in_the_databases_place_is_refused(tmp_path: Path) -> None:
    """It cannot be opened for writing."""
    assert "unable to open database file" in refusal(f"sqlite:///{tmp_path}")


def test_a_database_below_a_file_is_refused(tmp_path: Path) -> None:
    """The folder that cannot be made is named."""
    (tmp_path / "file").write_text("")
    assert f"cannot make the folder {tmp_path}/file" in refusal(f"sqlite:///{tmp_path}/file/x.sqlite3")


@pytest.mark.parametrize(
    ("url", "cure"),
    [("/tmp/x.sqlite3", "write sqlite:////absolute/path"), ("mysql://host/x", "use sqlite:///path or postgresql://")],
)
def test_a_url_of_another_kind_is_refused_with_what_to_write(url: str, cure: str) -> None:
    """The URL stands in the text."""
    text = refusal(url)
    assert repr(url) in text
    assert cure in text


def test_two_processes_may_write_to_one_database(tmp_path: Path) -> None:
    """Each transaction waits for its turn instead of failing because the other has written in between."""
    one, other = Store(tmp_path / "x.sqlite3"), Store(tmp_path / "x.sqlite3")
    one.session(now=T0)
    for number in range(5):
        one.sends(begun(f"one-{number}", f"{number}-0"), sender="one")
        other.sends(begun(f"other-{number}", f"{number}-1"), sender="other")
    assert one.counts() == other.counts() == {"running": 10}
    one.close()
    other.close()
