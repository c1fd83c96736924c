"""Rows that ask for one fault each, by name: what the agent does (`behaviour`) and what its prompt asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gymlab.runs import Outcome
from gymlab.tasks import Row, task

AGENT = "contract_agent"


@dataclass(frozen=True)
class Case:
    behaviour: str = ""
    ask: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


JUDGED = {"judged": True}
CASES = {
    "good": Case(),
    "judge marked": Case("", "[judge=500]", JUDGED),
    "judge dropped": Case("closed", "[judge=500]", JUDGED),
    "swallowed": Case("swallow", "[model=400]"),
    "tool 404": Case("", "[tool=404]"),
    "tool 422": Case("", "[tool=422]"),
    "tool 500": Case("", "[tool=500]"),
    "stream cut": Case("stream", "[stream=cut]"),
    "stream cut once": Case("stream_again", "[stream=cut-once]"),
    "stream failed": Case("stream", "[stream=failed]"),
    "refused 1": Case("", "[model=401]"),
    "refused 2": Case("", "[model=401]"),
    "refused 3": Case("", "[model=401]"),
    "probe": Case("probe"),
    "compact": Case("compact"),
    "busy": Case("busy"),
    "half": Case("half"),
    "own": Case("own_failure"),
    "terminal": Case("terminal"),
}
GYMS_STREAM = {"gym's stream failed": Case("gyms_stream", "[model=400]"), "gym's stream": Case("gyms_stream")}
"""Where the model server streams by itself: Gym 0.5 on."""


def rows(cases: dict[str, Case], agent: str = AGENT) -> list[Row]:
    """A task for each case, in their order."""
    return [row(number, case) | {"agent_ref": {"name": agent}} for number, case in enumerate(cases.values())]


def row(number: int, case: Case) -> Row:
    made = task(number, f"sf {case.ask}".strip())
    return made | ({"behaviour": case.behaviour} if case.behaviour else {}) | case.extra


def by_name(cases: dict[str, Case], found: list[Row]) -> dict[str, Row]:
    """The rows of an output file by the case they are of."""
    names = list(cases)
    return {names[row["_ng_task_index"]]: row for row in found}


@dataclass
class Seen:
    """What became of each case of a run."""

    outcome: Outcome
    results: dict[str, Row]
    failures: dict[str, Row]

    def cause(self, name: str) -> dict[str, Any]:
        cause: dict[str, Any] = self.failures[name]["_rollcall"]["root_cause"]
        return cause


def seen(cases: dict[str, Case], outcome: Outcome) -> Seen:
    return Seen(outcome, by_name(cases, outcome.rows), by_name(cases, outcome.failures))


def episodes(cases: dict[str, Case]) -> list[Row]:
    """The same as materialized tasks, which Gym 0.7 sends as episode requests."""
    return [episode(number, case) for number, case in enumerate(cases.values())]


def episode(number: int, case: Case) -> Row:
    params = row(number, case)["responses_create_params"]
    task_input = {"responses_create_params": params, "task_data": {"number": number} | case.extra}
    return {"task_id": {"taskset": "weather", "task_id": f"task-{number}"}, "task_input": task_input}
