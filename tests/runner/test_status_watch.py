"""`rollcall status --watch` as a process: on a terminal, and where there is none."""

import os
import pty
import subprocess
from pathlib import Path

import pytest
from collector_events import batch, begun, ended, tag
from collector_process import ROLLCALL, call, environment, running
from pty_reading import read_until

WATCH = [ROLLCALL, "status", "--watch", "--collector"]


@pytest.fixture
def run(collector_url: str, request: pytest.FixtureRequest) -> str:
    """The id of a run that has begun."""
    name = f"r-{request.node.name[-30:].strip('[]_')}"
    call("PUT", f"{collector_url}/v1/sessions/s-{name}", {"run": name, "mode": "fresh", "output": "/data/x.jsonl"})
    return name


def fails(url: str, run: str) -> None:
    made = [begun(f"d-{run}", run=run, session=f"s-{run}"), tag(f"d-{run}", f"x-{run}"), ended(f"d-{run}")]
    call("POST", f"{url}/v1/events", batch(f"p-{run}", 1, *made))


def ends(url: str, run: str) -> None:
    call("POST", f"{url}/v1/sessions/s-{run}/heartbeat", {"state": "ended"})


def test_each_change_is_shown_until_the_run_has_ended(collector_url: str, run: str) -> None:
    """One after the other where there is no terminal, and nothing that a terminal would obey."""
    watching = subprocess.Popen([*WATCH, collector_url], stdout=subprocess.PIPE, text=True, env=environment())
    assert watching.stdout
    assert watching.stdout.readline() == f"run {run} (running, sessions: 1)\n"
    fails(collector_url, run)
    while (line := watching.stdout.readline()) and not line.startswith("math_agent "):
        pass
    assert line.split()[:4] == ["math_agent", "1", "0", "1"]
    ends(collector_url, run)
    rest = watching.communicate(timeout=60)[0]
    assert (watching.returncode, f"run {run} (ended, sessions: 1)" in rest, "\x1b" in rest) == (0, True, False)


def test_a_terminal_is_painted_anew(collector_url: str, run: str) -> None:
    """From its top each time."""
    main, end = pty.openpty()
    watching = subprocess.Popen([*WATCH, collector_url, run], stdout=end, env=environment())
    os.close(end)
    assert read_until(main, f"run {run} (running").startswith("\x1b[H\x1b[2J")
    ends(collector_url, run)
    assert f"\x1b[H\x1b[2Jrun {run} (ended" in read_until(main, "(ended")
    assert watching.wait(60) == 0
    os.close(main)


def test_a_collector_that_is_away_is_waited_for(tmp_path: Path) -> None:
    """And that is said once."""
    with running(tmp_path / "x.sqlite3") as (_, url):
        call("PUT", f"{url}/v1/sessions/s-1", {"run": "r-1", "mode": "fresh"})
        watching = subprocess.Popen([*WATCH, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert watching.stdout
        assert watching.stderr
        watching.stdout.readline()
    assert "still waiting" in watching.stderr.readline()
    with running(tmp_path / "x.sqlite3", url.removeprefix("http://")) as (_, again):
        ends(again, "1")
        assert watching.wait(60) == 0
    assert "still waiting" not in watching.communicate()[1]
