"""The examples of docs/contract.md: rows of a real run, and what the contract's own functions make."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from rollcall_collector.contract.answer import read_run_answer
from rollcall_collector.contract.exchange import DispatchBegun, DispatchEnded
from rollcall_collector.contract.gate import Counts, coverage_metrics, why_withheld, withheld_metrics
from rollcall_collector.contract.policy import Policy
from rollcall_collector.contract.row import failure_row
from rollcall_collector.contract.verdict import judge

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


REAL = orjson.loads((Path(__file__).parents[1] / "tests" / "gym" / "examples" / "rows.json").read_bytes())
"""Rows that NeMo Gym 0.7.0 wrote in a run with a fault of each kind; ids and times are made alike."""


def real(title: str) -> Row:
    """A real row; of the answers in it no more than what they are."""
    row: Row = dict(REAL[title])
    own = row.get("_rollcall")
    if own is not None and "withheld_result" in own:
        withheld = {"reward": own["withheld_result"]["reward"], "…": "and all else that the agent answered"}
        row["_rollcall"] = own | {"withheld_result": withheld}
    for name in ("response", "responses_create_params"):
        if name in row:
            row[name] = {"…": "as the agent wrote it" if own is None else "what was to be judged"}
    return row


def episode_failure() -> Row:
    failure = {"failure_reason": "no sandbox left", "terminal": True}
    answer = {"episode_id": {"rollout_id": "3-0", "attempt": 0}, "task_id": {}, "failure": failure}
    ending = read_run_answer(orjson.dumps(answer))
    ended = DispatchEnded("d-1", ending.word, 110.0, 110.0, 200, ending.answer)
    return failure_row(BEGUN, ended, judge(ended, [], Policy()), Policy().as_dict())


def withheld() -> Row:
    counts = Counts(succeeded=9, failed=3)
    return withheld_metrics(counts, why_withheld(counts))


def coverage() -> Row:
    return coverage_metrics(Counts(succeeded=11, failed=1))


EXAMPLES: dict[str, Callable[[], Row]] = {
    "agent_run_error": partial(real, "/run answered an error"),
    "agent_request_failed": partial(real, "/run got no usable answer"),
    "swallowed": partial(real, "an inner call failed and the agent swallowed it"),
    "stream_failed": partial(real, "a stream said that it failed"),
    "judge_failed": partial(real, "a judge failed"),
    "own_row": partial(real, "the agent's own failure"),
    "episode_failure": episode_failure,
    "withheld": withheld,
    "coverage": coverage,
}
