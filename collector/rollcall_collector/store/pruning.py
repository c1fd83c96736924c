"""Removing old runs with all that hangs on them.

A run is first marked, from when on nobody is shown it, and then removed in small transactions, the run itself last. So
nobody else waits long, nobody sees half of a run, and what was stopped on the way is finished by the next pruning.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Table, and_, delete, func, not_, select, update

from . import dialect
from .database import writing
from .hearing import LONG_AGO_S, Moment
from .living import by_age, living, without_attach
from .schema import (
    benchmarks,
    counts,
    dispatches,
    early,
    notices,
    proxies,
    rollouts,
    runs,
    sessions,
    spans,
    tags,
    watched,
)

TOGETHER = 2000
"""Rows of a table that are removed in one transaction at the most."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a pruning is: `done` of `total` runs are removed, and `rollouts` and `dispatches` of them so far."""

    run: str
    done: int
    total: int
    rollouts: int = 0
    dispatches: int = 0


@dataclass(frozen=True, slots=True)
class Going:
    """A run that a pruning would remove, how many rollouts it has, and the bytes that its rows hold."""

    run: str
    rollouts: int
    bytes: int


def prune(
    engine: Engine,
    at: Moment,
    before: float | None = None,
    keep: int | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> list[str]:
    """Remove the runs that ended before a time, all but the newest `keep`, or both; returns their ids.

    A run that may be on is never removed (`living`). What no run owns is removed where it is older than every run that
    stays. The space is the database's then (`give_back`). Raises ValueError without a bound.
    """
    with writing(engine).begin() as connection:
        dialect.alone(connection)
        old = _old(connection, at, before, keep)
        connection.execute(update(runs).where(runs.c.run.in_(old)).values(pruned_at=at.now))
        marked = _marked(connection)
    for number, run in enumerate(marked):
        _remove(engine, Progress(run, number, len(marked)), on_progress)
    if marked:
        with writing(engine).begin() as connection:
            for table, here in _unowned(_first(connection), at):
                connection.execute(delete(table).where(here))
    return marked


def would_prune(
    engine: Engine, at: Moment, before: float | None = None, keep: int | None = None
) -> tuple[list[Going], int]:
    """What `prune` would remove now, and the bytes of what no run owns that would go with it. Changes nothing."""
    with engine.connect() as connection:
        going = dict.fromkeys([*_marked(connection), *_old(connection, at, before, keep)])
        found = [_going(connection, run) for run in going]
        unowned = list(_unowned(_first(connection, going), at)) if going else []
        return found, sum(_bytes(connection, table, here) for table, here in unowned)


def _old(connection: Connection, at: Moment, before: float | None, keep: int | None) -> list[str]:
    if before is None and keep is None:
        raise ValueError("prune: give a time, or how many of the newest runs to keep")
    found = by_age(connection)[keep or 0 :]
    on = living(connection, at)
    old = [each for each in found if each.run not in on and (before is None or each.last < before)]
    return [each.run for each in without_attach(connection, old, at) if before is None or each.last < before]


def _marked(connection: Connection) -> list[str]:
    return list(connection.execute(select(runs.c.run).where(runs.c.pruned_at.is_not(None))).scalars())


def _remove(engine: Engine, so_far: Progress, on_progress: Callable[[Progress], None]) -> None:
    done = {"rollouts": 0, "dispatches": 0}
    on_progress(so_far)
    run = so_far.run
    while names := _some(engine, dispatches, dispatches.c.dispatch, dispatches.c.run == run):
        of_them = (tags, tags.c.claimed.in_(names)), (spans, spans.c.dispatch.in_(names))
        _delete(engine, *of_them, (dispatches, dispatches.c.dispatch.in_(names)))
        done["dispatches"] += len(names)
        on_progress(Progress(run, so_far.done, so_far.total, **done))
    while names := _some(engine, rollouts, rollouts.c.rollout, rollouts.c.run == run):
        _delete(engine, (rollouts, and_(rollouts.c.run == run, rollouts.c.rollout.in_(names))))
        done["rollouts"] += len(names)
        on_progress(Progress(run, so_far.done, so_far.total, **done))
    _delete(engine, *((table, table.c.run == run) for table in _OF_A_RUN))


_OF_A_RUN: list[Table] = [counts, benchmarks, watched, notices, sessions, runs]
"""Tables with few rows for each run, which go together and last."""


def _some(engine: Engine, table: Table, column: Any, here: ColumnElement[bool]) -> Sequence[str]:
    with engine.connect() as connection:
        return connection.execute(select(column).select_from(table).where(here).limit(TOGETHER)).scalars().all()


def _delete(engine: Engine, *wanted: tuple[Table, ColumnElement[bool]]) -> None:
    with writing(engine).begin() as connection:
        dialect.alone(connection)
        for table, here in wanted:
            connection.execute(delete(table).where(here))


def _first(connection: Connection, but: Sequence[str] | dict[str, None] = ()) -> float | None:
    """When the first session of those that stay began."""
    return connection.execute(select(func.min(sessions.c.started_at)).where(sessions.c.run.not_in(list(but)))).scalar()


def _unowned(first: float | None, at: Moment) -> Iterator[tuple[Table, ColumnElement[bool]]]:
    """What no run owns, was told before the first that stays began, and a day ago: a run may be about to begin."""
    until = min(at.now - LONG_AGO_S, float("inf") if first is None else first)
    known = select(dispatches.c.dispatch).where(dispatches.c.dispatch == spans.c.dispatch)
    yield tags, and_(tags.c.dispatch.is_(None), tags.c.last_at < until, _received(tags) < until)
    yield spans, and_(_received(spans) < until, not_(known.exists()))
    yield early, _received(early) < until
    yield proxies, proxies.c.heard_at < until


def _received(table: Table) -> ColumnElement[float]:
    """What an older program has stored has no such time."""
    return func.coalesce(table.c.received_at, 0.0)


def _going(connection: Connection, run: str) -> Going:
    here = rollouts.c.run == run
    number = connection.execute(select(func.count()).select_from(rollouts).where(here)).scalar_one()
    of_run = [rollouts, dispatches, *_OF_A_RUN]
    names = select(dispatches.c.dispatch).where(dispatches.c.run == run)
    of_dispatch = ((tags, tags.c.claimed.in_(names)), (spans, spans.c.dispatch.in_(names)))
    wanted = [*((table, table.c.run == run) for table in of_run), *of_dispatch]
    return Going(run, number, sum(_bytes(connection, table, here) for table, here in wanted))


def _bytes(connection: Connection, table: Table, here: ColumnElement[bool]) -> int:
    asked = select(func.coalesce(func.sum(dialect.bytes_of(connection, table)), 0)).select_from(table).where(here)
    return int(connection.execute(asked).scalar_one())
