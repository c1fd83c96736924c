"""The way of one exchange through the proxy and back, as a stream.

A good answer passes piece by piece as it arrives. Of a failed one the last piece is held until its tag is stored.
A server that goes away in the middle is seen by the caller as a cut-off, never as a clean end.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from socket import SO_LINGER, SOL_SOCKET
from struct import pack

import aiohttp
from aiohttp import hdrs, web
from multidict import CIMultiDict
from rollcall_collector.contract.policy import ended_well

from .answers import head_of, in_place_of
from .clock import now
from .exchange import Bad, Exchange, bad_from
from .fields import request_fields
from .ledger import Ledger
from .sender import NotStoredError, Sender
from .upstream import Client, UpstreamError, Waiting, lost

log = logging.getLogger(__name__)

KEPT = 64 * 1024
"""Bytes of a failed answer that are read for its excerpt."""


class Forwarder:
    """Passes exchanges on and has those tagged that do not end well."""

    def __init__(self, client: Client, ledger: Ledger, sender: Sender, observe: bool) -> None:
        self._client, self._ledger, self._sender, self._observe = client, ledger, sender, observe

    async def forward(
        self, request: web.BaseRequest, exchange: Exchange, body: bytes | None = None
    ) -> web.StreamResponse:
        """Pass an exchange on; `body` is the request's where it has been read already. The caller's answer."""
        waiting, sent = Waiting(exchange.upstream, exchange.role), body or request_body(request, exchange)
        try:
            answer = await self.open(exchange, waiting, sent)
        except UpstreamError as error:
            if body is None:
                await _read_to_its_end(request, exchange)
            await self.ended_badly(exchange, bad_from(error))
            return self.refuse(request, exchange, error)
        except asyncio.CancelledError:
            self._cancelled(exchange)
            raise
        try:
            return await self._pass_back(request, exchange, answer, waiting)
        except asyncio.CancelledError:
            self._cancelled(exchange)
            raise
        finally:
            answer.close()

    async def open(
        self,
        exchange: Exchange,
        waiting: Waiting,
        body: bytes | AsyncIterator[bytes] | None,
        fields: CIMultiDict[str] | None = None,
    ) -> aiohttp.ClientResponse:
        """Send the request to its server, with its own fields unless others are given. Raises UpstreamError."""
        if fields is None:
            foreign = exchange.upstream.kind == "provider"
            fields = request_fields(exchange.raw_fields, None if foreign else exchange.minted())
        target = exchange.server_target
        return await self._client.open(exchange.upstream, waiting, exchange.method, target, fields, body)

    def refuse(self, request: web.BaseRequest, exchange: Exchange, error: UpstreamError) -> web.StreamResponse:
        """Answer in the server's place; in observe mode, drop the connection as the server would have."""
        if self._observe:
            return cut_off(request, web.Response(status=error.status))
        return in_place_of(exchange.upstream, error)

    async def ended_badly(self, exchange: Exchange, bad: Bad) -> None:
        """Tag an exchange, and have the tag stored."""
        call = self._ledger.call_of(exchange.dispatch, exchange.key(), exchange.started_at, now())
        tag = exchange.tag(call, bad)
        self._ledger.add(tag)
        try:
            await self._sender.store(tag)
        except NotStoredError as error:
            log.error("the tag of %s %s is not stored: %s", exchange.method, exchange.path, error)

    async def _pass_back(
        self, request: web.BaseRequest, exchange: Exchange, answer: aiohttp.ClientResponse, waiting: Waiting
    ) -> web.StreamResponse:
        passed = head_of(answer, request)
        if cookie := exchange.cookie():
            passed.headers.add("Set-Cookie", cookie)
        failed = not ended_well(answer.status)
        bad = Bad("http_status", "", answer.status, bytearray(), _coding(answer)) if failed else None
        if bad is None or not ends_with_its_head(answer):
            await passed.prepare(request)
        held = b""
        try:
            async for piece in pieces(answer, waiting):
                if bad is None:
                    await passed.write(piece)
                    continue
                if len(bad.body) < KEPT:
                    bad.body += piece
                if held:
                    await passed.write(held)
                held = piece
        except UpstreamError as error:
            await self.ended_badly(exchange, bad_from(error, answer.status))
            if held:
                await passed.write(held)
            return cut_off(request, passed)
        await self._ended(exchange, bad)
        await passed.prepare(request)
        if held:
            await passed.write(held)
        await passed.write_eof()
        return passed

    async def _ended(self, exchange: Exchange, bad: Bad | None) -> None:
        if bad is not None:
            await self.ended_badly(exchange, bad)
            return
        healed = self._ledger.heal(exchange.dispatch, exchange.key(), exchange.started_at, now())
        if healed is not None:
            self._sender.put(healed)

    def _cancelled(self, exchange: Exchange) -> None:
        """The caller went away first: recorded, never a failure by itself."""
        if exchange.dispatch is None:
            return
        tag = exchange.tag(exchange.id, Bad("cancelled", "the caller closed the connection"))
        self._ledger.add(tag)
        self._sender.put(tag)


async def pieces(answer: aiohttp.ClientResponse, waiting: Waiting) -> AsyncIterator[bytes]:
    """The answer's body as it arrives. Raises UpstreamError."""
    try:
        while piece := await waiting.next_piece(answer.content.readany()):
            yield piece
    except (aiohttp.ClientError, OSError) as error:
        raise lost(error, "before the whole answer") from error
    if (reset := _reset_at_its_end(answer)) is not None:
        raise lost(reset, "before the whole answer") from reset


def _reset_at_its_end(answer: aiohttp.ClientResponse) -> OSError | None:
    """The reset of a connection whose close was to end the answer, which aiohttp takes for a good end (RFC 9112 8)."""
    framed = hdrs.CONTENT_LENGTH in answer.headers or hdrs.TRANSFER_ENCODING in answer.headers
    if framed or answer.method == hdrs.METH_HEAD or answer.status in (204, 304):
        return None
    protocol = answer._protocol  # `connection` is gone once all has been read
    error = protocol.exception() if protocol is not None else None
    return error if isinstance(error, OSError) else None


def ends_with_its_head(answer: aiohttp.ClientResponse) -> bool:
    """Whether nothing follows the head of a failed answer."""
    return answer.method == hdrs.METH_HEAD or answer.headers.get(hdrs.CONTENT_LENGTH) == "0"


def _coding(answer: aiohttp.ClientResponse) -> str:
    return answer.headers.get(hdrs.CONTENT_ENCODING, "")


def request_body(request: web.BaseRequest, exchange: Exchange) -> AsyncIterator[bytes] | None:
    """The request's body as it arrives, digested on its way; None where there is none."""
    return _digested(request, exchange) if request.can_read_body else None


async def _read_to_its_end(request: web.BaseRequest, exchange: Exchange) -> None:
    """Digest what a server did not take: a retry is known by the whole body."""
    async for _ in _digested(request, exchange):
        pass


async def _digested(request: web.BaseRequest, exchange: Exchange) -> AsyncIterator[bytes]:
    while piece := await request.content.readany():
        exchange.digest.update(piece)
        yield piece


def cut_off(request: web.BaseRequest, response: web.StreamResponse) -> web.StreamResponse:
    """Break the caller's connection: what has been written is sent, and nothing of an end to it.

    aiohttp writes nothing more to a connection that is closing, the end of the answer included. Without a length
    and without chunks (HTTP/1.0) only a reset shows that the answer is not whole.
    """
    if request.transport is not None and request.version >= aiohttp.HttpVersion11:
        request.transport.close()
    elif request.transport is not None:
        # Without this, to abort a connection with nothing left to send ends it as cleanly as to close it (socket(7)).
        request.transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, pack("ii", 1, 0))
        request.transport.abort()
    return response
