"""Removing old runs with all that hangs on them.

A run is first marked, from when on nobody is shown it, and then removed in small transactions, the run itself last. So
nobody else waits long, nobody sees half of a run, and what was stopped on the way is finished by the next pruning.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Table, and_, delete, exists, func, not_, select, text, update

from . import dialect
from .database import writing
from .hearing import Moment, has_ended
from .schema import benchmarks, counts, dispatches, notices, rollouts, runs, sessions, spans, tags, watched

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


def prune(
    engine: Engine,
    at: Moment,
    before: float | None = None,
    keep: int | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> list[str]:
    """Remove the runs that ended before a time, all but the newest `keep`, or both; returns their ids.

    A run with a session that is alive is never removed. Failed calls without an owner are removed where they are
    older than every run that stays. SQLite gives the space back to the disk. Raises ValueError without a bound.
    """
    if before is None and keep is None:
        raise ValueError("prune: give a time, or how many of the newest runs to keep")
    with writing(engine).begin() as connection:
        dialect.alone(connection)
        connection.execute(
            update(runs).where(runs.c.run.in_(_old(connection, at, before, keep))).values(pruned_at=at.now)
        )
        marked = list(connection.execute(select(runs.c.run).where(runs.c.pruned_at.is_not(None))).scalars())
    for number, run in enumerate(marked):
        _remove(engine, Progress(run, number, len(marked)), on_progress)
    if marked:
        _remove_unowned(engine)
        _give_back(engine)
    return marked


def _old(connection: Connection, at: Moment, before: float | None, keep: int | None) -> list[str]:
    newest, last = (
        func.max(sessions.c.started_at),
        func.max(func.coalesce(sessions.c.ended_at, sessions.c.heartbeat_at)),
    )
    asked = select(sessions.c.run, last.label("last")).group_by(sessions.c.run).order_by(newest.desc(), sessions.c.run)
    alive = exists().where(sessions.c.run == runs.c.run, sessions.c.attached, not_(has_ended(at)))
    living = set(connection.execute(select(runs.c.run).where(alive)).scalars())
    found = [(row.run, row.last) for row in connection.execute(asked)]
    old = found if keep is None else found[keep:]
    return [run for run, ended in old if run not in living and (before is None or ended < before)]


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
    rest: list[Table] = [counts, benchmarks, watched, notices, sessions, runs]
    _delete(engine, *((table, table.c.run == run) for table in rest))


def _some(engine: Engine, table: Table, column: Any, here: ColumnElement[bool]) -> Sequence[str]:
    with engine.connect() as connection:
        return connection.execute(select(column).select_from(table).where(here).limit(TOGETHER)).scalars().all()


def _delete(engine: Engine, *wanted: tuple[Table, ColumnElement[bool]]) -> None:
    with writing(engine).begin() as connection:
        dialect.alone(connection)
        for table, here in wanted:
            connection.execute(delete(table).where(here))


def _remove_unowned(engine: Engine) -> None:
    with writing(engine).begin() as connection:
        first = connection.execute(select(func.min(sessions.c.started_at))).scalar()
        old = (tags.c.dispatch.is_(None),) + (() if first is None else (tags.c.last_at < first,))
        connection.execute(delete(tags).where(*old))
        unknown = spans.c.dispatch.not_in(select(dispatches.c.dispatch))
        older = () if first is None else (spans.c.received_at < first,)
        connection.execute(delete(spans).where(unknown, *older))


def _give_back(engine: Engine) -> None:
    if engine.dialect.name == "sqlite":
        with engine.connect() as connection:
            connection.connection.driver_connection.execute("VACUUM")  # type: ignore[union-attr]  # it is connected
            connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)"))
