"""The report on a run: its benchmarks, its failures by root cause, its files, and how to resume."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.gate import Counts
from rollcall_runner.report import run_report

NO_FAILURES: dict[str, Any] = {"run": "r-1", "group": "cause", "failed": 0, "groups": [], "more": 0}


def failures(*causes: dict[str, Any], more: int = 0) -> dict[str, Any]:
    """Failures as the collector groups them."""
    known = {"count": 2, "server": "policy_model", "role": "model", "what": "http_status", "status": "500"}
    known |= {"line": "out of memory", "example": {"benchmark": "math_agent", "id": "3-0"}}
    return NO_FAILURES | {
        "failed": 2,
        "groups": [known | {"benchmark": None, "task_index": None, **each} for each in causes],
        "more": more,
    }


def status(**fields: Any) -> dict[str, Any]:
    benchmark = {"benchmark": "math_agent", **Counts(1, 1).as_dict(), "metrics": "withheld", "reason": "1 failed"}
    known = {"run": "r-1", "output": None, "unattributed": 0, "complete": False, "benchmarks": [benchmark]}
    return known | fields


def test_failures_follow_the_counts_by_their_root_causes() -> None:
    """With what the server said first; where not all are shown, the command that lists them is named."""
    lines = run_report(status(), failures({}, more=3))
    assert lines[-5:] == [
        "failures by root cause",
        "     2  model call to policy_model: http_status 500  e.g. 3-0",
        "        out of memory",
        "        and 3 more groups",
        "        all of them: rollcall failures r-1",
    ]


def test_no_failures_need_no_table() -> None:
    """Not even its heading."""
    assert "failures by" not in "\n".join(run_report(status(), NO_FAILURES))


def test_what_is_stalled_stands_below_the_counts() -> None:
    assert "  1 rollout is stalled: open for more than 10 minutes" in run_report(status(stalled=1), NO_FAILURES)


def test_the_report_names_the_files_and_which_are_not_there(tmp_path: Path) -> None:
    """By their whole paths."""
    (tmp_path / "x.jsonl").write_text("")
    lines = run_report(status(output=str(tmp_path / "x.jsonl")), NO_FAILURES)
    assert lines[-3:] == [
        f"rollouts  {tmp_path}/x.jsonl",
        f"failures  {tmp_path}/x_failures.jsonl (none)",
        f"metrics   {tmp_path}/x_aggregate_metrics.json (none)",
    ]


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (["--", "gym", "eval", "run", "a b"], "  rollcall run -- gym eval run 'a b' --resume"),
        (["--connect-window", "2", "--", "gym", "--resume"], "  rollcall run --connect-window 2 -- gym --resume"),
    ],
)
def test_an_incomplete_run_is_told_how_to_resume(command: list[str], line: str) -> None:
    """As a command that can be copied, Rollcall's own flags included, with --resume once."""
    assert run_report(status(), NO_FAILURES, command)[-2:] == ["resume what is not done:", line]


def test_failures_for_tools_alone_lead_the_report() -> None:
    """Before the counts, with the command that takes them back; the rest of what is warned of comes after them."""
    tools = "math_agent: 1 rollout failed for tools alone: rollcall divert --reapply --output RESULTS"
    lines = run_report(status(output="/data/x.jsonl", warnings=[tools, "math_agent: other"]), NO_FAILURES)
    assert lines[1:3] == [
        "math_agent: 1 rollout failed for tools alone:",
        "  rollcall divert --reapply --output /data/x.jsonl",
    ]
    assert lines.index("  warning: math_agent: other") > 5


def test_a_complete_run_needs_no_resume() -> None:
    """The report ends with the counts."""
    assert "resume" not in "\n".join(run_report(status(complete=True), NO_FAILURES, ["gym"]))


def test_calls_without_an_owner_are_said() -> None:
    """By the contract's word."""
    assert "  2 failed calls have no owner (unattributed)" in run_report(status(unattributed=2), NO_FAILURES)


TEXT = st.text(max_size=150)
CAUSES = st.fixed_dictionaries(
    {
        "server": TEXT,
        "role": st.sampled_from(["model", "verify"]),
        "what": st.sampled_from(["http_status", "timeout"]),
        "status": st.sampled_from(["", "100", "599"]),
        "line": TEXT,
    }
)


@given(TEXT, st.text(min_size=1, max_size=200), st.lists(CAUSES, max_size=4))
def test_every_line_fits_80_columns_whatever_the_names_are(name: str, run: str, causes: list[dict[str, Any]]) -> None:
    """Long or hostile names of runs, benchmarks and servers, and any text of a server's."""
    benchmark = status()["benchmarks"][0] | {"benchmark": name}
    lines = run_report(status(benchmarks=[benchmark], run=run), failures(*causes))
    assert [line for line in lines if len(line) > 80 or not line.isprintable()] == []
