"""What becomes of a dispatch.

It has failed when its outermost `/run` did not end well or carries Gym's marker, or when the last exchange of any
call made on its behalf did not end well. A call that recovered, an exchange that its caller cancelled, and one that
ended after the outermost answer began decide nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .exchange import DispatchEnded, Tag

State = Literal["succeeded", "failed", "omitted"]

NOTHING_RAN = frozenset({429, 502, 503, 504})
"""Statuses of a `/run` that say only that nothing ran (nemo_gym 0.7.0, `agent_request_failed`)."""

_TRANSPORT_KINDS = {
    "unreachable": "transport_unreachable",
    "timeout": "transport_timeout",
    "peer_drop": "transport_peer_drop",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a dispatch; all but `state` speaks of a failure.

    `failure_class` and `failure_type` are Gym's `_ng_failure_class` and `_ng_failure_type`, `kind` is one of Gym's
    shared kinds; `tags` are those that count, the root cause among them. `by_agent` marks a failure that the
    agent's own answer declares, which is passed on as it is.
    """

    state: State
    failure_class: str = ""
    failure_type: str = ""
    kind: str = ""
    root_cause: Tag | None = None
    tags: tuple[Tag, ...] = ()
    by_agent: bool = False


def judge(
    ended: DispatchEnded, tags: Iterable[Tag], recovered: frozenset[str] | set[str], swallowed: str | None = None
) -> Verdict:
    """Give the verdict on a dispatch from what is known of it.

    `tags` are all tags of the dispatch, that of the outermost `/run` included; `recovered` are the ids of the calls
    that were repeated with success; `swallowed` names a rule of the policy by which a good result has failed.
    """
    if ended.ending == "no_persist":
        return Verdict("omitted", by_agent=True)
    counting = tuple(tag for tag in tags if _counts(tag, ended, recovered))
    if ended.ending == "marker":
        return _declared(ended, counting)
    if not counting and ended.ending == "result":
        return Verdict("failed", "agent_run_error", swallowed, swallowed) if swallowed else Verdict("succeeded")
    return _failed(ended, counting)


def recovered_in_time(recovered: Mapping[str, float], ended: DispatchEnded) -> set[str]:
    """The calls that were repeated with success before the outermost answer began; `recovered` says when."""
    return {call for call, at in recovered.items() if at <= ended.answer_began_at}


def root_cause(tags: Sequence[Tag]) -> Tag | None:
    """The innermost call that failed, the earliest among equals; of its exchanges, the last."""
    if not tags:
        return None
    first = min(tags, key=lambda tag: (-tag.depth, tag.started_at))
    return max((tag for tag in tags if tag.call == first.call), key=lambda tag: tag.ended_at)


def _counts(tag: Tag, ended: DispatchEnded, recovered: frozenset[str] | set[str]) -> bool:
    if tag.what == "cancelled" or tag.call in recovered:
        return False
    return (tag.role == "run" and tag.depth == 0) or tag.ended_at <= ended.answer_began_at


def _declared(ended: DispatchEnded, counting: tuple[Tag, ...]) -> Verdict:
    answer = ended.answer or {}
    inside = answer.get("result")
    declared = answer.get("_ng_failure_class")
    if not declared and isinstance(inside, Mapping):
        declared = inside.get("_ng_failure_class")
    name = str(declared or "agent_run_error")
    return Verdict("failed", name, "agent_declared", name, root_cause(counting), counting, by_agent=True)


def _failed(ended: DispatchEnded, counting: tuple[Tag, ...]) -> Verdict:
    cause = root_cause(counting)
    failure_class = _failure_class(ended, cause)
    outermost = next((tag for tag in counting if tag.role == "run" and tag.depth == 0), None)
    failure_type = outermost.what if outermost else "inner_call_failed"
    return Verdict("failed", failure_class, failure_type, _kind(cause, failure_class), cause, counting)


def _failure_class(ended: DispatchEnded, cause: Tag | None) -> str:
    if cause is not None and cause.role == "judge":
        return "judge_failed"
    unusable = ended.status is None or ended.status in NOTHING_RAN
    return "agent_request_failed" if ended.ending == "bad" and unusable else "agent_run_error"


def _kind(cause: Tag | None, failure_class: str) -> str:
    if cause is None or failure_class == "judge_failed":
        return failure_class
    if cause.what in _TRANSPORT_KINDS:
        return _TRANSPORT_KINDS[cause.what]
    return "verifier_error" if cause.role == "verify" else failure_class
