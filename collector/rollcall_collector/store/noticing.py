"""What has been told to the webhook: each notice is one row, which one collector at a time has in hand.

To have it in hand is to have moved its `next_at` into the future. So of several collectors of one database one sends a
try, and another goes on where that one has died.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, func, not_, select, update

from .dialect import insert
from .hearing import Moment, has_ended
from .schema import notices, runs, sessions

PAUSES_S = (2.0, 15.0, 60.0, 240.0)
"""Seconds from one try to the next; there is one try more than pauses."""

TRIES = len(PAUSES_S) + 1

IN_HAND_S = 30.0
"""Seconds for which a try is its collector's; longer than one may take."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A run that may have something to tell: how many sessions it has had, and whether one is alive."""

    run: str
    sessions: int
    alive: bool


def watched_runs(connection: Connection, at: Moment, since: float, leaving_out: Iterable[str]) -> list[Watched]:
    """Runs with a sign of life since a time; sessions of some modes are none of a run's own."""
    last = func.max(func.coalesce(sessions.c.ended_at, sessions.c.heartbeat_at))
    own = sessions.c.mode.not_in(list(leaving_out))
    shown = sessions.join(runs, runs.c.run == sessions.c.run)
    asked = select(sessions.c.run, func.count()).select_from(shown).where(own, runs.c.pruned_at.is_(None))
    found = connection.execute(asked.group_by(sessions.c.run).having(last > since)).all()
    living = select(sessions.c.run).where(own, not_(has_ended(at))).distinct()
    alive = set(connection.execute(living).scalars())
    return [Watched(run, number, run in alive) for run, number in found]


def over_with(connection: Connection, run: str) -> set[tuple[str, int]]:
    """(event, number) of a run's notices that were sent, or given up."""
    done = (notices.c.sent_at.is_not(None)) | (notices.c.tries >= TRIES)
    rows = connection.execute(select(notices.c.event, notices.c.number).where(notices.c.run == run, done))
    return {(row.event, row.number) for row in rows}


def take(connection: Connection, run: str, event: str, number: int, now: float) -> int | None:
    """Take a notice in hand: which try it is. None where it is not due, or another collector has it."""
    new = {"run": run, "event": event, "number": number, "tries": 0, "next_at": now}
    connection.execute(insert(connection, notices).values(new).on_conflict_do_nothing())
    tries = connection.execute(select(notices.c.tries).where(*_this(run, event, number))).scalar_one()
    if tries >= TRIES:
        return None
    due = (notices.c.tries == tries, notices.c.next_at <= now, notices.c.sent_at.is_(None))
    taken = update(notices).where(*_this(run, event, number), *due)
    taken = taken.values(tries=tries + 1, next_at=now + IN_HAND_S)
    return tries + 1 if connection.execute(taken).rowcount else None


def note_sent(connection: Connection, run: str, event: str, number: int, now: float) -> None:
    """A notice has been taken in by whom it was sent to."""
    connection.execute(update(notices).where(*_this(run, event, number)).values(sent_at=now))


def note_failed(connection: Connection, run: str, event: str, number: int, next_at: float) -> None:
    """A try has failed; the next one is not before a time."""
    connection.execute(update(notices).where(*_this(run, event, number)).values(next_at=next_at))


def _this(run: str, event: str, number: int) -> tuple[ColumnElement[bool], ...]:
    return (notices.c.run == run, notices.c.event == event, notices.c.number == number)
