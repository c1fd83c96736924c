"""The jobs that change the store; each takes a connection inside a transaction."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from pydantic import Field, TypeAdapter
from sqlalchemy import Connection, case, delete, func, select, update
from sqlalchemy.dialects.sqlite import insert

from ..contract.exchange import (
    Answered,
    CarrierShared,
    DispatchAbandoned,
    DispatchBegun,
    DispatchEnded,
    Event,
    Id,
    NotInspected,
    Outlived,
    Recovered,
    Tag,
    Topology,
    Verified,
    Watched,
)
from ..contract.identity import rollout_id
from ..contract.policy import PerServer, Policy
from .judging import JUDGED, policy_of, rejudge, settle
from .schema import dispatches, early, rollouts, runs, senders, sessions, tags, topology, watched

Index = Annotated[int, Field(ge=0)]
Expected = tuple[str, Index, Index, Index | None]
"""(benchmark, task index, rollout index, stage index)"""

Ruling = dict[str, Any]
"""What a proxy is told of a dispatch that ended: `dispatch`, `state`, and `row` where it failed."""


class UnknownSessionError(Exception):
    """A heartbeat of a session that was never put."""


class SessionConflictError(Exception):
    """A session that belongs to another run."""


class InputsChangedError(Exception):
    """The materialized inputs of a run are not those that it began with; the text has both digests."""


@dataclass(frozen=True, slots=True)
class CountedAsZero:
    """What the user counts as zero by Gym's options (nemo_gym 0.6 and later): failure classes, and missing rollouts."""

    classes: tuple[str, ...] = ()
    missing: bool = False


@dataclass(frozen=True, slots=True)
class Session:
    """One dispatcher process of a run."""

    session: Id
    run: Id
    mode: str
    output: str | None = None
    launch: str | None = None
    gym: str | None = None
    host: str | None = None
    pid: int | None = None
    attached: bool = True
    counted_as_zero: CountedAsZero | None = None
    reverifies: Id | None = None


def put_session(connection: Connection, session: Session, now: float, policy: Policy | None = None) -> None:
    """Take in a session and its run; to put it again changes nothing but the heartbeat.

    Of a session known from its first dispatch only, this is what it says of itself. Raises SessionConflictError.
    """
    found = connection.execute(
        select(sessions.c.attached, sessions.c.run).where(sessions.c.session == session.session)
    ).first()
    known = found is not None and found.attached
    if found is not None and found.run != session.run:
        raise SessionConflictError(f"session {session.session} belongs to run {found.run}, not to {session.run}")
    changes: dict[str, Any] = {"output": session.output} | ({} if known else {"asked_at": None})
    changes |= {} if policy is None else {"collector_policy": policy.as_dict()}
    run = insert(runs).values({"run": session.run, "created_at": now} | changes)
    connection.execute(run.on_conflict_do_update(index_elements=["run"], set_=changes))
    row = asdict(session) | {"heartbeat_at": now}
    del row["output"]
    connection.execute(
        insert(sessions)
        .values(row | {"started_at": now})
        .on_conflict_do_update(index_elements=["session"], set_={"heartbeat_at": now} if known else row)
    )


def heartbeat(connection: Connection, session: str, ended: bool, now: float) -> None:
    """Note that a session lives, or has ended. Raises UnknownSessionError."""
    changes = {"heartbeat_at": now, "ended_at": now if ended else None}
    if connection.execute(update(sessions).where(sessions.c.session == session).values(changes)).rowcount == 0:
        raise UnknownSessionError(session)


def put_expected(
    connection: Connection, run: str, source: str, digest: str, expected: Iterable[Expected], now: float
) -> int:
    """Register the rollouts of the materialized inputs; those known already keep their state. Returns how many.

    Raises InputsChangedError where the run began with other inputs.
    """
    _same_inputs(connection, run, digest)
    rows = [_expected_row(run, item) for item in expected]
    if rows:
        connection.execute(insert(rollouts).on_conflict_do_nothing(), rows)
    changes = {"expected_source": source, "expected_digest": digest}
    connection.execute(
        insert(runs)
        .values(run=run, created_at=now, **changes)
        .on_conflict_do_update(index_elements=["run"], set_=changes)
    )
    return len(rows)


def _same_inputs(connection: Connection, run: str, digest: str) -> None:
    known = connection.execute(select(runs.c.expected_digest).where(runs.c.run == run)).scalar()
    if known is not None and known != digest:
        raise InputsChangedError(
            f"the materialized inputs of run {run} have changed: it began with {known}, this session has {digest}; "
            "put the old file back, or start afresh without --resume"
        )


def _expected_row(run: str, item: Expected) -> dict[str, Any]:
    benchmark, task, rollout, stage = item
    environment, _, agent = benchmark.rpartition(":")
    return {
        "run": run,
        "benchmark": benchmark,
        "rollout": rollout_id(task, rollout, stage),
        "task_index": task,
        "rollout_index": rollout,
        "stage_index": stage,
        "agent": agent,
        "environment_server": environment or None,
        "state": "missing",
        "attempt": 0,
    }


def accept_unattributed(connection: Connection, run: str, reason: str, now: float) -> bool:
    """Note that a person accepts a run's unattributed failures so far; whether there is such a run."""
    changes = {"accepted_at": now, "accepted_reason": reason}
    return bool(connection.execute(update(runs).where(runs.c.run == run).values(changes)).rowcount)


def note_asked(connection: Connection, run: str, now: float) -> None:
    """Note that a dispatcher asks for metrics: it will dispatch nothing more in this session."""
    connection.execute(update(runs).where(runs.c.run == run).values(asked_at=now))


def apply_events(
    connection: Connection, sender: str, first: int, events: Sequence[Event], policy: Policy
) -> list[Ruling]:
    """Take in a sender's events, numbered from `first`; those taken in before have no second effect.

    Returns a ruling for each DispatchEnded among them, those repeated included.
    """
    last = connection.execute(select(senders.c.last).where(senders.c.sender == sender)).scalar() or 0
    for number, event in enumerate(events, first):
        if number > last:
            _apply(connection, event, policy)
    if events:
        highest = max(last, first + len(events) - 1)
        connection.execute(
            insert(senders)
            .values(sender=sender, last=highest)
            .on_conflict_do_update(index_elements=["sender"], set_={"last": highest})
        )
    ended = [event.dispatch for event in events if isinstance(event, DispatchEnded)]
    return [ruling for dispatch in ended if (ruling := _ruling(connection, dispatch)) is not None]


Addition = Recovered | Outlived | Verified | NotInspected
"""What becomes known of a dispatch besides its tags."""
_ADDITION: TypeAdapter[Addition] = TypeAdapter(Annotated[Addition, Field(discriminator="event")])


def _apply(connection: Connection, event: Event, policy: Policy) -> None:
    if isinstance(event, Addition) and _state_of(connection, event.dispatch) is None:
        connection.execute(insert(early).values(dispatch=event.dispatch, event=asdict(event)))
        return
    match event:
        case Tag():
            _add_tag(connection, event, policy)
        case Recovered():
            _heal(connection, event, policy)
        case Outlived():
            _outlive(connection, event, policy)
        case Verified():
            _keep_response(connection, event, policy)
        case NotInspected():
            _note_unread(connection, event)
        case Answered():
            placed = {"placed": PLACES[event.state]}
            connection.execute(update(dispatches).where(dispatches.c.dispatch == event.dispatch).values(placed))
        case DispatchBegun():
            _begin(connection, event, policy)
        case DispatchEnded():
            _end(connection, event, policy)
        case CarrierShared():
            _disown(connection, event, policy)
        case Watched():
            _watch(connection, event)
        case Topology():
            _relate(connection, event)
        case DispatchAbandoned():
            settle(connection, event.dispatch, "missing", {"state": "abandoned", "ended_at": event.ended_at})


PLACES = {"succeeded": "results", "failed": "failures", "omitted": "nowhere"}
"""Which file gets the row of a dispatch whose outermost `/run` was answered in accordance with a state."""


def _begin(connection: Connection, event: DispatchBegun, policy: Policy) -> None:
    event = _named_as_expected(connection, event)
    if "_ng_attempt_index" not in event.identity and event.attempt == 0:
        event = replace(event, attempt=_attempts(connection, event))
    row = {
        "dispatch": event.dispatch,
        "run": event.run,
        "session": event.session,
        "benchmark": event.benchmark,
        "rollout": event.rollout,
        "state": "running",
        "attempt": event.attempt,
        "started_at": event.started_at,
        "begun": asdict(event),
    }
    if connection.execute(insert(dispatches).values(row).on_conflict_do_nothing()).rowcount == 0:
        return
    _know_session(connection, event)
    current = {
        "state": "running",
        "dispatch": event.dispatch,
        "attempt": event.attempt,
        "server": event.server,
        "agent": event.agent,
        "environment_server": event.environment_server,
    }
    names = ("run", "benchmark", "rollout", "task_index", "rollout_index", "stage_index")
    connection.execute(
        insert(rollouts)
        .values({name: getattr(event, name) for name in names} | current)
        .on_conflict_do_update(index_elements=["run", "benchmark", "rollout"], set_=current)
    )
    _adopt(connection, event.dispatch, policy)


def _adopt(connection: Connection, dispatch: str, policy: Policy) -> None:
    """Another proxy was faster: what it has told of this dispatch takes effect now, in its order."""
    orphans = (tags.c.dispatch.is_(None), tags.c.claimed == dispatch)
    connection.execute(update(tags).where(*orphans).values(dispatch=dispatch))
    told = select(early.c.event).where(early.c.dispatch == dispatch).order_by(early.c.number)
    for event in connection.execute(told).scalars().all():
        _apply(connection, _ADDITION.validate_python(event), policy)
    connection.execute(delete(early).where(early.c.dispatch == dispatch))


def _named_as_expected(connection: Connection, event: DispatchBegun) -> DispatchBegun:
    """An episode request (nemo_gym 0.7) names no agent: its benchmark is that of the one expected rollout of its id."""
    if event.agent is not None:
        return event
    expected = (rollouts.c.run == event.run, rollouts.c.rollout == event.rollout)
    names = list(connection.execute(select(rollouts.c.benchmark, rollouts.c.agent).where(*expected).limit(2)))
    if len(names) != 1:
        return event
    return replace(event, benchmark=names[0].benchmark, agent=names[0].agent)


def _attempts(connection: Connection, event: DispatchBegun) -> int:
    """How many rows of a rollout the failures file holds: nemo_gym 0.4 counts them too, and stamps no number."""
    same = (dispatches.c.run == event.run, dispatches.c.benchmark == event.benchmark)
    rows = (dispatches.c.rollout == event.rollout, dispatches.c.placed == "failures")
    return int(connection.execute(select(func.count()).select_from(dispatches).where(*same, *rows)).scalar_one())


def _know_session(connection: Connection, event: DispatchBegun) -> None:
    """A session that could not be put (the collector was away) is known from its first dispatch."""
    connection.execute(insert(runs).values(run=event.run, created_at=event.started_at).on_conflict_do_nothing())
    session = {"session": event.session, "run": event.run, "mode": "unknown", "attached": False}
    times = {"started_at": event.started_at, "heartbeat_at": event.started_at}
    connection.execute(insert(sessions).values(session | times).on_conflict_do_nothing())


def _end(connection: Connection, event: DispatchEnded, policy: Policy) -> None:
    changes = {
        "ended": asdict(event),
        "ended_at": event.ended_at,
        "masked": event.masked,
        "unscored": event.unscored,
        "empty_output": event.empty_output,
        "not_inspected": dispatches.c.not_inspected | event.not_inspected,
        "model_calls": event.model_calls,
    }
    connection.execute(update(dispatches).where(dispatches.c.dispatch == event.dispatch).values(changes))
    rejudge(connection, event.dispatch, policy)
    _place(connection, event.dispatch)
    if event.model_calls and policy_of(connection, event.dispatch, policy).no_model_call != PerServer("warn"):
        for other in _without_model_call(connection, event.dispatch):
            rejudge(connection, other, policy)


def _place(connection: Connection, dispatch: str) -> None:
    """The proxy answers by this ruling, and Gym puts the row where it says."""
    told = case(PLACES, value=dispatches.c.state)
    fresh = (dispatches.c.dispatch == dispatch, dispatches.c.placed.is_(None))
    connection.execute(update(dispatches).where(*fresh).values(placed=told))


def _without_model_call(connection: Connection, dispatch: str) -> list[str]:
    """Dispatches of the same benchmark that ended well without a model call: now one has made some."""
    here = select(dispatches.c.run, dispatches.c.benchmark).where(dispatches.c.dispatch == dispatch).subquery()
    same = (dispatches.c.run == here.c.run, dispatches.c.benchmark == here.c.benchmark)
    silent = (dispatches.c.state == "succeeded", dispatches.c.model_calls == 0)
    return list(connection.execute(select(dispatches.c.dispatch).where(*same, *silent)).scalars())


def _disown(connection: Connection, event: CarrierShared, policy: Policy) -> None:
    """Take from dispatches what a carrier that turned out to be shared had bound to them."""
    for dispatch in event.dispatches:
        bound = (tags.c.dispatch == dispatch, tags.c.carrier == event.carrier)
        freed = update(tags).where(*bound).values(dispatch=None, claimed=None)
        if connection.execute(freed).rowcount and _state_of(connection, dispatch) in JUDGED:
            rejudge(connection, dispatch, policy)


def _watch(connection: Connection, event: Watched) -> None:
    row = {name: getattr(event, name) for name in ("run", "server", "kind", "exchanges", "owned", "made")}
    added = {name: watched.c[name] + row[name] for name in ("exchanges", "owned", "made")}
    connection.execute(insert(watched).values(row).on_conflict_do_update(index_elements=["run", "server"], set_=added))


def _relate(connection: Connection, event: Topology) -> None:
    rows = [{"server": name, "refers_to": other} for name, named in event.references.items() for other in named]
    if rows:
        connection.execute(insert(topology).on_conflict_do_nothing(), rows)


def _add_tag(connection: Connection, tag: Tag, policy: Policy) -> None:
    state = _state_of(connection, tag.dispatch)
    row = {
        "exchange": tag.exchange,
        "dispatch": tag.dispatch if state else None,
        "claimed": tag.dispatch,
        "carrier": tag.carrier,
        "server": tag.server,
        "call": tag.call,
        "ended_at": tag.ended_at,
        "tag": asdict(tag),
    }
    connection.execute(insert(tags).values(row).on_conflict_do_nothing())
    if tag.dispatch and state in JUDGED:
        rejudge(connection, tag.dispatch, policy)  # a late tag: it ended in time and was only delivered late


def _heal(connection: Connection, event: Recovered, policy: Policy) -> None:
    healed = (tags.c.dispatch == event.dispatch, tags.c.call == event.call)
    connection.execute(update(tags).where(*healed).values(recovered_at=event.ended_at))
    if _state_of(connection, event.dispatch) == "failed":
        rejudge(connection, event.dispatch, policy)


def _outlive(connection: Connection, event: Outlived, policy: Policy) -> None:
    calls = (tags.c.dispatch == event.dispatch, tags.c.call.in_(event.calls), tags.c.outlived_at.is_(None))
    connection.execute(update(tags).where(*calls).values(outlived_at=event.ended_at))
    if _state_of(connection, event.dispatch) == "failed":
        rejudge(connection, event.dispatch, policy)


def _keep_response(connection: Connection, event: Verified, policy: Policy) -> None:
    kept = update(dispatches).where(dispatches.c.dispatch == event.dispatch).values(response=event.response)
    connection.execute(kept)
    if _state_of(connection, event.dispatch) == "failed":
        rejudge(connection, event.dispatch, policy)


def _note_unread(connection: Connection, event: NotInspected) -> None:
    """One that came after the outermost answer began decides nothing."""
    ended = connection.execute(select(dispatches.c.ended).where(dispatches.c.dispatch == event.dispatch)).scalar()
    if ended is None or event.ended_at <= ended["answer_began_at"]:
        noted = update(dispatches).where(dispatches.c.dispatch == event.dispatch).values(not_inspected=True)
        connection.execute(noted)


def _state_of(connection: Connection, dispatch: str | None) -> str | None:
    if dispatch is None:
        return None
    return connection.execute(select(dispatches.c.state).where(dispatches.c.dispatch == dispatch)).scalar()


def _ruling(connection: Connection, dispatch: str) -> Ruling | None:
    found = connection.execute(
        select(dispatches.c.state, dispatches.c.row).where(dispatches.c.dispatch == dispatch)
    ).first()
    return None if found is None else {"dispatch": dispatch, "state": found.state, "row": found.row}
