"""How `rollcall run` shows a run while it goes on: on a terminal, and in plain lines where there is none."""

import asyncio
import io
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from collector_events import batch, begun, ended, tag
from collector_process import ROLLCALL, call, environment
from rollcall_runner import asking, live
from rollcall_runner.screen import LastLine, Lines
from terminal import Terminal

COMMAND = """
import json, os, sys, time, urllib.request
def put(path, body):
    url = os.environ["ROLLCALL_PROXY"] + path
    request = urllib.request.Request(url, json.dumps(body).encode(), method="PUT")
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request).read()
session = {"run": "r-1", "output": "/data/x.jsonl", "mode": "fresh", "gym": "0.7.0", "pid": 1, "host": "h"}
put("/v1/sessions/s-1", session | {"launch": os.environ["ROLLCALL_LAUNCH"]})
rollouts = [["math_agent", 0, 0, None], ["math_agent", 1, 0, None]]
put("/v1/runs/r-1/expected", {"session": "s-1", "source": "x", "digest": "sha256:0", "rollouts": rollouts})
for number in range(30):
    print(f"line {number}", flush=True)
sys.stderr.write("bar 10%"); sys.stderr.flush()
while not os.path.exists(sys.argv[1]):
    sys.stderr.write(chr(13) + "bar 50%"); sys.stderr.flush()
    time.sleep(0.05)
sys.stderr.write(chr(13) + "bar 100%" + chr(10))
"""
SHOWN = "rollcall: 0 of 2 succeeded"


def command(folder: Path) -> list[str]:
    own = ["--database", f"sqlite:///{folder}/x.sqlite3", "--spool", str(folder / "spool")]
    return [ROLLCALL, "run", *own, "--", sys.executable, "-c", COMMAND, str(folder / "go")]


def test_a_terminal_has_the_line_below_what_the_command_writes(tmp_path: Path) -> None:
    """Its progress bar stays its own, whatever scrolls; in the end all rows are the command's and the report's."""
    with Terminal() as terminal:
        running = subprocess.Popen(
            command(tmp_path), stdout=terminal.end, stderr=terminal.end, env=environment(TERM="xterm")
        )
        rows = terminal.reads_until(lambda rows: rows[-1].startswith(SHOWN) and "bar 50%" in rows)
        assert rows[-3:] == ["line 29", "bar 50%", rows[-1]]
        terminal.leave_to_others()
        (tmp_path / "go").touch()
        last = terminal.reads_all()
    assert running.wait(60) == 3
    assert [row for row in last if row][-1].endswith("--resume")
    assert SHOWN not in "\n".join(last)


def test_without_a_terminal_there_are_plain_lines(tmp_path: Path) -> None:
    """And nothing that a terminal would obey. The bar, which ends no line, may stand before one."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = subprocess.Popen(command(tmp_path), env=environment(TERM="xterm"), **pipes)
    assert running.stderr
    seen = [next(line for line in running.stderr if SHOWN in line)]
    (tmp_path / "go").touch()
    seen += running.communicate(timeout=60)
    assert (running.returncode, "\x1b" in "".join(seen)) == (3, False)


def test_a_terminal_of_another_size_has_the_line_at_its_new_end() -> None:
    """The row that it had is cleared."""
    with Terminal(40, 10) as terminal, open(terminal.end, "w", closefd=False) as stream:
        shown = LastLine(stream)
        shown.show("a line")
        assert terminal.reads_until(lambda rows: bool(rows[-1]))[-1] == "a line"
        terminal.resize(60, 12)
        shown.show("another \x1b[31m " + "long " * 20)
        rows = terminal.reads_until(lambda rows: rows[-1].startswith("another"))
        assert (len(rows[-1]) <= 60, [row for row in rows[:-1] if row]) == (True, [])
        shown.say("said")
        assert "said" in terminal.reads_until(lambda rows: "said" in rows)[:-1]
        shown.close()
        shown.show("too late")
        stream.write("\nend")
        stream.flush()
        assert "too late" not in terminal.reads_until(lambda rows: "end" in rows)


def test_plain_lines_come_when_something_has_changed_and_not_too_often() -> None:
    """The last one always."""
    stream = io.StringIO()
    lines = Lines(stream, pause=3600)
    for text in ("one", "one", "two", "three"):
        lines.show(text)
    lines.close()
    assert stream.getvalue() == "one\nthree\n"
    eager = Lines(stream := io.StringIO(), pause=0)
    for text in ("one", "one", "two"):
        eager.show(text)
    eager.close()
    assert stream.getvalue() == "one\ntwo\n"


TOTALS = {"expected": 9, "succeeded": 3, "failed": 1, "omitted": 0, "running": 2, "missing": 3}


def status(**fields: Any) -> dict[str, Any]:
    known = {"run": "r-1", "totals": TOTALS, "stalled": 0, "unattributed": 0, "warnings": []}
    return known | {"expected_source": "materialized_inputs"} | fields


def test_the_line_hides_nothing_behind_good_numbers() -> None:
    """What is stalled, unattributed, only expected so far, not watched or masked stands beside them."""
    assert live.line_of(status()) == "3 of 9 succeeded, 1 failed, 2 running"
    shown = status(stalled=2, unattributed=1, expected_source="so_far", warnings=["a: 1 rollout masked"])
    assert live.line_of(shown) == (
        "3 of 9 succeeded, 1 failed, 2 running; 2 stalled; 1 unattributed; "
        "expected is what was seen so far; 1 warning: rollcall status"
    )


@pytest.mark.parametrize(
    ("totals", "throughout"),
    [
        ({"expected": 9, "failed": 3}, True),
        ({"expected": 9, "failed": 2}, False),
        ({"expected": 2, "failed": 2}, True),
        ({"expected": 9, "failed": 8, "succeeded": 1}, False),
        ({"expected": 0}, False),
    ],
)
def test_three_failures_and_no_success_are_no_accident(totals: dict[str, int], throughout: bool) -> None:
    """Nor are fewer, where there are no more."""
    whole = dict.fromkeys(TOTALS, 0) | totals
    assert live.fails_throughout(status(totals=whole)) is throughout


class Told(io.StringIO):
    """What is printed; `enough` is set once something holds of it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, until: Callable[[str], bool]) -> None:
        super().__init__()
        self._loop, self._until, self.enough = loop, until, asyncio.Event()

    def flush(self) -> None:
        if self._until(self.getvalue()):
            self._loop.call_soon_threadsafe(self.enough.set)


async def followed(url: str, run: str, until: Callable[[str], bool]) -> str:
    """What is shown of a run until this holds, in plain lines."""
    stream = Told(asyncio.get_running_loop(), until)
    following = asyncio.create_task(
        live.follow(url, lambda: asking.get(url, "/v1/runs", launch=f"l-{run}")["runs"], Lines(stream, 0))
    )
    await asyncio.wait_for(stream.enough.wait(), 60)
    following.cancel()
    with suppress(asyncio.CancelledError):
        await following
    return stream.getvalue()


def fails(url: str, run: str, *excerpts: str) -> None:
    """A run in which rollouts have failed, each with what the model's server said."""
    fields = {"run": run, "mode": "fresh", "launch": f"l-{run}"}
    call("PUT", f"{url}/v1/sessions/s-{run}", fields)
    for number, excerpt in enumerate(excerpts):
        name = f"d-{run}-{number}"
        opening = begun(name, f"{number}-0", run=run, session=f"s-{run}")
        failed = tag(name, f"x-{name}", status=401, excerpt=excerpt)
        call("POST", f"{url}/v1/events", batch(f"p-{name}", 1, opening, failed, ended(name)))


async def test_a_run_that_fails_throughout_of_one_cause_is_said_at_once_and_once(collector_url: str) -> None:
    """With the cause, an example, and that a retry cannot mend it where that is known."""
    await asyncio.to_thread(fails, collector_url, "r-bad", *[f"invalid key, request {n}0000{n}" for n in range(1, 4)])
    text = await followed(collector_url, "r-bad", lambda text: "cannot mend" in text)
    lines = text.splitlines()
    assert lines[1] == (
        "rollcall: all 3 rollouts so far have failed of one cause: model call to policy_model: http_status 401: "
        "invalid key, request 100001, e.g. 0-0"
    )
    assert lines[2] == "rollcall: a retry cannot mend that (the key was refused (401)); Ctrl-C stops the run"
    assert text.count("of one cause") == 1


async def test_failures_of_several_causes_are_shown_as_a_number_only(collector_url: str) -> None:
    await asyncio.to_thread(fails, collector_url, "r-mixed", "one thing", "another", "a third")
    text = await followed(collector_url, "r-mixed", lambda text: "3 failed" in text)
    assert "of one cause" not in text


async def test_a_proxy_that_cannot_be_asked_is_said_in_the_line() -> None:
    """It ends nothing: the command decides when the run is over."""
    text = await followed("http://127.0.0.1:9", "r-1", lambda text: "cannot be asked" in text)
    assert text.startswith("rollcall: how the run goes cannot be asked: http://127.0.0.1:9")
