"""What the table is written in: the exchanges of a rollout as a tree of values, and what must come of it.

A `Call` is one exchange: where it goes, what its server does, and the calls that the server makes before that. The
steps inside happen one after the other, those of a `Together` overlap. A retry is the same call once more.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rollcall_collector.contract.exchange import Kind, Role


@dataclass(frozen=True)
class Place:
    """A route of one of Gym's servers."""

    server: str
    kind: Kind
    role: Role
    path: str
    method: str = "POST"

    def of(self, server: str) -> "Place":
        """The same route of another server."""
        return replace(self, server=server)


RUN = Place("agent", "agent", "run", "/run")
ENVIRONMENT = Place("environment", "environment", "run", "/run")
NESTED = Place("harness", "agent", "run", "/run")
SELF = Place("agent", "agent", "agent", "/v1/responses")
MODEL = Place("model", "model", "model", "/v1/responses")
CHAT = Place("model", "model", "model", "/v1/chat/completions")
MESSAGES = Place("model", "model", "model", "/v1/messages")
PROBE = Place("model", "model", "other", "/v1/models", "GET")
KNOCK = Place("agent", "agent", "other", "/", "HEAD")
HEALTH = Place("environment", "environment", "other", "/health", "GET")
PROVIDER = Place("model.provider", "provider", "provider", "/v1/chat/completions")
SEED = Place("tools", "resources", "seed_session", "/seed_session")
TOOL = Place("tools", "resources", "tool", "/get_weather")
VERIFY = Place("tools", "resources", "verify", "/verify")
CLOSE = Place("tools", "resources", "close_session", "/close_session")
MCP_STREAM = Place("tools", "resources", "tool", "/mcp", "GET")
MCP_END = Place("tools", "resources", "tool", "/mcp", "DELETE")
JUDGE = Place("judge_model", "model", "judge", "/v1/responses")
"""Only inside of VERIFY: elsewhere it is a model call."""

GONE = "_gone"
"""A server whose name ends so refuses every connection."""
WAKING = "_waking"
"""A server whose name ends so refuses connections until the table says that it answers."""

RESPONSE = {"id": "resp_1", "output": [{"type": "message", "content": [{"type": "output_text", "text": "cold"}]}]}
RESULT: dict[str, Any] = {"reward": 1.0, "response": RESPONSE}
GOOD: Mapping[str, Any] = {
    "run": RESULT,
    "verify": {"reward": 1.0},
    "model": {"status": "completed", "error": None, "output": []},
    "agent": {"status": "completed", "output": []},
}
"""What a server of a role answers when all goes well; the others say `{}`."""


@dataclass(frozen=True)
class Act:
    """What a server does with a request.

    It `says` an answer, `refuses` the connection, stays `silent`, or `cuts` its answer off after `body`; or its
    caller has `left` before it did anything. `coding` is a content coding that the body is said to be in, `shutdown`
    that the server says so while it is being shut down.
    """

    does: Literal["says", "refuses", "silent", "cuts", "left"]
    status: int | None = None
    body: bytes = b""
    type: str = "application/json"
    coding: str = ""
    shutdown: bool = False


def says(value: Any = "trouble", status: int = 200, type: str = "application/json", **more: Any) -> Act:
    """An answer: bytes as they are, anything else as JSON."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Act("says", status, body, type, **more)


def streams(*events: str, end: str = "\n\n") -> Act:
    """An answer as an event stream."""
    return says("".join(event + end for event in events).encode(), type="text/event-stream")


def cuts(body: bytes = b'{"output": ', type: str = "application/json", **more: Any) -> Act:
    """An answer of 200 that breaks off after these bytes."""
    return Act("cuts", 200, body, type, **more)


REFUSES, SILENT, LEFT = Act("refuses"), Act("silent"), Act("left")


@dataclass(frozen=True)
class Call:
    """One exchange; `word` makes its body differ from others. A `late` one is still open when `/run` is answered."""

    place: Place
    act: Act
    inside: tuple["Step", ...] = ()
    word: str = ""
    late: bool = False

    @property
    def request(self) -> dict[str, Any]:
        """The body of the request."""
        return {"input": self.word} | ({"response": RESPONSE} if self.place.role == "verify" else {})


@dataclass(frozen=True)
class Together:
    """Calls that overlap: all have begun before the first is answered; they are answered in this order."""

    calls: tuple[Call, ...]


Step = Call | Together


def call(place: Place, act: Act | None = None, *inside: Step, **more: Any) -> Call:
    """A call; all goes well unless the server does something else."""
    return Call(place, act or good(place), inside, **more)


def good(place: Place) -> Act:
    """The answer of a place where all goes well."""
    return says(GOOD.get(place.role, {}))


def together(*calls: Call) -> Together:
    return Together(calls)


def rollout(*inside: Step, says_in_the_end: Act | None = None, to: Place = RUN) -> Call:
    """An outermost `/run`, whose agent makes these calls and has a good result whatever comes of them."""
    return call(to, says_in_the_end, *inside)


@dataclass(frozen=True)
class Out:
    """What must come of a rollout; all but the state, `pardoned` and `notes` speaks of a failure.

    `cause` is the root cause's server, what and status. `pardoned` counts failed calls that are no failure, by rule.
    `notes` are what is said of a success: masked, unscored, not_inspected, empty_output, no_model_call.
    """

    state: Literal["succeeded", "failed", "omitted"]
    cause: tuple[str, str, int | None] | None = None
    failure_class: str = ""
    failure_type: str = ""
    kind: str = ""
    by_agent: bool = False
    terminal: bool = False
    tools_alone: bool = False
    pardoned: Mapping[str, int] = field(default_factory=dict)
    notes: frozenset[str] = frozenset()


def clean(*notes: str, **pardoned: int) -> Out:
    """A success."""
    return Out("succeeded", pardoned=pardoned, notes=frozenset(notes))


def failed(
    server: str, what: str, status: int | None = None, failure_class: str = "agent_run_error", **more: Any
) -> Out:
    """A failure that an inner call made; its kind is its class unless another is given."""
    known = {"failure_type": "inner_call_failed", "kind": failure_class}
    return Out("failed", (server, what, status), failure_class, **(known | more))


def declared(failure_class: str, cause: tuple[str, str, int | None] | None = None, **more: Any) -> Out:
    """A failure that the agent's own answer declares."""
    return Out("failed", cause, failure_class, "agent_declared", failure_class, by_agent=True, **more)


OMITTED = Out("omitted")


@dataclass(frozen=True)
class Case:
    """A transcript and what must come of it.

    `after` are calls made when the dispatcher has its answer; `earlier` is a dispatch of the same rollout by an
    earlier session; `others` says that other rollouts of the benchmark make model calls. `sockets` is False where
    the limits of a real proxy, which are the same for all servers, cannot act the case out.
    """

    name: str
    run: Call
    out: Out
    policy: Mapping[str, Any] = field(default_factory=dict)
    after: tuple[Step, ...] = ()
    earlier: Call | None = None
    others: bool = False
    sockets: bool = True
