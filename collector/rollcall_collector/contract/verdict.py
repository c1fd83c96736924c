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

from .answer import declared_failure
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
    pardons = {tag.exchange: pardon(tag, policy, ended.ending) for tag in standing}
    last = _last_exchanges(standing)
    failed = {tag.call for tag in last if pardons[tag.exchange] is None}
    counting = tuple(tag for tag in standing if tag.call in failed and pardons[tag.exchange] is None)
    rules = [rule for tag in last if (rule := pardons[tag.exchange]) is not None]
    pardoned = dict(Counter(rules)) if rules else {}
    if ended.ending == "no_persist":
        return Verdict("omitted", by_agent=True)
    if _is_shut_down([tag for tag in last if tag.call in failed]):
        return Verdict("omitted", root_cause=root_cause(counting), tags=counting)
    if ended.ending == "marker":
        return _declared(ended, counting, [tag for tag in standing if _is_outermost(tag)], policy)
    if not counting and ended.ending == "result":
        return _swallowed(swallowed, policy, pardoned) if swallowed else Verdict("succeeded", pardoned=pardoned)
    return _failed(ended, counting, policy)


def pardon(tag: Tag, policy: Policy, ending: str | None) -> str | None:
    """The rule by which an exchange of a dispatch that did not end well is no failure, or None where it is one.

    The outermost `/run` speaks for itself, unless nothing but a rule of the user's has called it a failure. An agent
    that did not go on after a refusal for length has failed of that.
    """
    if _is_outermost(tag) and not tag.by_rule:
        return None
    rule = policy.pardon(tag)
    return None if rule == "context_limit" and ending == "bad" else rule


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


def _last_exchanges(standing: Iterable[Tag]) -> list[Tag]:
    """The last exchange of each call, by which the call is judged."""
    last = {tag.call: tag for tag in sorted(standing, key=lambda tag: tag.ended_at)}
    return list(last.values())


def _is_shut_down(counting: Sequence[Tag]) -> bool:
    """Whether a shutdown is what failed first: what failed after it, and because of it, proves nothing."""
    killed = min((tag.ended_at for tag in counting if tag.shutdown), default=None)
    return killed is not None and all(tag.shutdown or tag.ended_at >= killed for tag in counting)


def _declared(ended: DispatchEnded, counting: tuple[Tag, ...], own: Sequence[Tag], policy: Policy) -> Verdict:
    """`own` is the tag that a terminal rule has left of the answer itself, which is a failure without it, too."""
    name, kind = declared_failure(ended.answer or {})
    terminal = any(policy.is_terminal([*own, *counting], each) for each in {name, kind})
    cause = root_cause(counting)
    return Verdict("failed", name, "agent_declared", kind, cause, counting, by_agent=True, terminal=terminal)


def _swallowed(rule: str, policy: Policy, pardoned: Mapping[str, int]) -> Verdict:
    """A good result that hides a failure, by a rule of the policy."""
    terminal = policy.is_terminal((), rule)
    return Verdict("failed", "agent_run_error", rule, rule, terminal=terminal, pardoned=pardoned)


def _failed(ended: DispatchEnded, counting: tuple[Tag, ...], policy: Policy) -> Verdict:
    cause = root_cause(counting)
    failure_class = "judge_failed" if _is_judges(cause, counting) else _failure_class(ended)
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


def _is_judges(cause: Tag | None, counting: Sequence[Tag]) -> bool:
    """Whether a judge's model call is what failed: that call itself, or one of the provider that it waited for."""
    if cause is None or cause.role != "provider":
        return cause is not None and (cause.role == "judge" or cause.marker == "judge_failed")
    return any(tag.role == "judge" and _is_behind(cause, tag) for tag in counting)


def _is_behind(provider: Tag, call: Tag) -> bool:
    """Whether a model server asked its provider while it answered a call."""
    within = call.started_at <= provider.started_at and provider.ended_at <= call.ended_at
    return within and provider.depth == call.depth + 1 and provider.server.startswith(f"{call.server}.provider")


def _failure_class(ended: DispatchEnded) -> str:
    unusable = ended.status is None or ended.status in NOTHING_RAN
    return "agent_request_failed" if ended.ending == "bad" and unusable else "agent_run_error"


def _kind(cause: Tag | None, failure_class: str) -> str:
    if cause is None or failure_class == "judge_failed":
        return failure_class
    if cause.what in _TRANSPORT_KINDS:
        return _TRANSPORT_KINDS[cause.what]
    return cause.marker or ("verifier_error" if cause.role == "verify" else failure_class)
