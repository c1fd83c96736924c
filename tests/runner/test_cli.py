"""The command `rollcall` as people and scripts use it, asking a real collector."""

import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from collector_events import T0, batch, begun, ended, run_tag, tag
from collector_process import ROLLCALL, call, environment
from rollcall_runner.cli import main


def rollcall(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the real command."""
    return subprocess.run(
        [ROLLCALL, *arguments], capture_output=True, text=True, env=environment(), timeout=60, check=False
    )


Asked = tuple[int, str, str]
"""(exit status, standard output, standard error)"""


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Callable[..., Asked]:
    """The same command without a process of its own, for what depends on no process."""

    def asked(*arguments: str) -> Asked:
        try:
            status = main(arguments)
        except SystemExit as ending:
            status = int(str(ending.code))
        return status, *capsys.readouterr()

    return asked


@pytest.fixture(scope="module")
def runs(collector_url: str) -> str:
    """A collector with a complete run, one with a failure, and one that runs nothing."""
    for number, run in enumerate(("r-empty", "r-failed", "r-whole")):
        call("PUT", f"{collector_url}/v1/sessions/s-{number}", {"run": run, "mode": "fresh", "output": "/data/x.jsonl"})
    events = [
        begun("d-1", "0-0", run="r-whole", session="s-2"),
        ended("d-1"),
        begun("d-2", "0-0", run="r-failed", session="s-1"),
        tag("d-2"),
        ended("d-2"),
        begun("d-3", "1-0", run="r-failed", session="s-1"),
        run_tag("d-3", status=503, excerpt="overloaded", ended_at=T0 + 5),
        ended("d-3", "bad", status=503),
    ]
    call("POST", f"{collector_url}/v1/events", batch("p-1", 1, *events))
    for number, run in ((1, "r-failed"), (2, "r-whole")):
        call("POST", f"{collector_url}/v1/runs/{run}/gate")
        call("POST", f"{collector_url}/v1/sessions/s-{number}/heartbeat", {"state": "ended"})
    return collector_url


@pytest.mark.parametrize(("run", "status"), [("r-whole", 0), ("r-failed", 3), ("r-empty", 5), ("r-unheard-of", 5)])
def test_the_gates_exit_status_says_whether_all_is_released(runs: str, run: str, status: int) -> None:
    """0 whole, 3 incomplete, 5 nothing expected or no such run."""
    assert rollcall("gate", run, "--collector", runs).returncode == status


def test_a_gate_that_cannot_be_asked_is_4() -> None:
    """Nothing may be assumed complete; the cure is named, without a traceback."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    done = rollcall("gate", "--collector", url)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith(f"rollcall: {url} cannot be asked")
    assert "Traceback" not in done.stderr


def test_the_gate_says_which_benchmark_is_withheld_and_why(runs: str, ask: Callable[..., Asked]) -> None:
    """By the counts that withhold it."""
    assert "math_agent: metrics withheld: 2 failed" in ask("gate", "r-failed", "--collector", runs)[1]


def test_the_gate_tells_ci(
    runs: str, ask: Callable[..., Asked], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As JUnit's XML and to GitHub, beside the table; what the table says commands nothing."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    report = tmp_path / "report.xml"
    status, text, said = ask("gate", "r-failed", "--junit", str(report), "--github", "--collector", runs)
    mark = text.splitlines()[0].removeprefix("::stop-commands::")
    assert (status, text.splitlines()[-1]) == (3, f"::{mark}::")
    assert said.splitlines()[0] == "::error title=rollcall%3A math_agent::metrics withheld: 2 failed"
    assert "run call to math&#95;agent" in (tmp_path / "summary.md").read_text()
    assert 'message="metrics withheld: 2 failed"' in report.read_text()


def test_ci_is_told_of_a_gate_that_cannot_be_asked(ask: Callable[..., Asked], tmp_path: Path) -> None:
    """A report that is missing would be taken for a good one; one that cannot be written is wrong use."""
    gate = ("gate", "--collector", "http://127.0.0.1:9", "--junit")
    assert ask(*gate, str(tmp_path / "report.xml"))[0] == 4
    assert "cannot be asked" in (tmp_path / "report.xml").read_text()
    status, _, said = ask(*gate, str(tmp_path / "no" / "report.xml"))
    assert (status, "no/report.xml: cannot be written: No such file or directory" in said) == (2, True)


def test_the_newest_run_is_meant_where_none_is_named(
    runs: str, ask: Callable[..., Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the collector that the attached proxy relays to."""
    monkeypatch.setenv("ROLLCALL_PROXY", runs)
    status, text, _ = ask("gate")
    assert (status, "math_agent: metrics released" in text) == (0, True)


@pytest.mark.parametrize(("verb", "rest"), [("status", ""), ("gate", "/gate")])
def test_json_is_what_the_collector_answers(runs: str, ask: Callable[..., Asked], verb: str, rest: str) -> None:
    """For scripts, whole."""
    shown: dict[str, Any] = orjson.loads(ask(verb, "r-failed", "--json", "--collector", runs)[1])
    assert shown == call("GET", f"{runs}/v1/runs/r-failed{rest}")
    assert shown["benchmarks"][0]["failed"] == 2


def test_the_status_is_shown_as_text(runs: str, ask: Callable[..., Asked]) -> None:
    """And is no gate: its exit status is 0 whatever the run is."""
    status, text, _ = ask("status", "r-failed", "--collector", runs)
    assert text.splitlines()[:2] == ["run r-failed (ended, sessions: 1)", "output /data/x.jsonl"]
    assert status == 0


def test_failures_are_grouped(runs: str, ask: Callable[..., Asked]) -> None:
    """By root cause, with an example each; as JSON it is what the collector answers."""
    text = ask("failures", "r-failed", "--collector", runs)[1]
    assert "     1  model call to policy_model: http_status 500  e.g. 0-0\n        out of memory\n" in text
    listed = orjson.loads(ask("failures", "r-failed", "--json", "--collector", runs)[1])
    assert listed == call("GET", f"{runs}/v1/runs/r-failed/failures")
    assert {each["example"]["id"]: each["line"] for each in listed["groups"]} == {
        "0-0": "out of memory",
        "1-0": "overloaded",
    }


def test_failures_are_grouped_by_server_and_by_task(runs: str, ask: Callable[..., Asked]) -> None:
    """Of a task the cause of its example is said too."""
    by_server = ask("failures", "r-failed", "--group", "server", "--collector", runs)[1].splitlines()
    assert by_server == ["failures by server", "     1  math_agent  e.g. 1-0", "     1  policy_model  e.g. 0-0"]
    by_task = ask("failures", "r-failed", "--group", "task", "--limit", "1", "--collector", runs)[1].splitlines()
    assert by_task[1:3] == [
        "     1  math_agent 0  e.g. 0-0",
        "        model call to policy_model: http_status 500",
    ]
    assert by_task[-1] == "        and 1 more group"


def test_a_run_without_failures_says_so(runs: str, ask: Callable[..., Asked]) -> None:
    """Instead of nothing."""
    assert ask("failures", "r-whole", "--collector", runs)[1] == "no failures\n"


def test_an_id_that_no_url_can_hold_is_no_such_run(runs: str, ask: Callable[..., Asked]) -> None:
    """Blanks are no traceback."""
    assert ask("status", "two words", "--collector", runs) == (5, "", "rollcall: no run has the id two words\n")


def test_the_attach_path_holds_sitecustomize_and_nothing_else() -> None:
    """Anything else there would hide modules of Gym's."""
    folder = Path(rollcall("attach-path").stdout.strip())
    assert folder.is_absolute()
    assert {entry.name for entry in folder.iterdir()} - {"__pycache__"} == {"sitecustomize.py"}


@pytest.mark.parametrize(
    "arguments", [[], ["unheard-of"], ["run"], ["run", "--"], ["gate", "--colour", "red"], ["gate", "--js"]]
)
def test_wrong_use_is_2(ask: Callable[..., Asked], arguments: list[str]) -> None:
    """With what is wrong on standard error."""
    status, text, said = ask(*arguments)
    assert (status, text) == (2, "")
    assert "rollcall" in said


def test_a_wrong_setting_is_2_and_names_the_flag() -> None:
    """The value and the cure too, without a traceback."""
    done = rollcall("collector", "--listen", "7078")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("rollcall: --listen = '7078': ")


def test_output_that_nobody_reads_to_its_end_is_no_error() -> None:
    """As of `rollcall config | head -1`: no traceback, and the status that shells give."""
    said = subprocess.Popen([ROLLCALL, "config"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    assert said.stdout is not None
    said.stdout.close()
    _, error = said.communicate(timeout=60)
    assert (said.returncode, error) == (141, b"")
