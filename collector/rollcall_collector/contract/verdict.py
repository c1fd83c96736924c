"""What becomes of a dispatch.

It has failed when its outermost `/run` did not end well or carries Gym's marker, or when the last exchange of any
call made on its behalf did not end well. A call that recovered, an exchange that its caller cancelled, one that a
rule of the policy pardons, and one that ended after the outermost answer began decide nothing. What failed only
because a server was being shut down is omitted.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from .exchange import DispatchEnded, Tag
from .policy import Policy

State = Literal["succeeded", "failed", "omitted"]

NOTHING_RAN = frozenset({429, 502, 503, 504})
"""Statuses of a `/run` that say only that nothing ran (nemo_gym 0.7.0, `agent_request_failed`)."""

_TRANSPORT_KINDS = {
    "unreachable": "transport_unreachable",
    "timeout": "transport_timeout",
    "peer_drop": "transport_peer_drop",
}


@dataclass(frozen=True, slots=True)
class Kept:
    """A tag, and what came of its call: when it was repeated with success, and when its server gave a good answer to
    another call of the same dispatch (`outlived_at`)."""

    tag: Tag
    recovered_at: float | None = None
    outlived_at: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a dispatch; all but `state` and `pardoned` speaks of a failure.

    `failure_class` and `failure_type` are Gym's `_ng_failure_class` and `_ng_failure_type`, `kind` is one of Gym's
    shared kinds; `tags` are those that count, the root cause among them. `by_agent` marks a failure that the
    agent's own answer declares, `terminal` one that no retry can mend, `tools_alone` one that nothing but statuses of
    tools has made. `pardoned` counts the calls that failed and are no failure, by the rule that says so.
    """

    state: State
    failure_class: str = ""
    failure_type: str = ""
    kind: str = ""
    root_cause: Tag | None = None
    tags: tuple[Tag, ...] = ()
    by_agent: bool = False
    terminal: bool = False
    tools_alone: bool = False
    pardoned: Mapping[str, int] = field(default_factory=dict)


def judge(ended: DispatchEnded, kept: Iterable[Kept], policy: Policy, swallowed: str | None = None) -> Verdict:
    """Give the verdict on a dispatch from what is known of it.

    `kept` are all tags of the dispatch, that of the outermost `/run` included; `swallowed` names a rule of the policy
    by which a good result has failed.
    """
    standing = [each.tag for each in kept if _stands(each, ended, policy)]
    # The outermost `/run` speaks for itself, unless nothing but a rule of the user's has called it a failure.
    pardons = {tag.exchange: None if _is_outermost(tag) and not tag.by_rule else policy.pardon(tag) for tag in standing}
    if ended.ending == "bad":  # the agent did not go on after a refusal for length: that is what it failed of
        pardons = {exchange: None if rule == "context_limit" else rule for exchange, rule in pardons.items()}
    counting = tuple(tag for tag in standing if pardons[tag.exchange] is None)
    pardoned = _pardoned_calls(standing, pardons)
    if ended.ending == "no_persist":
        return Verdict("omitted", by_agent=True)
    if _is_shut_down(counting) and (ended.ending != "result" or counting):
        return Verdict("omitted", root_cause=root_cause(counting), tags=counting)
    if ended.ending == "marker":
        return _declared(ended, counting, policy)
    if not counting and ended.ending == "result":
        hidden = Verdict("failed", "agent_run_error", swallowed or "", swallowed or "", pardoned=pardoned)
        return hidden if swallowed else Verdict("succeeded", pardoned=pardoned)
    return _failed(ended, counting, policy)


def root_cause(tags: Sequence[Tag]) -> Tag | None:
    """The innermost call that failed, the earliest among equals; of its exchanges, the last."""
    if not tags:
        return None
    first = min(tags, key=lambda tag: (-tag.depth, tag.started_at))
    return max((tag for tag in tags if tag.call == first.call), key=lambda tag: tag.ended_at)


def _is_outermost(tag: Tag) -> bool:
    return tag.role == "run" and tag.depth == 0


def _stands(kept: Kept, ended: DispatchEnded, policy: Policy) -> bool:
    """Whether a call stood failed when the outermost answer began."""
    tag, until = kept.tag, ended.answer_began_at
    if tag.what == "cancelled" or (kept.recovered_at is not None and kept.recovered_at <= until):
        return False
    if kept.outlived_at is not None and kept.outlived_at <= until and policy.heals_later(tag):
        return False
    return _is_outermost(tag) or tag.ended_at <= until


def _pardoned_calls(standing: Iterable[Tag], pardons: Mapping[str, str | None]) -> dict[str, int]:
    calls = {(tag.call, rule) for tag in standing if (rule := pardons[tag.exchange]) is not None}
    return dict(Counter(rule for _, rule in calls))


def _is_shut_down(counting: Sequence[Tag]) -> bool:
    """Whether a shutdown is what failed first: what failed after it, and because of it, proves nothing."""
    killed = min((tag.ended_at for tag in counting if tag.shutdown), default=None)
    return killed is not None and all(tag.shutdown or tag.ended_at >= killed for tag in counting)


def _declared(ended: DispatchEnded, counting: tuple[Tag, ...], policy: Policy) -> Verdict:
    answer = ended.answer or {}
    inside = answer.get("result")
    declared = answer.get("_ng_failure_class")
    if not declared and isinstance(inside, Mapping):
        declared = inside.get("_ng_failure_class")
    name = str(declared or "agent_run_error")
    terminal = policy.is_terminal(counting, name)
    cause = root_cause(counting)
    return Verdict("failed", name, "agent_declared", name, cause, counting, by_agent=True, terminal=terminal)


def _failed(ended: DispatchEnded, counting: tuple[Tag, ...], policy: Policy) -> Verdict:
    cause = root_cause(counting)
    failure_class = _failure_class(ended, cause)
    outermost = next((tag for tag in counting if _is_outermost(tag)), None)
    failure_type = outermost.what if outermost else "inner_call_failed"
    kind = _kind(cause, failure_class)
    return Verdict(
        "failed",
        failure_class,
        failure_type,
        kind,
        cause,
        counting,
        terminal=policy.is_terminal(counting, kind),
        tools_alone=bool(counting) and all(_is_tool_status(tag) for tag in counting),
    )


def _is_tool_status(tag: Tag) -> bool:
    return tag.role == "tool" and tag.kind == "resources" and tag.what == "http_status"


def _failure_class(ended: DispatchEnded, cause: Tag | None) -> str:
    if cause is not None and (cause.role == "judge" or cause.marker == "judge_failed"):
        return "judge_failed"
    unusable = ended.status is None or ended.status in NOTHING_RAN
    return "agent_request_failed" if ended.ending == "bad" and unusable else "agent_run_error"


def _kind(cause: Tag | None, failure_class: str) -> str:
    if cause is None or failure_class == "judge_failed":
        return failure_class
    if cause.what in _TRANSPORT_KINDS:
        return _TRANSPORT_KINDS[cause.what]
    return cause.marker or ("verifier_error" if cause.role == "verify" else failure_class)
