"""The collector's routes: what the service serves, and what its document says of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from . import answers, bodies
from .browser import TYPES
from .store.grouping import WAYS
from .store.reading import SPANS

Tag = Literal["runs", "dispatchers", "files", "service"]


@dataclass(frozen=True, slots=True)
class Query:
    """A parameter of a query."""

    name: str
    says: str
    schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Route:
    """One route. `handler` names the method that answers; `problems` are statuses of what can go wrong besides 500.

    `also` are further types of content, of text.
    """

    method: str
    path: str
    handler: str
    says: str
    tag: Tag
    answer: Any = None
    takes: Any = None
    query: Sequence[Query] = ()
    problems: Sequence[int] = ()
    also: Sequence[str] = ()
    relayed: bool = False
    """Whether a proxy's main port passes it on."""


def number(name: str, says: str, default: int, highest: int) -> Query:
    """A whole number from 0 on."""
    return Query(name, says, {"type": "integer", "minimum": 0, "maximum": highest, "default": default})


def text(name: str, says: str) -> Query:
    return Query(name, says, {"type": "string"})


def one_of(name: str, says: str, values: Sequence[str], **more: Any) -> Query:
    return Query(name, says, {"type": "string", "enum": list(values), **more})


LIMITS = {"rollouts": (1000, 10_000), "failures": (100, 10_000), "after": (0, 10**9), "spans": (SPANS, 100_000)}
"""(default, highest) of the numbers in queries."""

SINCE = (0, 10**12)
"""Seconds since the epoch: (default, highest)."""

STATES = ("succeeded", "failed", "omitted", "running", "missing")

METRICS = "application/openmetrics-text"
PLAIN, LINES, EVENTS = "text/plain", "application/jsonl", "text/event-stream"
HTML, OF_THE_PAGE = TYPES[".html"], tuple(TYPES.values())

WAIT_S = (50, 3600)
"""Seconds to wait: (default, highest)."""

FORM = one_of("format", "the form of the answer; else `Accept` decides", ("text", "json"))

GATED = (
    text("server", "only benchmarks that are sent to this server"),
    text("told_by", "the proxy that asks for a dispatcher: the others are waited for until they have told all"),
)

_RUN, _READ, _WRITE = "/v1/runs/{run}", (404, 503), (400, 404, 503)


def _run(rest: str, handler: str, says: str, answer: Any, **more: Any) -> Route:
    known: dict[str, Any] = {"problems": _READ, "relayed": True, "tag": "runs"}
    return Route("GET", _RUN + rest, handler, says, answer=answer, **(known | more))


def _post(rest: str, handler: str, says: str, answer: Any, takes: Any, **more: Any) -> Route:
    known: dict[str, Any] = {"problems": _WRITE, "relayed": True, "tag": "files"}
    return Route("POST", _RUN + rest, handler, says, answer=answer, takes=takes, **(known | more))


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/",
        "overview",
        "The newest run: a page for browsers, text for people, JSON where `Accept` names it",
        "runs",
        answer=answers.Status | answers.Runs,
        query=[FORM],
        problems=[503],
        also=[PLAIN, HTML],
    ),
    Route(
        "GET",
        "/v1/runs",
        "runs",
        "The newest 100 runs",
        "runs",
        answer=answers.Runs,
        query=[text("launch", "only those of one `rollcall run`"), FORM],
        problems=[503],
        also=[PLAIN],
        relayed=True,
    ),
    Route(
        "GET",
        "/v1/events/stream",
        "all_events",
        "The newest runs whenever they change, as server-sent events",
        "runs",
        also=[EVENTS],
        problems=[503],
        relayed=True,
    ),
    _run(
        "",
        "status",
        "The state of a run; `latest` names the newest",
        answers.Status,
        query=[
            one_of("wait", "answer once the run is complete or has ended", ("complete",)),
            number("timeout", "seconds to wait at the most; then the state is that of an unfinished run", *WAIT_S),
            FORM,
        ],
        problems=(400, *_READ),
        also=[PLAIN],
    ),
    _run(
        "/events",
        "run_events",
        "The state of a run whenever it changes, as server-sent events",
        None,
        also=[EVENTS],
    ),
    _run("/timeline", "timeline", "When attempts failed", answers.Timeline, query=[FORM], also=[PLAIN]),
    _run(
        "/gate",
        "gate",
        "Which benchmarks' metrics are released",
        answers.Gate,
        query=[*GATED, FORM],
        also=[PLAIN],
    ),
    _post(
        "/gate",
        "ask_gate",
        "The same, asked by a dispatcher that dispatches nothing more",
        answers.Gate,
        None,
        query=[*GATED, FORM],
        also=[PLAIN],
        tag="dispatchers",
        problems=_READ,
    ),
    _run(
        "/rollouts",
        "rollouts",
        "Rollouts by benchmark and index",
        answers.Rollouts,
        query=[
            one_of("state", "only those in this state", STATES),
            text("benchmark", "only those of this benchmark"),
            text("cause", "only those of this group of failures"),
            text("q", "only those with these words in id, benchmark, class or root cause"),
            number("limit", "how many", *LIMITS["rollouts"]),
            number("after", "how many come before them; `next` of the page before", *LIMITS["after"]),
            FORM,
        ],
        problems=(400, *_READ),
        also=[PLAIN],
    ),
    _run(
        "/rollouts/{rollout}",
        "rollout",
        "One rollout with its dispatches, their tags and their calls",
        answers.RolloutWithDispatches,
        query=[
            text("benchmark", "which one, where several have a rollout with this id"),
            number("spans", "how many calls of each dispatch", *LIMITS["spans"]),
            FORM,
        ],
        problems=(400, *_READ),
        also=[PLAIN],
    ),
    _run(
        "/failures",
        "groups",
        "The failed rollouts, grouped",
        answers.Failures,
        query=[
            one_of("group", "what makes a group", WAYS, default="cause"),
            number("limit", "how many groups", *LIMITS["failures"]),
            FORM,
        ],
        problems=(400, *_READ),
        also=[PLAIN],
    ),
    _run("/failures.jsonl", "failures", "The failure rows, one for each failed attempt", None, also=[LINES]),
    Route(
        "GET",
        "/page/{file}",
        "page",
        "A file of the page for browsers",
        "service",
        also=tuple(TYPES.values()),
        problems=[404],
    ),
    Route("GET", "/v1/policy", "policy", "The policy in force", "service", answer=answers.PolicyInForce),
    Route(
        "GET",
        "/v1/clock",
        "clock",
        "The time that sessions are judged by",
        "service",
        answer=answers.Clock,
    ),
    Route(
        "GET",
        "/v1/standing",
        "standing",
        "For a proxy that follows another one: the calls that stand failed there, of dispatches that are open",
        "service",
        answer=answers.Standing,
        query=[
            text("line", "what stands in the ids of calls of all proxies that follow each other at an address"),
            number("since", "also of dispatches that have failed since then, in seconds since the epoch", *SINCE),
        ],
        problems=[400, 503],
    ),
    Route("GET", "/healthz", "healthz", "The process lives", "service", answer=answers.Said),
    Route(
        "GET",
        "/readyz",
        "readyz",
        "The database can be read, and the last write to it went well",
        "service",
        answer=answers.Said,
        problems=[503],
    ),
    Route(
        "GET",
        "/metrics",
        "metrics",
        "Numbers for Prometheus: as text, or as OpenMetrics where `Accept` names it",
        "service",
        also=[PLAIN, METRICS],
        problems=[503],
    ),
    Route("GET", "/openapi.json", "document", "This document", "service", answer=dict[str, Any]),
    Route(
        "POST",
        "/v1/events",
        "events",
        "A batch of a proxy's events; answered once they are committed",
        "dispatchers",
        answer=answers.Rulings,
        takes=bodies.BATCH,
        problems=[400, 503],
    ),
    Route(
        "PUT",
        "/v1/sessions/{session}",
        "put_session",
        "A dispatcher has started",
        "dispatchers",
        answer=answers.SessionOfRun,
        takes=bodies.SESSION,
        problems=[400, 409, 503],
        relayed=True,
    ),
    Route(
        "GET",
        "/v1/sessions/{session}",
        "session",
        "Which run a session belongs to",
        "dispatchers",
        answer=answers.SessionOfRun,
        problems=_READ,
        relayed=True,
    ),
    Route(
        "POST",
        "/v1/sessions/{session}/heartbeat",
        "heartbeat",
        "A dispatcher lives, or has ended",
        "dispatchers",
        answer=answers.Nothing,
        takes=bodies.HEARTBEAT,
        problems=_WRITE,
        relayed=True,
    ),
    Route(
        "PUT",
        "/v1/runs/{run}/expected",
        "put_expected",
        "The rollouts of the materialized inputs",
        "dispatchers",
        answer=answers.ExpectedNumber,
        takes=bodies.EXPECTED,
        problems=[400, 409, 503],
        relayed=True,
    ),
    _post(
        "/accept",
        "accept",
        "A person accepts the unattributed failures so far, or what a rebuild does not know, and says why",
        answers.Status,
        bodies.ACCEPTANCE,
        query=[FORM],
        also=[PLAIN],
        tag="runs",
    ),
    _post(
        "/reapply",
        "reapply",
        "Judge the run again under another policy, or say what would become of it",
        answers.Reapplication,
        bodies.REAPPLIED,
    ),
    _run("/moves", "moves", "Rows that lie in the wrong file", answers.Moves, tag="files"),
    _post("/moved", "moved", "Rows have been moved", answers.Nothing, bodies.MOVED),
    _post("/healed", "healed", "Rollouts were verified again with success", answers.HealedNumber, bodies.HEALED),
    _post("/forgotten", "forgotten", "Failure rows were archived", answers.ForgottenNumber, bodies.FORGOTTEN),
)
