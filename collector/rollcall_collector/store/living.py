"""Which runs may still be on, for who would remove them. In doubt a run is.

An attached session gives a sign of life every few seconds, and says its end. One without the attach says neither: its
signs are what its dispatches do. And whatever a session is, a dispatch that is open at a proxy that reports is on.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, exists, func, not_, select

from .hearing import LONG_AGO_S, Moment, has_ended
from .schema import RUNNING, dispatches, proxies, runs, sessions


@dataclass(frozen=True, slots=True)
class Run:
    """A run, and the last sign of life that it gave; seconds since the epoch."""

    run: str
    last: float


def by_age(connection: Connection) -> list[Run]:
    """All runs, the newest first, by when their last session began."""
    newest = func.max(sessions.c.started_at)
    last = func.max(func.coalesce(sessions.c.ended_at, sessions.c.heartbeat_at))
    asked = select(sessions.c.run, last.label("last")).group_by(sessions.c.run).order_by(newest.desc(), sessions.c.run)
    return [Run(row.run, row.last) for row in connection.execute(asked)]


def living(connection: Connection, at: Moment) -> set[str]:
    """The runs that may be on, but for what the dispatches of `without_attach` do."""
    alive = exists().where(sessions.c.run == runs.c.run, sessions.c.attached, not_(has_ended(at)))
    found = set(connection.execute(select(runs.c.run).where(alive)).scalars())
    reporting = select(proxies.c.proxy).where(proxies.c.ended_at.is_(None), proxies.c.heard_at >= at.now - LONG_AGO_S)
    for proxy in connection.execute(reporting).scalars().all():
        its = dispatches.c.dispatch.startswith(f"d-{proxy}.", autoescape=True)
        found.update(connection.execute(select(dispatches.c.run).where(RUNNING, its).distinct()).scalars())
    return found


def without_attach(connection: Connection, some: Iterable[Run], at: Moment) -> Iterator[Run]:
    """These runs, with what the dispatches of those that have a session without the attach say of their last sign of
    life; those of which it is less than a day ago are left out.

    All dispatches of such a run are looked at, so ask only of those that are in question.
    """
    asked = select(sessions.c.run).where(not_(sessions.c.attached), sessions.c.ended_at.is_(None)).distinct()
    silent = set(connection.execute(asked).scalars())
    for each in some:
        if each.run not in silent:
            yield each
            continue
        last = max(each.last, _last_of_dispatches(connection, each.run))
        if last < at.now - LONG_AGO_S:
            yield Run(each.run, last)


def _last_of_dispatches(connection: Connection, run: str) -> float:
    times = func.max(dispatches.c.started_at), func.max(dispatches.c.ended_at)
    begun, ended = connection.execute(select(*times).where(dispatches.c.run == run)).one()
    return max(begun or 0.0, ended or 0.0)
