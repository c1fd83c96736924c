"""The rules that bend what a failure is. Each has a name, stands in the status and in each row, and can be switched.

Every exchange outside of 2xx and 3xx leaves a tag; whether the tag counts is decided here, from the tag alone. So a
run can be judged again under another policy without a new call.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypedDict

from .exchange import DispatchEnded, Tag
from .rules import Rule, Rules

ON_OFF = ("on", "off")
WARN_FAIL = ("warn", "fail")
WORDS: dict[str, tuple[str, ...]] = {
    "unknown_route": ON_OFF,
    "context_limit": ON_OFF,
    "optional_stream": ON_OFF,
    "clean_up": ON_OFF,
    "tool_errors": ("failure", "model_visible_4xx", "model_visible"),
    "model_errors": ("failure", "last_wins"),
    "no_model_call": WARN_FAIL,
    "empty_output": WARN_FAIL,
}
"""The rules that may differ from server to server, and what each can be; the first is the default."""

MODEL_VISIBLE = frozenset({400, 404, 405, 409, 422})
"""Statuses with which a tool tells the model that it was called wrongly."""


class Head(TypedDict):
    """What the user's rules ask of an exchange besides what went wrong and the body."""

    server: str
    server_kind: str
    path: str
    status: int | None


@dataclass(frozen=True, slots=True)
class PerServer:
    """A rule with other settings for servers (or agents) that are named."""

    default: str
    servers: Mapping[str, str] = field(default_factory=dict)

    def of(self, *names: str | None) -> str:
        """What holds where one of these servers plays a part; the first that is named in the setting decides."""
        return next((self.servers[name] for name in names if name and name in self.servers), self.default)

    def as_value(self) -> Any:
        """The rule as the policy shows it."""
        return {"default": self.default, **self.servers} if self.servers else self.default


_ON, _FAILURE, _WARN = PerServer("on"), PerServer("failure"), PerServer("warn")


@dataclass(frozen=True, slots=True)
class Policy:
    """The policy in force."""

    unknown_route: PerServer = _ON
    context_limit: PerServer = _ON
    optional_stream: PerServer = _ON
    clean_up: PerServer = _ON
    tool_errors: PerServer = _FAILURE
    model_errors: PerServer = _FAILURE
    no_model_call: PerServer = _WARN
    empty_output: PerServer = _WARN
    unattributed: Literal["withhold", "warn"] = "withhold"
    max_failure_rate: float = 0.0
    rules: Rules = field(default_factory=Rules)

    def as_dict(self) -> dict[str, Any]:
        """The policy by the contract's names, as rows, the status and the API show it."""
        shown = {name: getattr(self, name).as_value() for name in WORDS}
        return shown | {
            "unattributed": self.unattributed,
            "max_failure_rate": self.max_failure_rate,
            "rules": self.rules.as_value(),
        }

    def pardon(self, tag: Tag) -> str | None:
        """The name of the rule by which an exchange that did not end well is no failure, or None where it is one."""
        if matching := self.matching(tag):
            decided = next((rule for rule in matching if rule.effect != "terminal"), None)
            return decided.name if decided is not None and decided.effect != "failure" else None
        if tag.by_rule:
            return "rules"  # one that is no longer in force had found it
        if tag.method == "POST" and tag.role not in _BENT and not tag.too_long:
            return None  # so most are, and none of the rules speaks of them
        for name, pardons in _PARDONS:
            if pardons(self, tag):
                return name
        return None

    def matching(self, tag: Tag, kind: str | None = None) -> tuple[Rule, ...]:
        """The user's rules that speak of an exchange, in their order in the file; `kind` is that of the failure."""
        if not self.rules.rules:
            return ()
        head: Head = {"server": tag.server, "server_kind": tag.kind, "path": tag.path, "status": tag.status}
        body = tag.excerpt.encode("utf-8", "replace")
        found = self.rules.matching(**head, what=tag.what, body=body, kind=kind)
        # What was found in the whole body; a rule of that name may meanwhile speak of something else.
        in_body = [rule for rule in self.rules.about(**head) if rule.name in tag.rules]
        names = {*found, *(rule.name for rule in in_body if rule.is_for(what=tag.what, kind=kind))}
        return tuple(rule for rule in self.rules.rules if rule.name in names)

    def is_terminal(self, tags: Iterable[Tag], kind: str) -> bool:
        """Whether a failure is one that no retry can mend, by a rule of the user's.

        A rule that asks for the kind alone holds also where no call is known to have failed, as when an agent has
        declared the failure.
        """
        if not self.rules.rules:
            return False
        if any(rule.is_terminal_for(kind) for rule in self.rules.rules):
            return True
        return any(rule.effect == "terminal" for tag in tags for rule in self.matching(tag, kind))

    def heals_later(self, tag: Tag) -> bool:
        """Whether a later good call to the same model server heals this one."""
        return tag.role in ("model", "judge") and self.model_errors.of(tag.server) == "last_wins"

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


def _unknown_route(policy: Policy, tag: Tag) -> bool:
    """A harness that probes what there is, such as `HEAD /` or `GET /v1/models`; all of Gym's own routes are POST."""
    unknown = tag.role == "other" or tag.method != "POST"
    probed = unknown and tag.status in (404, 405) and tag.kind in ("model", "agent")
    return probed and tag.what == "http_status" and policy.unknown_route.of(tag.server) == "on"


def _context_limit(policy: Policy, tag: Tag) -> bool:
    """A model call refused for its length is the model's own outcome where the agent goes on."""
    asked = tag.what == "http_status" and tag.role in ("model", "judge", "provider")
    return asked and tag.too_long and policy.context_limit.of(tag.server) == "on"


def _optional_stream(policy: Policy, tag: Tag) -> bool:
    """A stream of MCP's streamable HTTP: a server may refuse it with 405 and end it at any time (MCP 2025-03-26)."""
    asked = tag.kind == "resources" and tag.role == "tool" and tag.method == "GET"
    refused = tag.what == "http_status" and tag.status == 405
    broken = tag.stream and tag.what in ("peer_drop", "timeout")
    return asked and (refused or broken) and policy.optional_stream.of(tag.server) == "on"


def _clean_up(policy: Policy, tag: Tag) -> bool:
    """What closes a session: `/close_session`, and the DELETE of an MCP session at a resources server."""
    closes = tag.role == "close_session" or (tag.kind == "resources" and tag.method == "DELETE")
    return closes and policy.clean_up.of(tag.server) == "on"


def _tool_errors(policy: Policy, tag: Tag) -> bool:
    """A tool's status that is shown to the model is the model's own affair; that nobody answered never is."""
    if tag.role != "tool" or tag.kind != "resources" or tag.what != "http_status":
        return False
    word = policy.tool_errors.of(tag.server)
    return word == "model_visible" or (word == "model_visible_4xx" and tag.status in MODEL_VISIBLE)


_PARDONS: tuple[tuple[str, Callable[[Policy, Tag], bool]], ...] = (
    ("unknown_route", _unknown_route),
    ("context_limit", _context_limit),
    ("optional_stream", _optional_stream),
    ("clean_up", _clean_up),
    ("tool_errors", _tool_errors),
)
"""The rules by which a bad exchange is no failure, in the order in which they are asked."""
_BENT = frozenset({"close_session", "other", "tool"})
"""Roles of which a POST may be no failure, whatever is wrong; of the others, only one refused for its length."""


def parse_rule(text: str, words: tuple[str, ...] = WARN_FAIL) -> PerServer:
    """`warn`, `fail`, or with servers of their own: `warn,swe_agent=fail`. Raises ValueError."""
    default, servers = words[0], dict[str, str]()
    for part in (piece.strip() for piece in text.split(",")):
        name, _, word = part.rpartition("=")
        if word not in words:
            raise ValueError(f"{part!r}: write {' or '.join(words)}, or NAME={words[-1]} for one server")
        if name:
            servers[name] = word
        else:
            default = word
    return PerServer(default, servers)


def policy_from(value: Mapping[str, Any]) -> Policy:
    """The policy that `as_dict` gave. What is left out has its default. Raises ValueError."""
    known = {each.name for each in fields(Policy)}
    for name in value:
        if name not in known:
            raise ValueError(f"policy: no rule is called {name!r}; there are {', '.join(sorted(known))}")
    rules = {name: _per_server(name, value[name]) for name in WORDS if name in value}
    rate, unowned = value.get("max_failure_rate", 0.0), value.get("unattributed", "withhold")
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
        raise ValueError(f"max_failure_rate: {rate!r} is no share; send a number from 0 to 1")
    if unowned not in ("withhold", "warn"):
        raise ValueError(f"unattributed: {unowned!r}; send withhold or warn")
    return Policy(**rules, unattributed=unowned, max_failure_rate=rate, rules=Rules.from_value(value.get("rules", [])))


def _per_server(name: str, value: Any) -> PerServer:
    words = value if isinstance(value, Mapping) else {"default": value}
    for server, word in words.items():
        if word not in WORDS[name]:
            raise ValueError(f"{name}: {word!r} for {server!r}; send {' or '.join(WORDS[name])}")
    servers = {server: word for server, word in words.items() if server != "default"}
    return PerServer(words.get("default", WORDS[name][0]), servers)


def ended_well(status: int) -> bool:
    """Whether an answer's status says that the exchange ended well."""
    return 200 <= status < 400
