"""The jobs that change the store; each takes a connection inside a transaction."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy import ColumnElement, Connection, and_, select, update
from sqlalchemy.dialects.sqlite import insert

from ..contract.exchange import (
    CarrierShared,
    DispatchAbandoned,
    DispatchBegun,
    DispatchEnded,
    Event,
    Id,
    Recovered,
    Tag,
    Topology,
    Watched,
)
from ..contract.identity import rollout_id
from ..contract.policy import PerAgent, Policy
from ..contract.row import failure_row, root_cause_of
from ..contract.verdict import judge, recovered_in_time
from .schema import dispatches, rollouts, runs, senders, sessions, tags, topology, watched

Index = Annotated[int, Field(ge=0)]
Expected = tuple[str, Index, Index, Index | None]
"""(benchmark, task index, rollout index, stage index)"""

Ruling = dict[str, Any]
"""What a proxy is told of a dispatch that ended: `dispatch`, `state`, and `row` where it failed."""


class UnknownSessionError(Exception):
    """A heartbeat of a session that was never put."""


class SessionConflictError(Exception):
    """A session that belongs to another run."""


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


def put_session(connection: Connection, session: Session, now: float) -> None:
    """Take in a session and its run; to put it again changes nothing but the heartbeat.

    Of a session known from its first dispatch only, this is what it says of itself. Raises SessionConflictError.
    """
    found = connection.execute(
        select(sessions.c.attached, sessions.c.run).where(sessions.c.session == session.session)
    ).first()
    known = found is not None and found.attached
    if found is not None and found.run != session.run:
        raise SessionConflictError(f"session {session.session} belongs to run {found.run}, not to {session.run}")
    changes = {"output": session.output} | ({} if known else {"asked_at": None})
    run = insert(runs).values(run=session.run, output=session.output, created_at=now)
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
    """Register the rollouts of the materialized inputs; those known already keep their state. Returns how many."""
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


def _apply(connection: Connection, event: Event, policy: Policy) -> None:
    match event:
        case Tag():
            _add_tag(connection, event, policy)
        case Recovered():
            _heal(connection, event, policy)
        case DispatchBegun():
            _begin(connection, event)
        case DispatchEnded():
            _end(connection, event, policy)
        case CarrierShared():
            _disown(connection, event, policy)
        case Watched():
            _watch(connection, event)
        case Topology():
            _relate(connection, event)
        case DispatchAbandoned():
            _settle(connection, event.dispatch, "missing", {"state": "abandoned", "ended_at": event.ended_at})


def _begin(connection: Connection, event: DispatchBegun) -> None:
    event = _named_as_expected(connection, event)
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
    orphans = (tags.c.dispatch.is_(None), tags.c.claimed == event.dispatch)  # another proxy's were faster
    connection.execute(update(tags).where(*orphans).values(dispatch=event.dispatch))


def _named_as_expected(connection: Connection, event: DispatchBegun) -> DispatchBegun:
    """An episode request (nemo_gym 0.7) names no agent: its benchmark is that of the one expected rollout of its id."""
    if event.agent is not None:
        return event
    expected = (rollouts.c.run == event.run, rollouts.c.rollout == event.rollout)
    names = list(connection.execute(select(rollouts.c.benchmark, rollouts.c.agent).where(*expected).limit(2)))
    if len(names) != 1:
        return event
    return replace(event, benchmark=names[0].benchmark, agent=names[0].agent)


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
        "not_inspected": event.not_inspected,
        "model_calls": event.model_calls,
    }
    connection.execute(update(dispatches).where(dispatches.c.dispatch == event.dispatch).values(changes))
    _rejudge(connection, event.dispatch, policy)
    if event.model_calls and policy.no_model_call != PerAgent():
        for other in _without_model_call(connection, event.dispatch):
            _rejudge(connection, other, policy)


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
        if connection.execute(freed).rowcount:
            _rejudge(connection, dispatch, policy)


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
    if tag.dispatch and state in ("succeeded", "failed", "omitted"):
        _rejudge(connection, tag.dispatch, policy)  # a late tag: it ended in time and was only delivered late


def _heal(connection: Connection, event: Recovered, policy: Policy) -> None:
    healed = (tags.c.dispatch == event.dispatch, tags.c.call == event.call)
    connection.execute(update(tags).where(*healed).values(recovered_at=event.ended_at))
    if _state_of(connection, event.dispatch) == "failed":
        _rejudge(connection, event.dispatch, policy)


def _state_of(connection: Connection, dispatch: str | None) -> str | None:
    if dispatch is None:
        return None
    return connection.execute(select(dispatches.c.state).where(dispatches.c.dispatch == dispatch)).scalar()


def _rejudge(connection: Connection, dispatch: str, policy: Policy) -> None:
    found = connection.execute(
        select(dispatches.c.begun, dispatches.c.ended).where(dispatches.c.dispatch == dispatch)
    ).first()
    if found is None or found.ended is None:
        return
    begun, ended = DispatchBegun(**found.begun), DispatchEnded(**found.ended)
    kept = connection.execute(
        select(tags.c.tag, tags.c.call, tags.c.recovered_at).where(tags.c.dispatch == dispatch)
    ).all()
    swallowed = policy.swallowed(ended, begun.agent, lambda: _others_made_calls(connection, begun))
    healed = {row.call: row.recovered_at for row in kept if row.recovered_at is not None}
    verdict = judge(ended, (Tag(**row.tag) for row in kept), recovered_in_time(healed, ended), swallowed)
    row = failure_row(begun, ended, verdict, policy.as_dict()) if verdict.state == "failed" else None
    cause = root_cause_of(begun, verdict)
    _settle(connection, dispatch, verdict.state, {"state": verdict.state, "root_cause": cause, "row": row})


def _others_made_calls(connection: Connection, begun: DispatchBegun) -> bool:
    """Whether another dispatch of the benchmark made a model call."""
    same = (dispatches.c.run == begun.run, dispatches.c.benchmark == begun.benchmark)
    made = select(dispatches.c.dispatch).where(*same, dispatches.c.model_calls > 0).limit(1)
    return connection.execute(made).first() is not None


def _settle(connection: Connection, dispatch: str, rollout_state: str, changes: Mapping[str, Any]) -> None:
    """Give a dispatch its end, and its rollout too where no later dispatch has replaced it."""
    changed = update(dispatches).where(dispatches.c.dispatch == dispatch).values(dict(changes))
    owner = connection.execute(
        changed.returning(dispatches.c.run, dispatches.c.benchmark, dispatches.c.rollout)
    ).first()
    if owner is not None:
        current = rollouts.c.dispatch == dispatch
        connection.execute(update(rollouts).where(_is(owner), current).values(state=rollout_state))


def _is(owner: Any) -> ColumnElement[bool]:
    same = (rollouts.c.run == owner.run, rollouts.c.benchmark == owner.benchmark, rollouts.c.rollout == owner.rollout)
    return and_(*same)


def _ruling(connection: Connection, dispatch: str) -> Ruling | None:
    found = connection.execute(
        select(dispatches.c.state, dispatches.c.row).where(dispatches.c.dispatch == dispatch)
    ).first()
    return None if found is None else {"dispatch": dispatch, "state": found.state, "row": found.row}
