"""The way of one exchange through the proxy and back, as a stream.

An answer passes piece by piece as it arrives, read on its way (`inspecting`). Of one that must not end before its
verdict the last piece is held until its tag is stored; an event stream is not held, but for the piece in which it says
that it failed. A server that goes away in the middle is seen by the caller as a cut-off, never as a clean end.
"""

import asyncio
from collections.abc import AsyncIterator
from socket import SO_LINGER, SOL_SOCKET
from struct import pack

import aiohttp
from aiohttp import hdrs, web
from multidict import CIMultiDict

from .answers import head_of, in_place_of
from .exchange import Exchange, bad_from
from .fields import request_fields
from .inspecting import STREAM, media_type_of, reading_of
from .recording import Records
from .upstream import Client, UpstreamError, Waiting, lost


class Forwarder:
    """Passes exchanges on and has those tagged that do not end well."""

    def __init__(self, client: Client, records: Records, observe: bool, inspect_limit: int) -> None:
        self._client, self._records, self._observe, self._limit = client, records, observe, inspect_limit

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
            await self._records.ended_badly(exchange, bad_from(error))
            return self.refuse(request, exchange, error)
        except asyncio.CancelledError:
            self._records.cancelled(exchange)
            raise
        try:
            return await self._pass_back(request, exchange, answer, waiting)
        except asyncio.CancelledError:
            self._records.cancelled(exchange)
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
        answer = await self._client.open(exchange.upstream, waiting, exchange.method, target, fields, body)
        exchange.upstream.departure.heard(answer.headers, exchange.started_at)
        return answer

    def refuse(self, request: web.BaseRequest, exchange: Exchange, error: UpstreamError) -> web.StreamResponse:
        """Answer in the server's place; in observe mode, drop the connection as the server would have."""
        if self._observe:
            return cut_off(request, web.Response(status=error.status))
        return in_place_of(exchange.upstream, error)

    async def _pass_back(
        self, request: web.BaseRequest, exchange: Exchange, answer: aiohttp.ClientResponse, waiting: Waiting
    ) -> web.StreamResponse:
        passed = head_of(answer, request)
        if cookie := exchange.cookie():
            passed.headers.add("Set-Cookie", cookie)
        reading = reading_of(exchange, answer, self._records.in_force.policy, self._limit)
        if not (reading.holds and ends_with_its_head(answer)):
            await passed.prepare(request)
        held = b""
        try:
            async for piece in pieces(answer, waiting):
                if bad := reading.feed(piece):
                    await self._records.ended_badly(exchange, bad, answer.headers)
                if held:
                    await passed.write(held)
                held = piece if reading.holds else b""
                if not reading.holds:
                    await passed.write(piece)
        except UpstreamError as error:
            bad = bad_from(error, answer.status)
            bad.stream = media_type_of(answer) == STREAM
            await self._records.ended_badly(exchange, bad, answer.headers)
            if held:
                await passed.write(held)
            return cut_off(request, passed)
        if bad := reading.end():
            await self._records.ended_badly(exchange, bad, answer.headers)
        elif not exchange.tagged:
            self._records.ended_well(exchange, reading.unread)
        await passed.prepare(request)
        if held:
            await passed.write(held)
        await passed.write_eof()
        return passed


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
    """Whether nothing follows the head of an answer."""
    return answer.method == hdrs.METH_HEAD or answer.headers.get(hdrs.CONTENT_LENGTH) == "0"


def request_body(request: web.BaseRequest, exchange: Exchange) -> AsyncIterator[bytes] | None:
    """The request's body as it arrives, digested on its way; None where there is none."""
    return _digested(request, exchange) if request.can_read_body else None


async def _read_to_its_end(request: web.BaseRequest, exchange: Exchange) -> None:
    """Digest what a server did not take: a retry is known by the whole body."""
    async for _ in _digested(request, exchange):
        pass


async def _digested(request: web.BaseRequest, exchange: Exchange) -> AsyncIterator[bytes]:
    while piece := await request.content.readany():
        exchange.passes(piece)
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
