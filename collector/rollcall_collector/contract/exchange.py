"""An exchange that did not end well, and the events that tell a dispatch's life.

Events travel from proxies to the collector in the order in which they happened; each is small, never changed and
carries absolute times (seconds since the epoch). A `Tag` is the durable record of one bad exchange.

The three kinds that most events are of are neither frozen nor have slots: so they are made, and made JSON, four times
as fast (measured).
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, Field

What = Literal["http_status", "unreachable", "timeout", "peer_drop", "body_failure", "invalid_result", "cancelled"]
Role = Literal[
    "run",
    "agent",
    "model",
    "judge",
    "provider",
    "seed_session",
    "verify",
    "tool",
    "aggregate_metrics",
    "close_session",
    "other",
]
Kind = Literal["agent", "model", "resources", "environment", "provider", "unknown"]

EXCERPT_LIMIT = 2000
"""Characters of a failed answer's body that are kept; the length Gym itself cuts `_ng_failure_response_body` at."""

Text = Annotated[str, Field(max_length=4096)]
Name = Annotated[str, Field(max_length=1024, pattern=r"^[^\x00]*$")]
"""A text that is looked for in a database: PostgreSQL keeps no NUL."""
ID = r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,199}$"
Id = Annotated[str, Field(min_length=1, max_length=200, pattern=ID)]

FilePath = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00]*$")]
"""PATH_MAX of Linux; no path has a NUL."""
Whole = Annotated[int, Field(ge=0, le=2**63 - 1)]
"""A number that each database can hold."""
Status = Annotated[int, Field(ge=0, le=999)]
Depth = Annotated[int, Field(ge=0, le=1000)]
Moment = Annotated[float, Field(allow_inf_nan=False)]
"""Seconds since the epoch."""


_AROUND = 50
"""Levels that stand around a value where it is kept, at the most."""

_WRITTEN = 254
"""Levels that orjson writes; it reads 1024."""


def is_keepable(value: Any) -> bool:
    """Whether a value that was read can be written again, with what stands around it."""
    try:
        text = orjson.dumps(value)
        if text.count(b"[") + text.count(b"{") > _WRITTEN - _AROUND:  # else it cannot be that deep
            for _ in range(_AROUND):
                value = [value]
            orjson.dumps(value)
    except orjson.JSONEncodeError:
        return False
    return True


def kept_part(value: dict[str, Any]) -> dict[str, Any]:
    """The object, without the members that are nested too deep to be kept."""
    return value if is_keepable(value) else {name: each for name, each in value.items() if is_keepable(each)}


def _keepable(value: dict[str, Any]) -> dict[str, Any]:
    if not is_keepable(value):
        raise ValueError("nested too deep; send what is nested 200 deep at most")
    return value


Kept = Annotated[dict[str, Any], AfterValidator(_keepable)]
"""A JSON object that is kept as it is."""

DISPATCHES_TOGETHER, CALLS_TOGETHER, RULES_TOGETHER = 100_000, 100_000, 1000
"""Ids in one event at the most."""

TraceId = Annotated[str, Field(pattern=r"^(?:[0-9a-f]{32})?$")]
"""A trace id of W3C Trace Context (https://www.w3.org/TR/trace-context/#trace-id); empty where none can be read."""


@dataclass  # without slots: see above
class Tag:
    """One exchange that did not end well. As with every event, nobody changes it: `replace` makes another.

    `depth` counts the exchanges above it (an outermost `/run` has 0); `owner_by` says by which way its owner was
    found, `none` where it has no owner; `carrier` is what named it where that may turn out to be shared, and
    `conflict` what later ways said otherwise. `message` is Rollcall's own sentence, `excerpt` the server's text.

    `marker` is the failure class that a `/verify` answer declares. `too_long` says that the whole answer reads as a
    refusal of the request for its length (`context_limit.refused_for_length`). `stream` says that the answer was an
    event stream, `shutdown` that it was given, or was none, only because its server was being shut down. `rules` names
    the user's rules whose condition on the body held; `by_rule` marks an exchange that nothing but such a rule calls a
    failure. `count` is how many exchanges it stands for, of which this is the last: those of its call that ended in the
    same way (`repeating`) since the tag before it.
    """

    exchange: Id
    call: Id
    server: Name
    kind: Kind
    role: Role
    method: Text
    path: Text
    what: What
    started_at: Moment
    ended_at: Moment
    depth: Depth
    owner_by: Text
    dispatch: Id | None = None
    status: Status | None = None
    message: Text = ""
    excerpt: Text = ""
    carrier: Name = ""
    conflict: Text = ""
    marker: Text = ""
    too_long: bool = False
    stream: bool = False
    shutdown: bool = False
    rules: Annotated[tuple[Text, ...], Field(max_length=RULES_TOGETHER)] = ()
    by_rule: bool = False
    count: Annotated[int, Field(ge=1, le=2**53)] = 1
    event: Literal["tag"] = "tag"


@dataclass(frozen=True, slots=True)
class Recovered:
    """A call that had failed and was then repeated with success: its tags stay on record and decide nothing."""

    dispatch: Id
    call: Id
    ended_at: Moment
    event: Literal["recovered"] = "recovered"


@dataclass(frozen=True, slots=True)
class Outlived:
    """A model server gave a good answer after calls to it had failed: under `last_wins` it heals them."""

    dispatch: Id
    calls: Annotated[tuple[Id, ...], Field(max_length=CALLS_TOGETHER)]
    ended_at: Moment
    event: Literal["outlived"] = "outlived"


@dataclass(frozen=True, slots=True)
class Verified:
    """The `response` in the `/verify` request of a dispatch in whose verification something failed.

    It is kept so that judging can be repeated without a new generation, whatever the agent makes of it.
    """

    dispatch: Id
    response: Kept
    event: Literal["verified"] = "verified"


@dataclass(frozen=True, slots=True)
class NotInspected:
    """An answer to a call of a dispatch could not be read: it passed as it was, and is not known to be clean."""

    dispatch: Id
    server: Name
    ended_at: Moment
    event: Literal["not_inspected"] = "not_inspected"


@dataclass  # without slots: see above
class DispatchBegun:
    """An outermost `/run` of one session has been taken in. `rollout` is Gym's id without the attempt: `3-0`.

    `trace` is the trace id that the `/run` came with, or was given.
    """

    dispatch: Id
    session: Id
    run: Id
    benchmark: Name
    rollout: Id
    server: Name
    started_at: Moment
    agent: Name | None = None
    environment_server: Name | None = None
    task_index: Whole | None = None
    rollout_index: Whole | None = None
    stage_index: Whole | None = None
    attempt: Whole = 0
    identity: Kept = field(default_factory=dict)
    trace: TraceId = ""
    event: Literal["dispatch_begun"] = "dispatch_begun"


@dataclass  # without slots: see above
class DispatchEnded:
    """The outermost `/run` has its answer, or will have none.

    `ending` is what the answer said by itself (see `answer.Ending`); the whole answer comes along in `answer`
    only where the proxy would withhold it. Exchanges that ended after `answer_began_at` decide nothing.
    """

    dispatch: Id
    ending: Literal["result", "marker", "no_persist", "bad"]
    answer_began_at: Moment
    ended_at: Moment
    status: Status | None = None
    answer: Kept | None = None
    masked: bool = False
    unscored: bool = False
    empty_output: bool = False
    not_inspected: bool = False
    model_calls: Whole = 0
    event: Literal["dispatch_ended"] = "dispatch_ended"


@dataclass(frozen=True, slots=True)
class Answered:
    """What a proxy made of a dispatch where the collector has not ruled the same: the state its answer stands for.

    `provisional`: the collector could not be asked, and the ruling was the proxy's own, from what it knew.
    """

    dispatch: Id
    state: Literal["succeeded", "failed", "omitted"]
    provisional: bool = False
    event: Literal["answered"] = "answered"


@dataclass(frozen=True, slots=True)
class DispatchAbandoned:
    """The caller of the outermost `/run` left for good: its rollout is missing."""

    dispatch: Id
    ended_at: Moment
    event: Literal["dispatch_abandoned"] = "dispatch_abandoned"


@dataclass(frozen=True, slots=True)
class ProxyGone:
    """A proxy has died, and its successor says so: nobody waits for the dispatches that it had open."""

    proxy: Id
    ended_at: Moment
    event: Literal["proxy_gone"] = "proxy_gone"


@dataclass(frozen=True, slots=True)
class ProxyHeard:
    """A proxy lives, and so many batches lie in its spool; `ended`: it knows and will know nothing more.

    `told_at` is a time that the collector gave: all that the proxy knew then is stored.
    """

    proxy: Id
    spooled: Whole = 0
    ended: bool = False
    told_at: Moment | None = None
    event: Literal["proxy_heard"] = "proxy_heard"


@dataclass(frozen=True, slots=True)
class CarrierShared:
    """A carrier that several rollouts turned out to share: what it had bound to these dispatches has no owner."""

    carrier: Name
    dispatches: Annotated[tuple[Id, ...], Field(max_length=DISPATCHES_TOGETHER)]
    event: Literal["carrier_shared"] = "carrier_shared"


@dataclass(frozen=True, slots=True)
class Watched:
    """What has been seen at a server for a run since the last such event.

    `exchanges` were seen, `owned` of them had an owner; `made` calls with an owner were made by this server.
    """

    run: Id
    server: Name
    kind: Kind
    exchanges: Whole
    owned: Whole
    made: Whole
    event: Literal["watched"] = "watched"


@dataclass(frozen=True, slots=True)
class Topology:
    """Which servers a server names in Gym's config, and so can call: server to the names it refers to."""

    references: dict[Name, tuple[Name, ...]]
    event: Literal["topology"] = "topology"


SPANS_TOGETHER = 10_000
"""Spans in one event at the most."""

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Short = Annotated[str, Field(max_length=200)]

Shared = tuple[Text, Kind, Role, Text, Text, Short, Depth, Short, Text]
"""What many spans have in common: server, kind, role, method, path, the exchange on whose behalf, depth, owner_by,
carrier. The words are those of a `Tag`."""

Span = tuple[
    Whole,
    Id,
    Seconds,
    Seconds | None,
    Status | None,
    What | Literal[""],
    Short,
]
"""One exchange: the number of its `Shared`, its id, when it began and ended (seconds since the epoch; None while it is
in flight), its status, what went wrong, and the call that its tag names. The last two are empty for a good one."""


@dataclass(frozen=True, slots=True)
class Spans:
    """Exchanges of a dispatch, good ones too. They decide nothing and may be lost; `lost` counts those that were.

    An exchange that lasts is told while it is in flight, and again when it has ended, which then is what holds.
    """

    dispatch: Id
    shared: Annotated[list[Shared], Field(max_length=SPANS_TOGETHER)]
    spans: Annotated[list[Span], Field(max_length=SPANS_TOGETHER)]
    lost: Whole = 0
    event: Literal["spans"] = "spans"

    def __post_init__(self) -> None:
        """Raises ValueError where a span names what is not shared."""
        if self.spans and (most := max(span[0] for span in self.spans)) >= len(self.shared):
            raise ValueError(f"spans: one names entry {most} of `shared`, which has {len(self.shared)}")


Event = Annotated[
    Tag
    | Recovered
    | Outlived
    | Verified
    | NotInspected
    | DispatchBegun
    | DispatchEnded
    | Answered
    | DispatchAbandoned
    | ProxyGone
    | ProxyHeard
    | CarrierShared
    | Watched
    | Topology
    | Spans,
    Field(discriminator="event"),
]
