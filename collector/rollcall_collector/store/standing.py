"""What is asked of calls where a proxy has died: what stood failed there, and what nobody can begin any more.

A proxy that follows another one at its address is told the calls that stand failed, of dispatches that are open, or
were when it began to serve: it may have seen more of them before it could ask.

A call's id names the line of its proxies (`c-PRINT-LINE-PROCESS.NUMBER`): whoever asks takes over what its own line
has seen, since another proxy that lives goes on with its own. A dispatch of which only other proxies have told so far
is open too.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, bindparam, not_, select, update

from .dialect import among
from .schema import FAILED, RUNNING, dispatches, early, proxies, tags
from .working import portions

_CLOCKS_S = 60.0
"""Seconds by which two machines' clocks may differ."""

_NOT_BEGUN_S = 86_400.0
"""Seconds for which a call of a dispatch that has yet to begin is looked for."""


def standing(connection: Connection, line: str, since: float) -> list[dict[str, Any]]:
    """Each call once, with the end of its last exchange. `since`: when who asks began to serve."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for asked, back in ((_OF_OPEN, 0.0), (_OF_ENDED, _CLOCKS_S), (_YET_TO_BEGIN, _NOT_BEGUN_S)):
        for row in connection.execute(asked, {"since": since - back} if back else {}):
            if _is_of(row.call, line):
                found[row.claimed, row.call] = _as_json(row)
    over = _recovered_early(connection, {dispatch for dispatch, _ in found})
    return [each for key, each in found.items() if key not in over]


def _is_of(call: str, line: str) -> bool:
    parts = call.split("-")
    return len(parts) == 4 and parts[2] == line


def _as_json(row: Any) -> dict[str, Any]:
    return {
        "dispatch": row.claimed,
        "call": row.call,
        "server": row.server,
        "role": row.tag["role"],
        "ended_at": row.last_at,
        "outlived": row.outlived_at is not None,
    }


def _recovered_early(connection: Connection, claimed: Iterable[str]) -> set[tuple[str, str]]:
    """Calls that have recovered, of dispatches that have yet to begin."""
    found = set()
    for some in portions(sorted(claimed)):
        for dispatch, event in connection.execute(_EARLY, {"some": some}):
            if event["event"] == "recovered":
                found.add((dispatch, event["call"]))
    return found


def never_begun(connection: Connection, gone: Iterable[str], orphaned: Iterable[str]) -> None:
    """Let calls withhold nothing of dispatches that proxies which are gone have never told of.

    `gone` are proxies whose end has just been told, `orphaned` dispatches that are not known, with new tags.
    """
    over = {dispatch: proxy_of(dispatch) for dispatch in orphaned}
    ended = set[str]()
    for some in portions(sorted(set(over.values()))):
        ended.update(connection.execute(_ENDED, {"some": some}).scalars())
    for dispatch in sorted(dispatch for dispatch, proxy in over.items() if proxy in ended):
        connection.execute(_BLAMELESS.where(tags.c.claimed == dispatch))
    for proxy in gone:
        connection.execute(_BLAMELESS.where(tags.c.claimed.startswith(f"d-{proxy}.", autoescape=True)))


def proxy_of(dispatch: str) -> str:
    """The proxy that has named a dispatch (`d-PROXY.NUMBER`)."""
    return dispatch.removeprefix("d-").rpartition(".")[0]


_ENDED = select(proxies.c.proxy).where(among(proxies.c.proxy), proxies.c.ended_at.is_not(None))
_BLAMELESS = update(tags).where(tags.c.dispatch.is_(None)).values(blameless=True)

_STANDING = (
    select(*(tags.c[name] for name in ("claimed", "call", "server", "last_at", "outlived_at", "tag")))
    .where(tags.c.recovered_at.is_(None), not_(tags.c.blameless))
    .order_by(tags.c.last_at)
)
_OWNED = _STANDING.join(dispatches, dispatches.c.dispatch == tags.c.claimed).where(tags.c.dispatch.is_not(None))
_OF_OPEN = _OWNED.where(RUNNING)
_OF_ENDED = _OWNED.where(FAILED, dispatches.c.ended_at >= bindparam("since"))
_YET_TO_BEGIN = _STANDING.where(tags.c.dispatch.is_(None), tags.c.claimed != "", tags.c.last_at > bindparam("since"))
_EARLY = select(early.c.dispatch, early.c.event).where(among(early.c.dispatch))
