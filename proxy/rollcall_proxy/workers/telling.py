"""A worker's records: what its exchanges leave is told to the first process."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from rollcall_collector.contract.policy import Policy

from ..bodies import hint_in
from ..clock import now
from ..exchange import Bad, Exchange
from ..owners import COOKIE, OWNER_FIELD
from ..recording import NO_CALL, cancellation, ending, good_from, later
from ..roles import MODEL_ROLES
from ..spans import Spans
from .channel import Channel
from .standing import Standing
from .words import bytes_as_json, good_as_json, key_as_json

_NAMING = (OWNER_FIELD.lower(), "traceparent", "baggage")
"""Fields by which ways that need carriers may name another owner; it is said in a tag (`hearing`)."""
Seen = tuple[str, int, str, bool]
"""(dispatch, number of the server, server that called, whether it is a model call)"""


class InForce:
    """The policy, as the first process has told it."""

    def __init__(self) -> None:
        self.policy = Policy()


class Outlet:
    """Where spans go: the first process sends their events. Those of one turn of the loop travel together."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._events: list[tuple[str, int, bytes]] = []

    def put(self, dispatch: str, event: bytes, count: int) -> None:
        """Take an event."""
        if not self._events:
            asyncio.get_running_loop().call_soon(self.send)
        self._events.append((dispatch, count, event))

    def send(self) -> None:
        """Send what has been put."""
        events, self._events = self._events, []
        if events:
            about = {"events": [(dispatch, count, len(event)) for dispatch, count, event in events]}
            self._channel.send("spans", about, b"".join(event for _, _, event in events))


class Telling:
    """A `Recorder`."""

    def __init__(self, channel: Channel, in_force: InForce, standing: Standing, spans: Spans) -> None:
        self._channel, self.in_force, self._standing, self.spans = channel, in_force, standing, spans
        self._seen: Counter[Seen] = Counter()
        self._in_flight: list[int] = []
        self._ids: Iterator[int] = count()
        self._storing: dict[int, tuple[Exchange, Bad, Callable[[], None]]] = {}

    def saw(self, exchange: Exchange, server: int) -> None:
        """An exchange with an owner begins."""
        owner = exchange.owner
        if exchange.dispatch is not None and owner is not None:
            self._seen[exchange.dispatch, server, owner.server, exchange.role in MODEL_ROLES] += 1

    def tell_counts(self, in_flight: list[int]) -> None:
        """Tell what has been counted since it was told last, and what is in flight, by the servers' numbers."""
        seen, ended = [[*what, times] for what, times in self._seen.items()], self.spans.measured.taken()
        if seen or ended or in_flight != self._in_flight:
            self._channel.send("counts", {"seen": seen, "ended": ended, "in_flight": in_flight})
            self._in_flight = in_flight
            self._seen.clear()

    def ended_badly(self, exchange: Exchange, bad: Bad, leaving: bool, then: Callable[[], None]) -> bool:
        """Have an exchange tagged once; `then` is called when its tag is stored, and all workers know of it."""
        if exchange.tagged:
            return True
        exchange.tagged = True
        tag, key = exchange.tag(NO_CALL, bad, now()), exchange.key()
        if tag.dispatch is not None:
            self._standing.failed(tag.dispatch, key, exchange.role in MODEL_ROLES, tag.ended_at)
        number = next(self._ids)
        about = {"tag": tag, "key": key_as_json(key), "leaving": leaving, "hint": hint_in(bad), "number": number}
        self._channel.send("bad", about | {"url": exchange.upstream.url, "named": _named(exchange)})
        self._storing[number] = (exchange, bad, then)
        return False

    def close(self) -> None:
        """Wait for no tag any more; what has been told is stored all the same."""
        self._storing.clear()

    def stored(self, number: int, call: str) -> None:
        """A tag is stored, as one of this call."""
        if (waiting := self._storing.pop(number, None)) is not None:
            exchange, bad, then = waiting
            with ending(exchange, then):
                self.spans.ended(exchange, bad.what, bad.status, call)
                later(then)

    def ended_well(self, exchange: Exchange, unread: bool) -> None:
        """Tell what may heal a call."""
        self.spans.ended(exchange, status=exchange.status)
        if unread:
            self._channel.send("not_inspected", good_as_json(good_from(exchange)))
        if self._standing.may_heal(exchange):
            self._channel.send("good", good_as_json(good_from(exchange)) | {"key": key_as_json(exchange.key())})

    def cancelled(self, exchange: Exchange) -> None:
        """The caller went away first."""
        if exchange.dispatch is not None and not exchange.tagged:
            tag = cancellation(exchange)
            self.spans.ended(exchange, tag.what, exchange.status, tag.call)
            self._channel.send("cancelled", {"tag": tag, "named": _named(exchange)})


def _named(exchange: Exchange) -> dict[str, Any]:
    """What named the owner, but for cookies: none but Rollcall's own would say anything."""
    fields = {name: value for name in _NAMING if (value := exchange.head.fields.get(name)) is not None}
    if exchange.owner is not None and exchange.owner.by == "cookie":
        fields["cookie"] = f"{COOKIE}={exchange.owner.token()}"
    return {"path": bytes_as_json(exchange.head.path), "fields": fields}
