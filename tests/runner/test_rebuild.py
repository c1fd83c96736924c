"""`rollcall rebuild`: what a database has lost of a run is taken from the run's files."""

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from collector_events import T0
from collector_process import call, running
from collector_store import Store
from postgresql_server import serving
from rollcall_collector.results.lock import hold
from rollcall_runner.cli import main
from rollcall_runner.rebuilding import Rows
from runner_world import World, append, result, tool_tag


@pytest.fixture
def lost(world: World) -> World:
    """A run of five: two have succeeded, one has failed by a model's answer, one by a tool's status, one has no row."""
    world.expects(0, 1, 2, 3, 4)
    world.succeeds(0, 1)
    world.fails(2)
    world.fails(3, tool_tag("d-3"), answer=result(3))
    world.ends_session()
    return world


@pytest.fixture
def new(tmp_path: Path) -> Iterator[Store]:
    """A database that knows nothing yet."""
    opened = Store(tmp_path / "new.sqlite3")
    yield opened
    opened.close()


def url_of(store: Store) -> str:
    return f"sqlite:///{store.engine.url.database}"


def rebuild(output: Path, database: str) -> int:
    return main(["rebuild", "--output", str(output), "--database", database])


def counts_of(status: dict[str, Any]) -> dict[str, int]:
    return {name: number for name, number in status["totals"].items() if number}


COUNTS = {"succeeded": 2, "failed": 2, "missing": 1}


def test_a_run_is_in_the_database_again(lost: World, new: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """What was taken, what is not known, and the gate are said."""
    assert rebuild(lost.output, url_of(new)) == 0
    assert new.counts() == COUNTS
    said = capsys.readouterr().out
    assert said.startswith("run r-1\n  5 rollouts expected; 2 results and 2 failed attempts taken\n  doubt: math_agent")
    assert "\n  not known: " in said
    assert "math_agent: metrics withheld: 2 failed, 1 missing" in said


def test_the_files_stay_as_they_are(lost: World, new: Store) -> None:
    """Byte by byte; the lock's file alone may be new."""

    def files() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in lost.output.parent.glob("rollouts*") if path.suffix != ".lock"}

    before = files()
    rebuild(lost.output, url_of(new))
    assert files() == before


def test_a_rebuilt_run_can_be_judged_again(lost: World, new: Store) -> None:
    """Under another policy, with no new model call."""
    rebuild(lost.output, url_of(new))
    asking = ["--output", str(lost.output), "--database", url_of(new), "--collector", lost.collector]
    assert main(["divert", *asking, "--reapply", "--tool-errors", "model_visible"]) == 0
    assert new.counts() == {"succeeded": 3, "failed": 1, "missing": 1}


def test_long_work_shows_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Short work says nothing."""
    rows = Rows()
    for read in (1000, 19_999, 20_000, 21_000, 45_000):
        rows(read)
    assert capsys.readouterr().err == "rollcall: 20000 rows read\nrollcall: 45000 rows read\n"


def test_a_second_time_takes_nothing(lost: World, new: Store, capsys: pytest.CaptureFixture[str]) -> None:
    rebuild(lost.output, url_of(new))
    capsys.readouterr()
    assert (rebuild(lost.output, url_of(new)), new.counts()) == (0, COUNTS)
    assert "the database knows all that the files hold" in capsys.readouterr().out


def test_a_collector_of_the_same_database_knows_it_at_once(lost: World, new: Store) -> None:
    """And takes in more."""
    with running(url_of(new)) as (_, url):
        assert rebuild(lost.output, url_of(new)) == 0
        status = call("GET", f"{url}/v1/runs/r-1")
        assert (counts_of(status), status["state"]) == ({"expected": 5, **COUNTS}, "ended")
        call("PUT", f"{url}/v1/sessions/s-9", {"run": "r-1", "mode": "resume", "output": str(lost.output)})
        assert call("GET", f"{url}/v1/runs/r-1")["state"] == "running"


def test_a_database_that_was_damaged_gets_its_run_back(lost: World) -> None:
    """The damaged file stays beside it."""
    lost.store.close()
    with sqlite3.connect(lost.database) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    with lost.database.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096 * 8)
    assert rebuild(lost.output, f"sqlite:///{lost.database}") == 0
    assert lost.database.with_name("x.sqlite3.damaged-1").exists()
    again = Store(lost.database)
    assert again.counts() == COUNTS
    again.close()


def test_what_is_wrong_with_a_file_is_said(lost: World, new: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """Its whole rows are taken."""
    with lost.output.open("a") as file:
        file.write('{"_ng_task_ind')
    assert rebuild(lost.output, url_of(new)) == 0
    assert "  doubt: rollouts.jsonl: its last line is torn\n" in capsys.readouterr().out
    assert new.counts() == COUNTS


def test_what_only_the_lost_database_knew_withholds_until_it_is_accepted(
    world: World, new: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """Calls without an owner withheld the metrics, says the run file; no row says it."""
    world.expects(0)
    world.succeeds(0)
    reason = "3 unattributed failures at shell"
    withheld = {"benchmark": "math_agent", "metrics": "withheld", "reason": reason, "succeeded": 1}
    kept = {"version": 1, "run": "r-1", "gate": {"exit_status": 3, "reasons": [reason], "benchmarks": [withheld]}}
    world.beside("_rollcall.json").write_text(json.dumps(kept))
    assert rebuild(world.output, url_of(new)) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"doubt: math_agent: before the rebuild: {reason}" in said
    assert "rollcall accept r-1 rebuilt --reason" in said
    assert new.gate()["benchmarks"][0]["metrics"] == "withheld"
    with running(url_of(new)) as (_, url):
        assert main(["accept", "r-1", "rebuilt", "--reason", "a probe of ours", "--collector", url]) == 0
        assert call("GET", f"{url}/v1/runs/r-1/gate")["exit_status"] == 0


def _is_held(world: World) -> Any:
    return hold(world.output, {"session": "s-1"})


def _is_heard(world: World) -> None:
    world.is_alive()


@pytest.mark.parametrize("at_it", [_is_held, _is_heard])
def test_nothing_is_taken_while_a_session_is_on(
    lost: World, capsys: pytest.CaptureFixture[str], at_it: Callable[[World], Any]
) -> None:
    """By the lock, or by what the database heard."""
    kept = at_it(lost)
    assert rebuild(lost.output, f"sqlite:///{lost.database}") == 2
    assert "is on" in capsys.readouterr().err
    assert lost.store.reader.status("r-1", time.time())["sessions"] == 1
    del kept


def _no_run_file(world: World) -> None:
    world.beside("_rollcall.json").unlink()


def _no_inputs(world: World) -> None:
    world.beside("_materialized_inputs.jsonl").unlink()


def _foreign_tag(world: World) -> None:
    own = {"run": "r-1", "tags": [{"server": "x"}]}
    append(world.failures, result(4) | {"_ng_failure_class": "mine", "_rollcall": own})


@pytest.mark.parametrize(
    ("broken", "status", "words"),
    [
        (_no_run_file, 2, ["--output", "_rollcall.json", "no such file"]),
        (_no_inputs, 4, ["_materialized_inputs.jsonl", "put it back"]),
        (_foreign_tag, 4, ["_failures.jsonl", "a tag", "from a copy"]),
    ],
)
def test_files_that_do_not_suffice_are_named(
    lost: World,
    new: Store,
    capsys: pytest.CaptureFixture[str],
    broken: Callable[[World], None],
    status: int,
    words: list[str],
) -> None:
    """And nothing of the run is taken."""
    broken(lost)
    assert rebuild(lost.output, url_of(new)) == status
    said = capsys.readouterr().err
    assert [word for word in words if word not in said] == []
    assert new.reader.runs(T0) == []


def test_other_inputs_than_the_run_began_with_are_wrong_use(lost: World, capsys: pytest.CaptureFixture[str]) -> None:
    """The database knows the run, with a digest of its own."""
    lost.ends_session()
    assert rebuild(lost.output, f"sqlite:///{lost.database}") == 2
    assert f"--output {lost.output}: " in capsys.readouterr().err


def test_a_database_on_postgresql_takes_it(lost: World) -> None:
    with serving() as server:
        url = server.empty()
        assert rebuild(lost.output, url) == 0
        store = Store(url)
        assert store.counts() == COUNTS
        store.close()
