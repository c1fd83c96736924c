"""Events as a proxy sends them, each with sound fields; a test names those that it is about."""

from collections.abc import Collection, Iterable
from dataclasses import asdict
from typing import Any

from rollcall_collector.contract.exchange import (
    Answered,
    DispatchAbandoned,
    DispatchBegun,
    DispatchEnded,
    Event,
    NotInspected,
    Outlived,
    Recovered,
    Spans,
    Tag,
    Verified,
)
from rollcall_collector.contract.policy import Policy
from rollcall_collector.contract.verdict import Kept, Verdict, judge

T0 = 1_700_000_000.0
"""When the outermost `/run` begins; its answer begins 100 s later."""

ANSWERED = T0 + 100


def begun(dispatch: str = "d-1", rollout: str = "0-0", **fields: Any) -> DispatchBegun:
    """An outermost `/run` of session s-1 has been taken in."""
    task, index = (int(part) for part in rollout.split("-")[:2])
    known: dict[str, Any] = {
        "session": "s-1",
        "run": "r-1",
        "benchmark": "math_agent",
        "server": "math_agent",
        "agent": "math_agent",
        "started_at": T0,
        "task_index": task,
        "rollout_index": index,
        "identity": {"_ng_task_index": task, "_ng_rollout_index": index, "agent_ref": {"name": "math_agent"}},
    }
    return DispatchBegun(dispatch=dispatch, rollout=rollout, **(known | fields))


def ended(dispatch: str = "d-1", ending: str = "result", **fields: Any) -> DispatchEnded:
    """The outermost `/run` has its answer."""
    known = {"answer_began_at": ANSWERED, "ended_at": ANSWERED + 1, "status": 200}
    return DispatchEnded(dispatch=dispatch, ending=ending, **(known | fields))  # type: ignore[arg-type]


def tag(dispatch: str | None = "d-1", exchange: str = "x-1", **fields: Any) -> Tag:
    """A model call made on the dispatch's behalf that was answered with 500, in time."""
    known: dict[str, Any] = {
        "call": f"c-{exchange}",
        "server": "policy_model",
        "kind": "model",
        "role": "model",
        "method": "POST",
        "path": "/v1/responses",
        "what": "http_status",
        "status": 500,
        "excerpt": "out of memory",
        "started_at": T0 + 10,
        "ended_at": T0 + 20,
        "depth": 2,
        "owner_by": "header",
    }
    return Tag(dispatch=dispatch, exchange=exchange, **(known | fields))


def run_tag(dispatch: str = "d-1", **fields: Any) -> Tag:
    """The outermost `/run` itself did not end well: 500."""
    known: dict[str, Any] = {
        "exchange": f"run-{dispatch}",
        "server": "math_agent",
        "kind": "agent",
        "role": "run",
        "path": "/run",
        "depth": 0,
        "started_at": T0,
        "ended_at": ANSWERED + 1,
    }
    return tag(dispatch, **(known | fields))


def judged(last: DispatchEnded, tags: Iterable[Tag], healed: Collection[str] = (), **policy: Any) -> Verdict:
    """The verdict on a dispatch; `healed` are calls that were repeated with success in time."""
    times = ((each, T0 + 30 if each.call in healed else None) for each in tags)
    return judge(last, [Kept(each, at) for each, at in times], Policy(**policy))


def recovered(dispatch: str = "d-1", call: str = "c-x-1") -> Recovered:
    """The call was repeated with success."""
    return Recovered(dispatch, call, T0 + 30)


def verified_again(task: int, *tags: Tag, session: str = "s-again") -> list[Event]:
    """The outermost `/verify` of a rollout whose row `gym eval reverify` judges again, in a run of its own."""
    name = f"d-again-{task}"
    opening = begun(name, f"{task}-0", session=session, run="r-again", started_at=T0 + 500)
    return [opening, *tags, ended(name, answer_began_at=T0 + 510, ended_at=T0 + 511)]


def abandoned(dispatch: str = "d-1") -> DispatchAbandoned:
    """The caller of the outermost `/run` has left for good."""
    return DispatchAbandoned(dispatch, T0 + 50)


def outlived(dispatch: str = "d-1", *calls: str, at: float = T0 + 30) -> Outlived:
    """The model server gave a good answer after these calls to it had failed."""
    return Outlived(dispatch, calls or ("c-x-1",), at)


def verified(dispatch: str = "d-1", **response: Any) -> Verified:
    """The `response` in the request of a verification in which something failed."""
    return Verified(dispatch, response or {"id": "resp_1"})


def not_inspected(dispatch: str = "d-1", at: float = T0 + 30) -> NotInspected:
    """An answer to a call of the dispatch could not be read."""
    return NotInspected(dispatch, "policy_model", at)


def answered(state: Any, dispatch: str = "d-1") -> Answered:
    """What a proxy answered by itself while the collector was away."""
    return Answered(dispatch, state)


def span(exchange: str = "x-1", until: float | None = T0 + 20, number: int = 0, **end: Any) -> tuple[Any, ...]:
    """A model call of 10 s that went well."""
    return (number, exchange, T0 + 10, until, end.get("status", 200), end.get("what", ""), end.get("call", ""))


def spans(dispatch: str = "d-1", *told: tuple[Any, ...], lost: int = 0, **shared: Any) -> Spans:
    """Calls of one kind that the agent has made: one of the model where nothing else is said."""
    known = {"server": "policy_model", "kind": "model", "role": "model", "method": "POST", "path": "/v1/responses"}
    common = known | {"parent": f"run-{dispatch}", "depth": 2, "owner_by": "header", "carrier": ""} | shared
    return Spans(dispatch, [tuple(common.values())], [*(told or (span(),))], lost)  # type: ignore[list-item]  # wrong ones are sent, too


def run_spans(dispatch: str = "d-1", until: float | None = ANSWERED + 1) -> Spans:
    """The outermost `/run` itself."""
    agent = {"server": "math_agent", "kind": "agent", "role": "run", "path": "/run"}
    own = (0, f"run-{dispatch}", T0, until, 200 if until else None, "", "")
    return spans(dispatch, own, parent="", depth=0, owner_by="run", **agent)


TOOL: dict[str, Any] = {"server": "weather", "kind": "resources", "role": "tool", "path": "/get_weather"}
"""Fields of a tag: a tool's, and not the model's."""


def batch(sender: str, first: int, *events: Event) -> dict[str, Any]:
    """The body of POST /v1/events."""
    return {"sender": sender, "first": first, "events": [asdict(event) for event in events]}
