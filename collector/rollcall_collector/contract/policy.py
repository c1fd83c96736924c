"""The rules that bend what a failure is; they stand in the status and in each row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .exchange import DispatchEnded, Kind, Role

Rule = Literal["warn", "fail"]


@dataclass(frozen=True, slots=True)
class PerAgent:
    """A rule that warns or fails, with other settings for agents that are named."""

    default: Rule = "warn"
    agents: Mapping[str, Rule] = field(default_factory=dict)

    def of(self, agent: str | None) -> Rule:
        """What holds for an agent."""
        return self.agents.get(agent or "", self.default)

    def as_value(self) -> Any:
        """The rule as the policy shows it."""
        return {"default": self.default, **self.agents} if self.agents else self.default


@dataclass(frozen=True, slots=True)
class Policy:
    """The policy in force."""

    no_model_call: PerAgent = field(default_factory=PerAgent)
    empty_output: PerAgent = field(default_factory=PerAgent)
    unattributed: Literal["withhold", "warn"] = "withhold"

    def as_dict(self) -> dict[str, Any]:
        """The policy by the contract's names."""
        return {
            "unknown_route": True,
            "tool_errors": "failure",
            "model_errors": "failure",
            "no_model_call": self.no_model_call.as_value(),
            "empty_output": self.empty_output.as_value(),
            "unattributed": self.unattributed,
            "max_failure_rate": 0,
        }

    def swallowed(self, ended: DispatchEnded, agent: str | None, others_made_calls: Callable[[], bool]) -> str | None:
        """The rule by which a result that ended well has failed all the same, or None.

        What crossed no HTTP, such as a dead Ray worker, shows only so. `others_made_calls` says whether another
        rollout of the benchmark made a model call, so that the agent's calls are watched; asked only where it matters.
        """
        if ended.ending != "result":
            return None
        if not ended.model_calls and self.no_model_call.of(agent) == "fail" and others_made_calls():
            return "no_model_call"
        return "empty_output" if ended.empty_output and self.empty_output.of(agent) == "fail" else None


def parse_rule(text: str) -> PerAgent:
    """`warn`, `fail`, or with agents of their own: `warn,swe_agent=fail`. Raises ValueError."""
    default: Rule = "warn"
    agents: dict[str, Rule] = {}
    for part in (piece.strip() for piece in text.split(",")):
        name, _, value = part.rpartition("=")
        if value not in ("warn", "fail"):
            raise ValueError(f"{part!r}: write warn or fail, or AGENT=fail for one agent")
        rule: Rule = "fail" if value == "fail" else "warn"
        if name:
            agents[name] = rule
        else:
            default = rule
    return PerAgent(default, agents)


def is_failure_status(status: int, kind: Kind, role: Role) -> bool:
    """Whether an answer with this status did not end well.

    `unknown_route`: a 404 or 405 of a model or agent server outside of Gym's own routes is a harness probing.
    """
    if 200 <= status < 400:
        return False
    return not (status in (404, 405) and kind in ("model", "agent") and role == "other")
