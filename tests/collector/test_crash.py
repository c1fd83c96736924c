"""The real command: what it has answered survives its death."""

import signal
import sqlite3
import subprocess
from pathlib import Path

from collector_events import batch, begun, ended, tag
from collector_process import ROLLCALL, call, environment, running
from rollcall_collector.store import open_database


def test_committed_events_survive_the_kill_of_the_collector(tmp_path: Path) -> None:
    """kill -9 right after the answer: the next collector knows verdict, row and number, and takes no event twice."""
    events = batch("p-1", 1, begun(), tag(), ended(answer={"reward": 0.0}))
    with running(tmp_path / "x.sqlite3") as (process, url):
        call("PUT", f"{url}/v1/sessions/s-1", {"run": "r-1", "mode": "fresh"})
        (ruling,) = call("POST", f"{url}/v1/events", events)["rulings"]
        process.kill()
        assert process.wait(20) == -signal.SIGKILL
    with running(tmp_path / "x.sqlite3") as (_, url):
        assert call("POST", f"{url}/v1/events", events)["rulings"] == [ruling]
        assert call("GET", f"{url}/v1/runs/r-1/failures.jsonl") == ruling["row"]
        shown = call("GET", f"{url}/v1/runs/r-1/rollouts/0-0")
        assert (shown["state"], len(shown["dispatches"][0]["tags"])) == ("failed", 1)


def test_the_collector_ends_well_when_it_is_told_to_stop(tmp_path: Path) -> None:
    """SIGTERM: exit status 0."""
    with running(tmp_path / "x.sqlite3") as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_a_collector_that_cannot_use_its_database_says_why_and_ends_with_4(tmp_path: Path) -> None:
    """One line without a traceback."""
    path = tmp_path / "x.sqlite3"
    open_database(f"sqlite:///{path}").dispose()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE schema_version SET version = 99")
    command = [ROLLCALL, "collector", "--listen", "127.0.0.1:0", "--database", f"sqlite:///{path}"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=20, check=False)
    assert (done.returncode, done.stdout) == (4, "")
    assert "has schema version 99" in done.stderr
    assert "Traceback" not in done.stderr
