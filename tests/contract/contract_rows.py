"""What every failure row must be, whoever made it."""

from dataclasses import replace
from typing import Any

from contract_wire import RESPONSE, Case, Out
from rollcall_collector.contract.answer import read_run_answer

Json = dict[str, Any]

TOP = {"_ng_task_index", "_ng_rollout_index", "agent_ref", "_ng_failure_class", "_ng_failure_type", "_rollcall"}
MAY = {
    "_ng_failure_message",
    "_ng_failure_http_status",
    "_ng_failure_response_body",
    "_ng_failure_terminal",
    "_ng_attempt_index",
    "response",
}
OWN = {"version", "run", "session", "dispatch", "class", "kind", "root_cause", "tags", "policy"}
CAUSE = {"server", "role", "method", "path", "what", "status", "excerpt"}


def shape_of(row: Json) -> None:
    """The shape of a row of Rollcall's own."""
    assert row.keys() >= TOP
    assert row.keys() <= TOP | MAY
    assert [key for key in row if not key.startswith("_") and isinstance(row[key], int | float)] == []
    assert ("response" in row) <= (row["_ng_failure_class"] == "judge_failed")
    own = row["_rollcall"]
    assert own.keys() - {"withheld_result"} == OWN
    assert own["root_cause"] is None or own["root_cause"].keys() == CAUSE
    assert len(row.get("_ng_failure_response_body", "")) <= 2000


def said_by(row: Json) -> Out:
    """What a row of Rollcall's own says, in the table's words; `tools_alone` and `pardoned` stand nowhere in it."""
    own = row["_rollcall"]
    found = own["root_cause"]
    cause = None if found is None else (found["server"], found["what"], found["status"])
    assert own["class"] == row["_ng_failure_class"]
    return Out(
        "failed",
        cause,
        row["_ng_failure_class"],
        row["_ng_failure_type"],
        own["kind"],
        by_agent=row["_ng_failure_type"] == "agent_declared",
        terminal=row.get("_ng_failure_terminal", False),
    )


def shown(out: Out, server: str) -> Out:
    """How a row shows what must come out: a failure that only the answer declares is the `/run`'s own."""
    declared = out.by_agent and out.cause is None
    return replace(out, tools_alone=False, cause=(server, out.failure_class, 200) if declared else out.cause)


def holds(row: Json, case: Case) -> None:
    """The row of a failed case: the agent's own as it wrote it, or Rollcall's with the answer withheld whole."""
    act = case.run.act
    ending = read_run_answer(act.body) if act.does == "says" and act.status == 200 else None
    if ending is not None and ending.own_row:
        kept = {key: row[key] for key in row if key not in ("_ng_task_index", "_ng_rollout_index", "agent_ref")}
        response = {"response": RESPONSE} if row["_ng_failure_class"] == "judge_failed" else {}
        assert kept == (ending.answer or {}) | response
        return
    shape_of(row)
    assert row["_rollcall"].get("withheld_result") == (ending.answer if ending else None)
    if any(place in case.name for place in ("verify", "judge")) and row["_ng_failure_class"] == "judge_failed":
        assert row["response"] == RESPONSE
