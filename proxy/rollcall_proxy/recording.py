"""What is recorded of exchanges as they end: tags, and what becomes of the calls that stood failed."""

import logging
from typing import Any

import orjson
from rollcall_collector.contract.exchange import NotInspected, Tag, Verified

from .clock import now
from .encoding import decoded
from .exchange import Bad, Exchange
from .ledger import Ledger
from .policy_in_force import PolicyInForce
from .repeats import Repeats
from .sender import NotStoredError, Sender
from .spans import Spans

log = logging.getLogger(__name__)

_GENERATING = ("model", "judge")


class Records:
    """Writes down how exchanges ended, for the collector and for this proxy's own verdicts."""

    def __init__(self, ledger: Ledger, sender: Sender, in_force: PolicyInForce, spans: Spans) -> None:
        self._ledger, self._sender, self.in_force, self.spans = ledger, sender, in_force, spans
        self._repeats = Repeats()

    def untold(self, dispatch: str | None = None) -> list[Tag]:
        """Tags that have only been counted so far, of one dispatch where one is named: from now on they are told."""
        return self._repeats.all(now()) if dispatch is None else self._repeats.of(dispatch, now())

    def due(self) -> list[Tag]:
        """Tags that have been counted for long enough."""
        return self._repeats.due(now())

    async def ended_badly(self, exchange: Exchange, bad: Bad, leaving: bool = False) -> None:
        """Tag an exchange once, and have the tag stored, unless one that says the same of its call has been.

        `leaving`: its answer says that its server is shut down.
        """
        if exchange.tagged:
            return
        ended_at, exchange.tagged = now(), True
        await self.blame(exchange, bad, leaving)
        call = self._ledger.call_of(exchange.dispatch, exchange.key(), exchange.started_at, ended_at)
        tag = exchange.tag(call, bad, ended_at)
        changes = self._ledger.add(tag)
        self.spans.ended(exchange, bad.what, bad.status, call)
        self.note_verified(exchange)
        told = self._repeats.take(tag, ended_at, at_once=changes)
        if not told:
            return
        try:
            await self._sender.store(*told)
        except NotStoredError as error:
            log.error("the tag of %s %s is not stored: %s", exchange.method, exchange.path, error)

    async def blame(self, exchange: Exchange, bad: Bad, leaving: bool) -> None:
        """Find out whether an exchange failed only because its server is being shut down."""
        departure = exchange.upstream.departure
        body = decoded(bytes(bad.body), bad.coding) or b""
        bad.shutdown = await departure.caused(bad.what, bad.status, leaving, body)

    def ended_well(self, exchange: Exchange, unread: bool) -> None:
        """Note what a good exchange heals; `unread` says that its answer could not be read."""
        dispatch, started_at, ended_at = exchange.dispatch, exchange.started_at, now()
        self.spans.ended(exchange, status=exchange.status)
        if unread and dispatch is not None:
            self._sender.put(NotInspected(dispatch, exchange.upstream.name, ended_at))
        healed = self._ledger.heal(dispatch, exchange.key, started_at, ended_at)
        if healed is not None:
            self._sender.put(*self.untold(healed.dispatch), healed)
        if exchange.role in _GENERATING:
            outlived = self._ledger.outlive(dispatch, exchange.upstream.name, started_at, ended_at)
            if outlived is not None:
                self._sender.put(*self.untold(outlived.dispatch), outlived)
        self.note_verified(exchange)

    def cancelled(self, exchange: Exchange) -> None:
        """The caller went away first: recorded, never a failure by itself."""
        if exchange.dispatch is None:
            self.spans.ended(exchange, "cancelled")
        if exchange.dispatch is None or exchange.tagged:
            return
        tag: Tag = exchange.tag(exchange.id, Bad("cancelled", "the caller closed the connection"), now())
        self._ledger.add(tag)
        self.spans.ended(exchange, tag.what, exchange.status, tag.call)
        self._sender.put(tag)

    def note_verified(self, exchange: Exchange, failed: bool = False) -> None:
        """Keep what a `/verify` was asked to judge, where it or a judge below it failed: judging can be repeated."""
        dispatch = exchange.dispatch
        if exchange.role != "verify" or dispatch is None or exchange.sent is None:
            return
        body, coding = exchange.sent.body, exchange.head.fields.get("content-encoding", "")
        if not (failed or exchange.tagged or self._ledger.judge_failed(dispatch)):
            self._ledger.keep_verified(dispatch, body, coding)
            return
        response = response_in(bytes(body), coding)
        if response is not None:
            self._ledger.keep_response(dispatch, response)
            self._sender.put(Verified(dispatch, response))


def response_in(body: bytes, coding: str) -> dict[str, Any] | None:
    """The `response` in a `/verify` request."""
    try:
        asked = orjson.loads(decoded(body, coding) or b"")
    except orjson.JSONDecodeError:
        return None
    response = asked.get("response") if isinstance(asked, dict) else None
    return response if isinstance(response, dict) else None
