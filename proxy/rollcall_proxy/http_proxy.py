"""The main port as a plain HTTP proxy, for `HTTP_PROXY` alone: absolute-form requests and CONNECT (RFC 9110 7.8).

Only Gym's head server and registered servers are reached this way, and hosts that the settings allow; anything else
is refused, since a proxy that goes anywhere is a way in for others. What leads to a registered server goes by way of
its listener, so that it is watched like everything else.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from rollcall_collector.serving import Problem

from .exchange import origin_form
from .listeners import Listeners
from .reach import Reach
from .relay import cut_off, passed

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_PIECE = 64 * 1024


class HttpProxy:
    """Answers requests that are meant for a proxy."""

    def __init__(
        self, client: aiohttp.ClientSession, listeners: Listeners, reach: Reach, head_server: str, allowed: list[str]
    ) -> None:
        self._client, self._listeners, self._reach = client, listeners, reach
        self._head_server, self._allowed = urlsplit(head_server).netloc, frozenset(allowed)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Take what is meant for a proxy; leave the rest to the main port's routes."""
        if request.method == "CONNECT":
            return await self._tunnel(request)
        if not request.raw_path.startswith(("http://", "https://")):
            return await handler(request)
        place = urlsplit(request.raw_path).netloc
        if place == self._head_server:
            return await handler(request)
        upstream = self._listeners.at(f"http://{place}")
        if upstream is None and place not in self._allowed:
            raise self._refusal(request, place)
        origin = upstream.listener if upstream else f"http://{place}"
        try:
            return await passed(self._client, request, origin + origin_form(request.raw_path))
        except aiohttp.ClientConnectorError as error:
            raise Problem(502, "cannot connect", f"{place}: {error}") from error

    async def _tunnel(self, request: web.Request) -> web.StreamResponse:
        """CONNECT: bytes both ways, to a registered server's listener or to an allowed host."""
        place = request.raw_path
        upstream = self._listeners.at(f"http://{place}")
        if upstream is None and place not in self._allowed:
            raise self._refusal(request, place)
        host, port = upstream.address if upstream else _host_and_port(place)
        try:
            reader, writer = await asyncio.open_connection((await self._reach.resolved(host, port))[0], port)
        except OSError as error:
            raise Problem(502, "cannot connect", f"{place}: {error}") from error
        await _joined(request, reader, writer)
        return cut_off(request, web.Response())

    def _refusal(self, request: web.Request, place: str) -> Problem:
        detail = f"{place[:200]} is no registered server; reach it directly (NO_PROXY), or name it in allow_hosts"
        self._reach.note(request.remote or "", detail)
        return Problem(403, "Rollcall's proxy does not go there", detail)


class _Up:
    """Takes what the caller sends behind its CONNECT, as aiohttp hands it to the parser of an upgrade."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._writer.write(data)
        return False, b""

    def feed_eof(self) -> None:
        self._writer.write_eof()


async def _joined(request: web.Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes both ways until the server has ended."""
    if request.transport is None:
        return
    request.transport.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    request.protocol.set_parser(_Up(writer))  # type: ignore[arg-type]  # it needs these two methods only
    with contextlib.suppress(OSError):
        while piece := await reader.read(_PIECE):
            request.transport.write(piece)
    writer.close()


def _host_and_port(place: str) -> tuple[str, int]:
    host, _, port = place.rpartition(":")
    return host.strip("[]"), int(port)
