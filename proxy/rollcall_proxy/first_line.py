"""The main port's connections: each goes to who reads it, as the beginning of its first request says.

What is meant for an HTTP proxy (absolute-form and CONNECT, RFC 9112 3.2) is the engine's, which passes it on as it
came. All else asks for the main port's own routes, which aiohttp has. A connection stays with whom it has gone to.
"""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import isfinite
from ssl import SSLContext
from typing import cast

Made = Callable[[], asyncio.Protocol]

_FOR_A_PROXY = re.compile(rb"CONNECT |[^ ]+ (?i:https?)://")
_SCHEME = len(b"https://")
_METHOD = 256
"""Bytes within which a method ends: for a longer one it does not matter who refuses it."""

_BACKLOG = 4096


def is_for_a_proxy(begun: bytes) -> bool | None:
    """Whether the request that begins so is meant for an HTTP proxy; None while nobody can tell."""
    line = begun.lstrip(b"\r\n")  # RFC 9112 2.2: an empty line before a request means nothing
    if _FOR_A_PROXY.match(line):
        return True
    known = b"\n" in line or len(begun) > _METHOD or len(line.partition(b" ")[2]) >= _SCHEME
    return False if known else None


class FirstLine(asyncio.Protocol):
    """A connection of which nobody knows yet whose it is; it is closed after some seconds."""

    def __init__(self, routes: Made, proxied: Made, seconds: float, waiting: set["FirstLine"]) -> None:
        self._routes, self._proxied, self._seconds, self._waiting = routes, proxied, seconds, waiting
        self._begun = b""
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._waiting.add(self)
        if isfinite(self._seconds):
            self._late = asyncio.get_running_loop().call_later(self._seconds, self.close)

    def data_received(self, data: bytes) -> None:
        self._begun += data
        proxied = is_for_a_proxy(self._begun)
        if proxied is None:
            return
        self._waits_no_more()
        protocol = self._proxied() if proxied else self._routes()
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(self._begun)

    def connection_lost(self, error: Exception | None) -> None:
        self._waits_no_more()

    def close(self) -> None:
        """Close it: nobody has asked for anything."""
        self._transport.close()

    def _waits_no_more(self) -> None:
        self._waiting.discard(self)
        if self._late is not None:
            self._late.cancel()


@asynccontextmanager
async def accepting(
    bound: socket.socket, routes: Made, proxied: Made, *, seconds: float, tls: SSLContext | None = None
) -> AsyncIterator[None]:
    """Take connections at a socket that listens, while the block runs."""
    waiting: set[FirstLine] = set()
    server = await asyncio.get_running_loop().create_server(
        lambda: FirstLine(routes, proxied, seconds, waiting), sock=bound, ssl=tls, backlog=_BACKLOG
    )
    try:
        yield
    finally:
        server.close()
        for each in list(waiting):
            each.close()
