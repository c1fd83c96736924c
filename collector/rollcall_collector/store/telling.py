"""Which proxies are at work, and until when each has told all that it knew.

A failed call of a run may be known to a proxy that cannot reach a collector just now: the agent's machine is cut off,
say, and the dispatcher's is not. Unknown is not complete, so a run's metrics wait until every proxy that was at work
during its last session has told what it knew when they were asked for.

Times are the collector's. A proxy asks for the time first, then has its events stored, and claims the time it was
given: so a claim that travels long claims no more than is true.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy import Connection, and_, delete, func, or_, select

from ..contract.exchange import Id, Text
from .dialect import insert
from .hearing import SESSION_SILENCE_S, Moment, has_ended
from .schema import proxies, sessions

BEFORE_S = 120.0
"""A proxy that was last heard of so long before a session began is none of its: it had ended, or nobody used it."""
LATE_S = 10.0
"""For so long what a proxy has told counts for a question that nobody waits for."""
_KEPT_S = 30 * 86_400.0

Number = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Report:
    """What a proxy says of itself; it has been at work for `age_s` seconds.

    `told_at` is a time that the collector has given: what was known then is stored. `waiting` batches are in the spool,
    `lost` ones nobody has. `instead_of` are senders that have died and whose spools this one has delivered. One that
    `leaves` ends now.
    """

    address: Text
    age_s: Annotated[float, Field(ge=0)] = 0.0
    told_at: float | None = None
    waiting: Number = 0
    lost: Number = 0
    instead_of: Sequence[Id] = ()
    leaves: bool = False


def note_report(connection: Connection, sender: str, report: Report, now: float) -> None:
    """Keep what a proxy says of itself."""
    if not report.waiting:
        connection.execute(delete(proxies).where(proxies.c.sender.in_(report.instead_of)))
    if report.leaves and not (report.waiting or report.lost):
        connection.execute(delete(proxies).where(proxies.c.sender == sender))
        return
    told = min(report.told_at or 0.0, now)
    values = {"address": report.address, "heard_at": now, "waiting": report.waiting, "lost": report.lost}
    into = insert(connection, proxies).values(sender=sender, began_at=now - report.age_s, told_at=told, **values)
    later = func.max if connection.dialect.name == "sqlite" else func.greatest
    changed = values | {"told_at": later(proxies.c.told_at, into.excluded.told_at)}
    connection.execute(into.on_conflict_do_update(index_elements=["sender"], set_=changed))
    connection.execute(delete(proxies).where(proxies.c.heard_at < now - _KEPT_S))


def note_told(connection: Connection, sender: str, now: float) -> None:
    """A proxy asks in a dispatcher's name, and has told all it knew."""
    connection.execute(proxies.update().where(proxies.c.sender == sender).values(told_at=now, heard_at=now))


def not_told(connection: Connection, run: str, at: Moment, asked_at: float | None = None) -> list[str]:
    """Which proxies may know of a run what is not stored, in words.

    `asked_at`: since then they must have told; where nobody waits for that, LATE_S before now is enough.
    """
    session = _last_session(connection, run, at)
    if session is None:
        return []
    began, ended = session
    needed = (at.now - LATE_S if asked_at is None else asked_at) if ended is None else ended
    here = [proxies.c.heard_at >= began - BEFORE_S, *([] if ended is None else [proxies.c.began_at <= ended])]
    doubtful = or_(proxies.c.told_at < needed, proxies.c.lost > 0)
    asked = select(proxies).where(and_(*here), doubtful).order_by(proxies.c.address, proxies.c.sender)
    return [_doubt(row, at.now) for row in connection.execute(asked)]


def _last_session(connection: Connection, run: str, at: Moment) -> tuple[float, float | None] | None:
    """When a run's last session began and ended; None for the latter while it is on."""
    asked = select(sessions, has_ended(at).label("over")).where(sessions.c.run == run)
    found = connection.execute(asked.order_by(sessions.c.started_at.desc()).limit(1)).first()
    if found is None:
        return None
    silent = found.heartbeat_at + SESSION_SILENCE_S if found.over else None
    return found.started_at, silent if found.ended_at is None else found.ended_at


def _doubt(row: Any, now: float) -> str:
    if row.lost:
        return f"the proxy at {row.address} has lost {row.lost} batches of events"
    if row.waiting:
        return f"the proxy at {row.address} has not told all: {row.waiting} batches of events wait"
    if now - row.heard_at > LATE_S:
        return f"the proxy at {row.address} has not been heard of for {now - row.heard_at:.0f} s"
    return f"the proxy at {row.address} has not told all it knows"
