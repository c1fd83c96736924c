"""What events tell beside the dispatches: runs and sessions of those that begin, what was seen at servers, topology."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from ..contract.exchange import DispatchBegun, Topology, Watched
from .bulk import add_rows, insert_new_rows
from .schema import benchmarks, runs, sessions, topology, watched


def know(connection: Connection, begun: Sequence[DispatchBegun]) -> None:
    """The runs, sessions and servers of dispatches that have begun.

    A session that could not be put (the collector was away) is known from its first dispatch.
    """
    seen_sessions, places = dict[str, DispatchBegun](), set[tuple[str, ...]]()
    for event in begun:
        seen_sessions.setdefault(event.session, event)
        known = (event.agent or "", event.environment_server or "", event.server)
        places.add((event.run, event.benchmark, *known))
    if begun:
        firsts = [seen_sessions[name] for name in sorted(seen_sessions)]
        insert_new_rows(connection, runs, [{"run": each.run, "created_at": each.started_at} for each in firsts])
        insert_new_rows(connection, sessions, [_session(each) for each in firsts])
        names = [column.name for column in benchmarks.c]
        insert_new_rows(connection, benchmarks, [dict(zip(names, each, strict=True)) for each in sorted(places)])


def _session(begun: DispatchBegun) -> dict[str, Any]:
    session = {"session": begun.session, "run": begun.run, "mode": "unknown", "attached": False}
    return session | {"started_at": begun.started_at, "heartbeat_at": begun.started_at}


def add_up(connection: Connection, seen: Sequence[Watched]) -> None:
    """What was seen at each server, as the last rows that are written before the counts."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for event in seen:
        known = rows.setdefault((event.run, event.server), {"kind": event.kind} | dict.fromkeys(_SEEN, 0))
        for name in _SEEN:
            known[name] += getattr(event, name)
    if rows:
        keyed = [{"run": run, "server": server} | rows[run, server] for run, server in sorted(rows)]
        add_rows(connection, watched, keyed, _SEEN)


_SEEN = ("exchanges", "owned", "made")


def relate(connection: Connection, events: Sequence[Topology]) -> None:
    named = {(name, other) for event in events for name, found in event.references.items() for other in found}
    insert_new_rows(connection, topology, [{"server": name, "refers_to": other} for name, other in sorted(named)])
