"""The examples of docs/contract.md, made by the functions that decide in the collector and the proxy."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
from rollcall_collector.contract.answer import read_run_answer
from rollcall_collector.contract.exchange import DispatchBegun, DispatchEnded, Tag
from rollcall_collector.contract.gate import Counts, why_withheld, withheld_metrics
from rollcall_collector.contract.policy import Policy
from rollcall_collector.contract.row import failure_row
from rollcall_collector.contract.verdict import Kept, judge

Row = dict[str, Any]

BEGUN = DispatchBegun(
    dispatch="d-1",
    session="s-1",
    run="r-1",
    benchmark="weather_agent",
    rollout="3-0",
    server="weather_agent",
    started_at=100.0,
    identity={"_ng_task_index": 3, "_ng_rollout_index": 0, "agent_ref": {"name": "weather_agent"}},
)


MODEL_CALL = Tag(
    exchange="e.2",
    call="c-2",
    server="policy_model",
    kind="model",
    role="model",
    method="POST",
    path="/v1/responses",
    what="http_status",
    started_at=101.0,
    ended_at=102.0,
    depth=2,
    owner_by="header",
    dispatch="d-1",
    status=400,
    excerpt='{"error": {"message": "temperature is not supported with this model"}}',
)
"""A model refuses a call of the agent's."""

OUTERMOST = replace(
    MODEL_CALL,
    exchange="e.0",
    call="e.0",
    server="weather_agent",
    kind="agent",
    role="run",
    path="/run",
    started_at=100.0,
    ended_at=103.0,
    depth=0,
    owner_by="run",
    status=500,
    excerpt="Hit an exception in …",
)
"""The agent answers `/run` with 500."""


SWALLOWED = {"reward": 0.0, "response": {"id": "resp_1", "output": []}}


def row_of(answer: object, *tags: Tag, status: int | None = 200) -> Row:
    """The row for a dispatch whose `/run` was answered like this; None stands for no usable answer."""
    ending = None if answer is None else read_run_answer(orjson.dumps(answer))
    ended = DispatchEnded(
        "d-1", ending.word if ending else "bad", 110.0, 110.0, status, ending.answer if ending else None
    )
    return failure_row(BEGUN, ended, judge(ended, [Kept(tag) for tag in tags], Policy()), Policy().as_dict())


def agent_run_error() -> Row:
    return row_of(None, MODEL_CALL, OUTERMOST, status=500)


def swallowed() -> Row:
    return row_of(SWALLOWED, MODEL_CALL)


def agent_request_failed() -> Row:
    message = "cannot connect for 30 s, Rollcall's connect_window: [Errno 111] Connect call failed"
    return row_of(None, replace(OUTERMOST, what="unreachable", status=None, message=message, excerpt=""), status=None)


def judge_failed() -> Row:
    judging = replace(MODEL_CALL, server="judge_model", role="judge", status=500, excerpt="judge overloaded")
    return row_of(SWALLOWED, judging)


def own_row() -> Row:
    return row_of({"_ng_failure_class": "agent_timeout", "_ng_failure_message": "the sandbox was out of time"})


def episode_failure() -> Row:
    failure = {"failure_reason": "no sandbox left", "terminal": True}
    return row_of({"episode_id": {"rollout_id": "3-0", "attempt": 0}, "task_id": {}, "failure": failure})


def withheld() -> Row:
    counts = Counts(succeeded=9, failed=3)
    return withheld_metrics(counts, why_withheld(counts))


EXAMPLES: dict[str, Callable[[], Row]] = {
    "agent_run_error": agent_run_error,
    "swallowed": swallowed,
    "agent_request_failed": agent_request_failed,
    "judge_failed": judge_failed,
    "own_row": own_row,
    "episode_failure": episode_failure,
    "withheld": withheld,
}
