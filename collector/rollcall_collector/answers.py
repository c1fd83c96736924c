"""What the collector answers, as types: the API's document is made from them, and the tests hold each answer to it."""

from dataclasses import fields
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from .contract.exchange import Tag

State = Literal["succeeded", "failed", "omitted", "running", "missing"]


class Answer(BaseModel):
    """An answer has these fields and no others."""

    model_config = ConfigDict(extra="forbid")


class Problem(Answer):
    """Why there is no other answer (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str


class Said(Answer):
    """`ok` or `ready`."""

    status: Literal["ok", "ready"]


class Clock(Answer):
    """Seconds since the epoch; this clock is not set while the collector runs."""

    now: float


class Nothing(Answer):
    """It is done, and there is nothing to say."""


class Totals(Answer):
    """expected = succeeded + failed + omitted + running + missing, at every moment."""

    expected: int
    succeeded: int
    failed: int
    omitted: int
    running: int
    missing: int


class Benchmark(Totals):
    """The counts of one benchmark, and whether its metrics are released."""

    benchmark: str
    agent: str | None
    environment_server: str | None
    complete: bool
    metrics: Literal["released", "withheld"]
    reason: str = Field(description="why the metrics are withheld; empty where they are released")
    withheld_metrics: dict[str, Any] | None
    coverage_metrics: dict[str, Any] | None


class _Judged(Answer):
    run: str
    complete: bool
    exit_status: Literal[0, 3, 4, 5]
    reasons: list[str] = Field(description="why metrics are withheld, besides the counts")
    benchmarks: list[Benchmark]


Indices = tuple[int | None, int | None, int | None]


class Gate(_Judged):
    """Which benchmarks' metrics are released. Rollouts are named by task, rollout and stage index."""

    left_out: list[Indices] = Field(description="failed rollouts of benchmarks that are released all the same")
    healed: list[Indices] = Field(description="rollouts that `gym eval reverify` has scored")


class Server(Answer):
    """What was seen at one of Gym's servers."""

    server: str
    kind: str
    exchanges: int
    owned: int
    made: int = Field(description="calls with an owner that the server made itself")


class Status(_Judged):
    """The state of a run."""

    state: Literal["running", "ended"]
    output: str | None
    mode: str | None
    gym: str | None
    started_at: float
    sessions: int
    expected_source: Literal["materialized_inputs", "so_far"]
    totals: Totals
    unattributed: int
    stalled: int
    servers: list[Server]
    warnings: list[str]
    accepted: str | None
    policy: dict[str, Any]


class Runs(Answer):
    """The newest runs first."""

    runs: list[Status]


class RootCause(Answer):
    """The call that failed first."""

    server: str
    role: str
    method: str
    path: str
    what: str
    status: int | None
    excerpt: str | None = None
    message: str | None = None


class Rollout(Answer):
    """A rollout with the verdict on its last dispatch; `cause` is the id of the group of failures it belongs to."""

    id: str
    benchmark: str
    task_index: int | None
    rollout_index: int | None
    stage_index: int | None
    attempt: int
    state: State
    dispatch: str | None
    root_cause: RootCause | None
    cause: str | None
    failure_class: str | None = Field(alias="class")
    terminal: bool


class Rollouts(Answer):
    """A page of rollouts; `next` is the `after` of the next one."""

    rollouts: list[Rollout]
    next: int | None


_NOT_OF_ITS_OWN = ("event", "dispatch", "count")
"""Fields of a Tag that a record has for itself, or not at all."""


def _of_an_exchange() -> dict[str, Any]:
    hints = get_type_hints(Tag, include_extras=True)
    return {each.name: (hints[each.name], ...) for each in fields(Tag) if each.name not in _NOT_OF_ITS_OWN}


TagRecord = create_model(
    "TagRecord",
    __base__=Answer,
    __doc__="Exchanges of one call that ended badly in one way: the first of them, and how many until when.",
    **_of_an_exchange(),
    recovered=(bool, ...),
    pardoned=(str | None, ...),
    count=(int, ...),
    last_at=(float, ...),
)


class Call(Answer):
    """One exchange of a dispatch; `what` is empty for a good one, `ended_at` null while it is in flight."""

    exchange: str
    parent: str
    server: str
    kind: str
    role: str
    method: str
    path: str
    depth: int
    owner_by: str
    carrier: str
    started_at: float
    ended_at: float | None
    status: int | None
    what: str
    call: str
    recovered: bool
    pardoned: str | None
    rules: list[str]
    root_cause: bool


class Dispatch(Answer):
    """One execution of a rollout, with the first of its calls; `spans_known` are kept, and `spans_lost` were not.

    `provisional`: its `/run` was answered by a proxy's own ruling, since the collector could not be asked. `trace` is
    the trace id that the `/run` came with, or was given.
    """

    dispatch: str
    session: str
    state: str
    attempt: int
    started_at: float
    ended_at: float | None
    root_cause: RootCause | None
    failure_class: str | None = Field(alias="class")
    provisional: bool
    trace: str | None
    tags: list[TagRecord]  # type: ignore[valid-type]  # it is made of a Tag's fields
    spans: list[Call]
    spans_known: int
    spans_lost: int


class RolloutWithDispatches(Rollout):
    """A rollout with each of its dispatches; `benchmarks` are all that have a rollout with this id."""

    run: str
    benchmarks: list[str]
    now: float
    dispatches: list[Dispatch]


class RolloutName(Answer):
    """Names a rollout of a run."""

    benchmark: str
    id: str


class Group(Answer):
    """Failed rollouts with something in common. The words about a cause are those of the example."""

    count: int
    cause: str | None = Field(description="the group's id, where causes are grouped: `rollouts?cause=`")
    benchmark: str | None
    task_index: int | None
    server: str
    role: str
    what: str
    status: str
    line: str = Field(description="the first line of what the server said, or of Rollcall's own words")
    example: RolloutName


class Failures(Answer):
    """The failed rollouts of a run, the largest groups first; `more` groups are not shown."""

    run: str
    group: Literal["cause", "server", "task"]
    failed: int
    groups: list[Group]
    more: int


class Interval(Answer):
    """Attempts that failed in an interval that begins at a time."""

    at: float
    failed: int


class Timeline(Answer):
    """When attempts failed: at most 200 intervals of the same number of seconds; those of no failure are left out."""

    run: str
    started_at: float
    interval: int
    buckets: list[Interval]


class Ruling(Answer):
    """What a proxy answers an outermost `/run` with; `trace` is its trace id, null where it had none."""

    dispatch: str
    run: str
    trace: str | None
    state: str
    row: dict[str, Any] | None


class Rulings(Answer):
    """One for each dispatch that has ended, and the collector's time before it took the events in."""

    rulings: list[Ruling]
    now: float


class SessionOfRun(Answer):
    """Which run a session belongs to."""

    session: str
    run: str


class ExpectedNumber(Answer):
    """How many rollouts are expected."""

    expected: int


class HealedNumber(Answer):
    """How many of them are known."""

    healed: int


class ForgottenNumber(Answer):
    """How many of them are known."""

    forgotten: int


class Misplaced(Answer):
    """A row that lies among the failures and belongs to the results."""

    agent: str | None
    task_index: int | None
    rollout_index: int | None
    stage_index: int | None
    dispatch: str
    benchmark: str


class MisplacedFailure(Misplaced):
    """A row that lies among the results, with the one that belongs to the failures, and its dispatch's trace id."""

    trace: str | None
    row: dict[str, Any] | None


class Moves(Answer):
    """Rows in the wrong file."""

    to_failures: list[MisplacedFailure]
    to_results: list[Misplaced]


class ChangedVerdict(Answer):
    """A rollout that another policy judges otherwise."""

    benchmark: str
    id: str
    before: Annotated[str, Field(alias="from")]
    after: Annotated[str, Field(alias="to")]


class Reapplication(Answer):
    """What has changed, and what that asks for."""

    run: str
    changed: list[ChangedVerdict]
    moves: Moves


class StandingCall(Answer):
    dispatch: str
    call: str
    server: str
    role: str
    ended_at: float
    outlived: bool


class Standing(Answer):
    calls: list[StandingCall]


class PolicyInForce(Answer):
    """The rules that bend what a failure is; see the contract."""

    model_config = ConfigDict(extra="allow")
