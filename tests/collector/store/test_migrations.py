"""Databases of older programs: real ones, with a run in them that knows every kind of record."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from collector_events import T0, ended, tag
from collector_store import Store
from rollcall_collector.store import open_database
from rollcall_collector.store.schema import SCHEMA_VERSION
from sqlalchemy import inspect
from store_accounts import recounted, stored_counts

HERE = Path(__file__).parent
OLDER = range(1, SCHEMA_VERSION)


def old_file(folder: Path, version: int) -> Path:
    """A database as the program of that version has left it."""
    path = folder / f"version-{version}.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.executescript((HERE / f"version_{version}.sql").read_text())
    connection.close()
    return path


@pytest.fixture(params=OLDER)
def migrated(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store = Store(old_file(tmp_path, request.param))
    yield store
    store.close()


def test_a_run_of_an_older_program_is_what_it_was(migrated: Store) -> None:
    """Its counts, its rows, its tags, its servers and what withholds it."""
    status = migrated.reader.status("r-1", T0 + 205)
    assert status["totals"] == {
        "expected": 6,
        "succeeded": 2,
        "failed": 1,
        "omitted": 0,
        "running": 1,
        "missing": 2,
    }
    assert [row["_rollcall"]["dispatch"] for row in migrated.reader.failures("r-1")] == ["d-1", "d-2"]
    assert (status["unattributed"], status["servers"][0]["exchanges"]) == (1, 7)
    assert "math_agent: 1 rollout masked, which Gym leaves out of the metrics" in status["warnings"]


def test_tags_of_an_older_program_are_folded(migrated: Store) -> None:
    """Two exchanges of one call are one record; that of a call that recovered stays so."""
    (record,) = migrated.rollout("1-0")["dispatches"][0]["tags"]
    assert (record["exchange"], record["count"], record["last_at"]) == ("x-1", 2, T0 + 40)
    (healed,) = migrated.rollout("2-0")["dispatches"][1]["tags"]
    assert healed["recovered"]


def test_a_migrated_run_goes_on(migrated: Store) -> None:
    """Its senders' numbers are known, its open dispatch ends, a late tag is judged, and the counts still balance."""
    migrated.takes(1, ended("d-0", "bad"))
    migrated.takes(1000, ended("d-3"), sender="p-9")
    migrated.takes(1002, tag("d-0", "x-77"), sender="p-9")
    assert migrated.counts(now=T0 + 205) == {"succeeded": 2, "failed": 2, "missing": 2}
    assert stored_counts(migrated.engine) == recounted(migrated.engine)


def test_a_migrated_schema_is_that_of_a_new_database(migrated: Store, tmp_path: Path) -> None:
    """The same tables, columns and indexes."""
    new = open_database(f"sqlite:///{tmp_path / 'new.sqlite3'}")
    shapes = []
    for engine in (migrated.engine, new):
        seen = inspect(engine)
        columns = {table: {each["name"] for each in seen.get_columns(table)} for table in seen.get_table_names()}
        indexes = {table: {each["name"] for each in seen.get_indexes(table)} for table in seen.get_table_names()}
        shapes.append((columns, indexes))
    new.dispose()
    assert shapes[0] == shapes[1]


def test_of_programs_that_start_at_once_one_migrates(tmp_path: Path) -> None:
    """The others wait, and find what they need."""
    path = old_file(tmp_path, 1)
    opening = f"from rollcall_collector.store import open_database; open_database('sqlite:///{path}').dispose()"
    started = [subprocess.Popen([sys.executable, "-c", opening]) for _ in range(3)]
    assert [process.wait(60) for process in started] == [0, 0, 0]
    store = Store(path)
    assert store.counts(now=T0 + 205)["succeeded"] == 2
    store.close()
