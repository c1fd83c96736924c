"""What the user's rules say of one answer."""

from collections.abc import Collection
from dataclasses import dataclass, field

from rollcall_collector.contract.policy import Policy
from rollcall_collector.contract.rules import Rule

from .exchange import Exchange

KEPT = 64 * 1024
"""Bytes of a body that are kept for its excerpt and for the rules, which search no more of it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The user's rules that may speak of an answer, by everything but its body."""

    candidates: tuple[Rule, ...]
    need_body: bool = field(init=False)
    """Whether one of them asks for something in the body."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "need_body", any(rule.needs_body for rule in self.candidates))

    def in_body(self, body: bytes) -> tuple[str, ...]:
        """The names of those that ask for something in the body, and find it."""
        return tuple(rule.name for rule in self.candidates if rule.needs_body and rule.matches_body(body))

    def failing(self, body: bytes, declared: Collection[str] = ()) -> Rule | None:
        """The rule by which an answer is a failure in which nothing else found one.

        A terminal rule must speak of the answer: one that names no more than a place says what its failures are. In
        what declares a failure itself, of these kinds (`declared`), only a terminal rule has something to say.
        """
        kinds = declared or (None,)
        speaking = (rule for rule in self.candidates if any(rule.is_for(what=None, kind=kind) for kind in kinds))
        holding = [rule for rule in speaking if rule.matches_body(body)]
        decided = next((rule for rule in holding if rule.effect != "terminal"), None)
        if decided is not None and not declared:
            return decided if decided.effect == "failure" else None
        terminal = (rule for rule in holding if rule.effect == "terminal")
        return next((rule for rule in terminal if declared or rule.needs_body or rule.status), None)


_NONE = Asked(())


def asked_of(exchange: Exchange, status: int, policy: Policy) -> Asked:
    """The user's rules for an answer."""
    if not policy.rules.rules:
        return _NONE
    upstream = exchange.upstream
    found = policy.rules.about(server=upstream.name, server_kind=upstream.kind, path=exchange.route, status=status)
    return Asked(found)
