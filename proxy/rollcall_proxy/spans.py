"""What this proxy has seen of each dispatch's exchanges, good ones too, until it is told to the collector.

This stands in the way of every call, so an exchange costs two entries in dicts and one tuple: what calls have in common
is kept once for each dispatch, and an event is encoded as a whole. What waits is told when a dispatch ends, when it is
much, and from time to time, also of what is in flight.

Memory is bounded: `limit` exchanges are kept of a dispatch and others are counted. A dispatch that has ended, or was
begun at another proxy, may be forgotten; then its count begins anew.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from .clock import now
from .exchange import Exchange, stored_method, stored_route
from .measuring import Exchanges

SOON_S = 2.0
"""Seconds after which an exchange that has not ended is told of."""

_TOGETHER = 500
"""Spans that are told at once."""
_REMEMBERED = 20_000
"""Dispatches of which it is remembered how many exchanges were kept."""

_End = tuple[float | None, int | None, str, str]
"""(ended_at, status, what, call)"""


class Outlet(Protocol):
    """Where events of spans go; it never waits."""

    def put(self, dispatch: str, event: bytes, count: int) -> None:
        """Take an event, as JSON, that tells of `count` exchanges."""


@dataclass(slots=True)
class _Waiting:
    """What is to be told of a dispatch. `room` is how many more of its exchanges are kept."""

    room: int
    shared: dict[tuple[Any, ...], int] = field(default_factory=dict)
    last: tuple[Any, ...] = ()
    number: int = 0
    """What decides what the last one shares, and the number of that: most are like the last one."""
    spans: list[tuple[Any, ...]] = field(default_factory=list)
    lost: int = 0


class Spans:
    """Notes exchanges as they begin and end; `limit` 0 notes none. All are counted, in `measured`."""

    def __init__(self, outlet: Outlet, limit: int) -> None:
        self._outlet, self._limit = outlet, limit
        self.measured = Exchanges()
        self._open: dict[str, Exchange] = {}
        self._told: set[str] = set()
        self._waiting: dict[str, _Waiting] = {}
        self._changed: dict[str, _Waiting] = {}

    def began(self, exchange: Exchange) -> None:
        """An exchange is on its way; one without an owner is none of a dispatch's."""
        if self._limit and exchange.dispatch is not None:
            self._open[exchange.id] = exchange

    def ended(
        self, exchange: Exchange, what: str = "", status: int | None = None, call: str = "", at: float | None = None
    ) -> None:
        """An exchange has ended, with `what` and the `call` of its tag where not well; now, unless it was `at` a time.

        Only its first end counts.
        """
        ended_at = now() if at is None else at
        if not exchange.counted:
            exchange.counted = True
            self.measured.ended(exchange.upstream.name, exchange.role, what, ended_at - exchange.started_at)
        if self._open.pop(exchange.id, None) is None:
            return
        counted = bool(self._told) and exchange.id in self._told
        if counted:
            self._told.discard(exchange.id)
        self._note(exchange, (ended_at, status, what, call), counted)

    def close(self, dispatch: str) -> None:
        """A dispatch has ended: tell what waits of it, and forget it."""
        waiting = self._waiting.pop(dispatch, None)
        if waiting is not None and self._changed.pop(dispatch, None) is not None:
            self._tell(dispatch, waiting)

    def tell(self) -> None:
        """Tell all that waits, and what has been in flight for a while."""
        before = now() - SOON_S
        lasting = [each for each in self._open.values() if each.started_at < before and each.id not in self._told]
        for exchange in lasting:
            if self._note(exchange, (None, exchange.status, "", "")):
                self._told.add(exchange.id)
        changed, self._changed = self._changed, {}
        for dispatch, waiting in changed.items():
            self._tell(dispatch, waiting)
        while len(self._waiting) > _REMEMBERED:
            del self._waiting[next(iter(self._waiting))]

    def _note(self, exchange: Exchange, end: _End, counted: bool = False) -> bool:
        """Whether there was room for it; one that was counted while it was in flight has its place."""
        dispatch = exchange.dispatch or ""
        waiting = self._waiting.get(dispatch)
        if waiting is None:
            waiting = self._waiting[dispatch] = _Waiting(self._limit)
        if not (waiting.spans or waiting.lost):
            self._changed[dispatch] = waiting
        if not counted:
            if waiting.room <= 0:
                waiting.lost += end[0] is not None
                return False
            waiting.room -= 1
        like = (exchange.owner, exchange.upstream, exchange.role, exchange.method, exchange.head.path)
        if like != waiting.last:
            shared = waiting.shared
            waiting.last, waiting.number = like, shared.setdefault(_shared(exchange), len(shared))
        waiting.spans.append((waiting.number, exchange.id, exchange.started_at, *end))
        if len(waiting.spans) >= _TOGETHER:
            del self._changed[dispatch]
            self._tell(dispatch, waiting)
        return True

    def _tell(self, dispatch: str, waiting: _Waiting) -> None:
        if not (waiting.spans or waiting.lost):
            return
        told = {"event": "spans", "dispatch": dispatch, "shared": list(waiting.shared), "spans": waiting.spans}
        self._outlet.put(dispatch, orjson.dumps(told | {"lost": waiting.lost}), len(waiting.spans) + waiting.lost)
        waiting.shared, waiting.last, waiting.spans, waiting.lost = {}, (), [], 0


def _shared(exchange: Exchange) -> tuple[Any, ...]:
    """What an exchange has in common with others, in the order of the event's fields."""
    owner, upstream = exchange.owner, exchange.upstream
    parent, by, carrier = ("", "run", "") if owner is None else (owner.exchange, owner.by, owner.carrier)
    method, path = stored_method(exchange.method), stored_route(exchange.head.path)
    return (upstream.name, upstream.kind, exchange.role, method, path, parent, exchange.depth, by, carrier)
