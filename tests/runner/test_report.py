"""The report on a run: its benchmarks, its failures by root cause, its files, and how to resume."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.gate import Counts
from rollcall_runner.report import cause_key, causes_table, run_report

CAUSE = {
    "server": "policy_model",
    "role": "model",
    "method": "POST",
    "path": "/v1/responses",
    "what": "http_status",
    "status": 500,
    "message": "",
    "excerpt": "out of memory\nin layer 3",
}


def failed(rollout: str, cause: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A failed rollout as the collector lists it."""
    return {"id": rollout, "root_cause": CAUSE | fields if cause is None else cause}


def declared(rollout: str) -> dict[str, Any]:
    """A rollout whose agent declared the failure itself."""
    return {"id": rollout, "root_cause": None}


def status(**fields: Any) -> dict[str, Any]:
    benchmark = {"benchmark": "math_agent", **Counts(1, 1).as_dict(), "metrics": "withheld", "reason": "1 failed"}
    known = {"run": "r-1", "output": None, "unattributed": 0, "complete": False, "benchmarks": [benchmark]}
    return known | fields


def test_failures_of_one_cause_are_one_group_with_an_example() -> None:
    """The most frequent first, each with the first line of what the server said."""
    lines = causes_table([failed("9-0", status=429, excerpt=""), failed("3-0"), declared("5-0"), failed("4-0")])
    assert lines == [
        "",
        "failures by root cause",
        "     2  model call to policy_model: http_status 500  e.g. 3-0",
        "        out of memory",
        "     1  model call to policy_model: http_status 429  e.g. 9-0",
        "     1  run call to agent: declared by the agent  e.g. 5-0",
    ]


@pytest.mark.parametrize(
    "fields", [{"server": "judge_model"}, {"role": "judge"}, {"what": "timeout"}, {"status": 502}, {"excerpt": "no"}]
)
def test_failures_that_differ_in_server_role_kind_status_or_text_are_apart(fields: dict[str, Any]) -> None:
    """Two groups of one."""
    assert len(causes_table([failed("1-0"), failed("2-0", **fields)])) >= 5
    assert cause_key(CAUSE | fields) != cause_key(CAUSE)


@pytest.mark.parametrize("fields", [{"path": "/other"}, {"excerpt": "out of memory\nin layer 7"}])
def test_failures_that_differ_in_path_or_later_lines_are_one_group(fields: dict[str, Any]) -> None:
    """A stack's lower lines tell apart what is one trouble."""
    assert cause_key(CAUSE | fields) == cause_key(CAUSE)


def test_rollcalls_own_words_stand_in_for_a_server_that_said_nothing() -> None:
    """Such as which limit was reached."""
    assert cause_key(CAUSE | {"excerpt": " \n ", "message": "first byte after 4 h"})[4] == ""
    assert cause_key(CAUSE | {"excerpt": "", "message": "first byte after 4 h"})[4] == "first byte after 4 h"


def test_more_than_a_dozen_causes_are_counted_and_not_shown() -> None:
    """The command that lists them is named."""
    lines = causes_table(failed(f"{number}-0", excerpt="", server=f"model_{number}") for number in range(15))
    assert (len(lines), lines[-1].strip()) == (15, "and 3 more causes: rollcall failures")


def test_no_failures_need_no_table() -> None:
    """Not even its heading."""
    assert causes_table([]) == []


def test_the_report_names_the_files_and_which_are_not_there(tmp_path: Path) -> None:
    """By their whole paths."""
    (tmp_path / "x.jsonl").write_text("")
    lines = run_report(status(output=str(tmp_path / "x.jsonl")), [])
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
    assert run_report(status(), [], command)[-2:] == ["resume what is not done:", line]


def test_failures_for_tools_alone_lead_the_report() -> None:
    """Before the counts, with the command that takes them back; the rest of what is warned of comes after them."""
    tools = "math_agent: 1 rollouts failed for tools alone: rollcall divert --reapply --output RESULTS"
    lines = run_report(status(output="/data/x.jsonl", warnings=[tools, "math_agent: other"]), [])
    assert lines[1:3] == [
        "math_agent: 1 rollouts failed for tools alone:",
        "  rollcall divert --reapply --output /data/x.jsonl",
    ]
    assert lines.index("  warning: math_agent: other") > 5


def test_a_complete_run_needs_no_resume() -> None:
    """The report ends with the counts."""
    assert "resume" not in "\n".join(run_report(status(complete=True), [], ["gym"]))


def test_calls_without_an_owner_are_said() -> None:
    """By the contract's word."""
    assert "  2 failed calls have no owner (unattributed)" in run_report(status(unattributed=2), [])


TEXT = st.text(max_size=150)
CAUSES = st.fixed_dictionaries(
    {
        "server": TEXT,
        "role": st.sampled_from(["model", "verify"]),
        "what": st.sampled_from(["http_status", "timeout"]),
        "status": st.none() | st.integers(100, 599),
        "message": TEXT,
        "excerpt": TEXT,
    }
)


@given(TEXT, st.text(min_size=1, max_size=200), st.lists(CAUSES, max_size=4))
def test_every_line_fits_80_columns_whatever_the_names_are(name: str, run: str, causes: list[dict[str, Any]]) -> None:
    """Long or hostile names of runs, benchmarks and servers, and any text of a server's."""
    benchmark = status()["benchmarks"][0] | {"benchmark": name}
    lines = run_report(status(benchmarks=[benchmark], run=run), [failed("1-0", cause) for cause in causes])
    assert [line for line in lines if len(line) > 80 or not line.isprintable()] == []
    assert sum(int(line[:6]) for line in lines if " call to " in line and line[:6].strip().isdigit()) <= len(causes)
