"""Failures as text: 80 columns whatever servers and benchmarks say."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.failures_text import failures_text, rollouts_text

CAUSE: dict[str, Any] = {
    "server": "policy_model", "role": "model", "what": "http_status", "status": "500", "line": "out of memory"
}  # fmt: skip


def group(count: int = 1, **fields: Any) -> dict[str, Any]:
    known = {"count": count, "cause": "c0ffee", "benchmark": "math_agent", "task_index": 3}
    return known | {"example": {"benchmark": "math_agent", "id": "3-0"}} | CAUSE | fields


def answer(*groups: dict[str, Any], by: str = "cause", more: int = 0) -> dict[str, Any]:
    return {"run": "r-1", "group": by, "failed": 9, "groups": list(groups), "more": more}


def test_each_cause_has_its_number_an_example_and_what_was_said() -> None:
    silent = group(status="", what="timeout", line="")
    assert failures_text(answer(group(12), silent, more=2)).splitlines() == [
        "failures by root cause",
        "    12  model call to policy_model: http_status 500  e.g. 3-0",
        "        out of memory",
        "     1  model call to policy_model: timeout  e.g. 3-0",
        "        and 2 more groups",
    ]


def test_without_failures_the_text_says_so() -> None:
    assert failures_text(answer()) == "no failures\n"


def test_rollouts_have_a_line_each() -> None:
    """With what made them fail; a status that there was not is left out."""
    cause = CAUSE | {"status": None, "what": "timeout"}
    rollout = {"id": "3-0", "state": "failed", "class": "agent_timeout", "benchmark": "math_agent", "root_cause": cause}
    missing = rollout | {"id": "4-0", "state": "missing", "class": None, "root_cause": None}
    assert rollouts_text([rollout, missing]).splitlines() == [
        "3-0       failed     agent_timeout      math_agent  policy_model timeout",
        "4-0       missing                       math_agent",
    ]
    assert rollouts_text([]) == "no rollouts\n"


TEXT = st.text(max_size=150)


@given(st.sampled_from(["cause", "server", "task"]), TEXT, TEXT, TEXT, st.integers(0, 10**9))
def test_every_line_fits_80_columns_and_obeys_no_server(by: str, name: str, said: str, id_: str, count: int) -> None:
    """The example is whole where it is not absurd."""
    shown = group(count, server=name, benchmark=name, line=said, example={"benchmark": name, "id": id_})
    lines = failures_text(answer(shown, by=by)).splitlines()
    assert [line for line in lines if len(line) > 80 or not line.isprintable()] == []
