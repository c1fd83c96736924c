"""Which proxies have told all they know.

Each proxy says every few seconds how much lies in its spool, past the spool, so that one that cannot reach the
collector is silent. One that has fallen silent while a session was on, or has batches in its spool, may know of
failures that nobody else does: until it reports again, or another one that has delivered what it left says that it is
gone, no metrics are released. What a proxy does after the session's end concerns it no more.

A call may fail between two reports of a proxy that is cut off just then. So each claims until when it has told all: it
is given the collector's time, has what it knows stored, and then claims the time it was given, which no delay on the
way makes wrong. Of a session that has ended, and for a question that is asked in a dispatcher's name, claims count.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, and_, case, false, func, or_, select, update

from ..contract.exchange import Event, ProxyGone, ProxyHeard
from .dialect import insert
from .hearing import SESSION_SILENCE_S, Moment
from .schema import REBUILT, proxies, sessions

SILENCE_S = 15.0
"""Seconds after which a proxy that has not reported is silent; it reports three times within them."""


def hear(connection: Connection, events: Sequence[Event], now: float | None) -> None:
    """Note what proxies report of themselves, and which are gone."""
    heard = {event.proxy: event for event in events if isinstance(event, ProxyHeard)}
    if heard and now is not None:
        into = insert(connection, proxies)
        names = {name: into.excluded[name] for name in ("heard_at", "spooled", "ended_at")}
        told, known = into.excluded.told_at, proxies.c.told_at
        names["told_at"] = case((told < known, known), else_=func.coalesce(told, known))  # a claim that was overtaken
        changed = into.on_conflict_do_update(index_elements=["proxy"], set_=names)
        connection.execute(changed, [_row(heard[proxy], now) for proxy in sorted(heard)])
    for event in events:
        if isinstance(event, ProxyGone):
            at = now or event.ended_at
            into = insert(connection, proxies).values(proxy=event.proxy, heard_at=at, spooled=0, ended_at=at)
            ended = {name: into.excluded[name] for name in ("spooled", "ended_at")}
            connection.execute(into.on_conflict_do_update(index_elements=["proxy"], set_=ended))


def _row(event: ProxyHeard, now: float) -> dict[str, Any]:
    ended = now if event.ended and not event.spooled else None
    told = None if event.told_at is None else min(event.told_at, now)
    return {"proxy": event.proxy, "heard_at": now, "spooled": event.spooled, "ended_at": ended, "told_at": told}


def note_told(connection: Connection, proxy: str, now: float) -> None:
    """A proxy asks in a dispatcher's name, and has told all it knew."""
    connection.execute(update(proxies).where(proxies.c.proxy == proxy).values(told_at=now, heard_at=now))


def unreported(connection: Connection, run: str, at: Moment, asked_at: float | None = None) -> list[str]:
    """Why proxies may know more of a run's last session than has been told.

    `asked_at`: what they knew then must have been told, and not only what they knew a while ago. Of what was taken from
    files proxies know nothing more.
    """
    last = connection.execute(
        select(sessions.c.started_at, sessions.c.ended_at, _end(at).label("end"))
        .where(sessions.c.run == run, sessions.c.attached, sessions.c.mode != REBUILT)
        .order_by(sessions.c.started_at.desc())
        .limit(1)
    ).first()
    if last is None:
        return []
    seen = (proxies.c.ended_at.is_(None), proxies.c.heard_at >= last.started_at - SILENCE_S)
    unheard = and_(proxies.c.heard_at < at.since, last.end >= at.since)  # not since this collector began to listen
    silent = or_(proxies.c.heard_at < last.end - SILENCE_S, unheard)
    needed = last.ended_at if asked_at is None else min(asked_at, last.end)
    behind = false() if needed is None else proxies.c.told_at < needed
    asked = select(proxies.c.proxy, proxies.c.spooled, silent.label("silent")).where(
        *seen, or_(proxies.c.spooled > 0, silent, behind)
    )
    return [_said(row) for row in connection.execute(asked.order_by(proxies.c.proxy))]


def _end(at: Moment) -> Any:
    """When a session ended: as it said, or when it had been silent for too long; now where it is on."""
    silent_at = sessions.c.heartbeat_at + SESSION_SILENCE_S
    return func.coalesce(sessions.c.ended_at, case((silent_at < at.now, silent_at), else_=at.now))


def _said(row: Any) -> str:
    if row.silent:
        cure = "start it again with its spool"
        return f"the proxy {row.proxy} does not report: its spool may hold failures; {cure}"
    if not row.spooled:
        return f"the proxy {row.proxy} has not told all it knows"
    return f"{row.spooled} batches of events wait in the spool of the proxy {row.proxy}"
