"""One of Gym's servers as the proxy reaches it: connecting, waiting within limits, and what can go wrong.

Gym's own client connects for ever and waits for ever. Here the time in which connecting is tried again belongs to
the *server*: once it has refused for its whole window, further exchanges fail at once until it accepts again. So
one dead server costs its window once, not once for each rollout. Everything that goes wrong leaves as an
UpstreamError, with the contract's word for it and a sentence that names the setting.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from typing import TypeVar

import aiohttp
from aiohttp.connector import Connection
from multidict import CIMultiDict
from rollcall_collector.contract.exchange import Kind, Role, What
from yarl import URL

from .departing import Departure
from .sessions import SessionOfRun
from .settings import Limits

Result = TypeVar("Result")
_AGAIN_S = 0.25
"""Seconds between attempts to connect within the window."""
_NEVER_ADDED = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class UpstreamError(Exception):
    """An exchange that did not end well at the server; `what` is the contract's word."""

    def __init__(self, what: What, message: str) -> None:
        super().__init__(message)
        self.what, self.message = what, message

    @property
    def status(self) -> int:
        """The status of the answer that Rollcall makes in the server's place (RFC 9110 15.6.3, 15.6.5)."""
        return 504 if self.what == "timeout" else 502


@dataclass(slots=True)
class Window:
    """The time in which connecting to a server that refuses is tried again."""

    seconds: float
    refused_since: float | None = None
    refused_last: float = 0.0

    def refused(self, now: float) -> bool:
        """Note that the server has refused; True while there is time to try again.

        A window counts as over only if the server was asked during all of it: after a long pause a new one opens.
        """
        paused = now - self.refused_last > max(self.seconds, 4 * _AGAIN_S)
        if self.refused_since is None or (paused and not self._is_over):
            self.refused_since = now
        self.refused_last = now
        return not self._is_over

    @property
    def _is_over(self) -> bool:
        return self.refused_since is not None and self.refused_last - self.refused_since >= self.seconds

    def accepted(self) -> None:
        """The server accepts: the next refusal opens a new window."""
        self.refused_since = None


@dataclass(slots=True)
class Upstream:
    """A registered server: its real address, and the listener that stands for it."""

    name: str
    kind: Kind
    url: str
    limits: Limits | None
    window: Window
    departure: Departure
    session: SessionOfRun | None = None
    listener: str = ""
    address: tuple[str, int] = ("", 0)
    in_flight: int = 0
    has_run: bool = False

    def as_dict(self) -> dict[str, str]:
        """The server as the API shows it."""
        return {"name": self.name, "kind": self.kind, "url": self.url, "listener": self.listener}


class Waiting:
    """The limits of one exchange. Without limits (observe) it waits as Gym would: for ever."""

    def __init__(self, upstream: Upstream, role: Role) -> None:
        limits, generous = upstream.limits, upstream.kind in ("agent", "environment") or role == "run"
        run = limits.run_timeout if limits else None
        self._first = run if generous or limits is None else limits.first_byte_timeout
        self._idle = run if generous or limits is None else limits.idle_timeout
        total = run if generous or limits is None else limits.total_timeout
        self._total, self._until = total, None if total is None else time.monotonic() + total
        self._generous = generous

    async def first_byte(self, awaitable: Awaitable[Result]) -> Result:
        """Wait for the answer's head. Raises UpstreamError."""
        return await self._within(awaitable, self._first, "no answer", "first_byte_timeout")

    async def next_piece(self, awaitable: Awaitable[Result]) -> Result:
        """Wait for the next piece of the answer. Raises UpstreamError."""
        return await self._within(awaitable, self._idle, "nothing more of the answer", "idle_timeout")

    async def _within(self, awaitable: Awaitable[Result], limit: float | None, what: str, setting: str) -> Result:
        remaining = None if self._until is None else max(self._until - time.monotonic(), 0.0)
        if remaining is not None and (limit is None or remaining < limit):
            limit, what, setting = remaining, "no whole answer", "total_timeout"
        try:
            async with asyncio.timeout(limit) as timer:
                return await awaitable
        except TimeoutError:
            if not timer.expired():
                raise
            shown = self._total if setting == "total_timeout" else limit
            setting = "run_timeout" if self._generous else setting
            raise UpstreamError("timeout", f"{what} within {shown:g} s, Rollcall's {setting}; raise it") from None


class Answer(aiohttp.ClientResponse):
    """An answer behind which a server may close the connection without having said so: it is not used again.

    uvicorn does that where the app has raised, before an answer of 5xx or in the middle of a stream. Another request
    would meet the closing connection, and its rollout would fail for nothing.
    """

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        """Wait for the head of the answer."""
        protocol = connection.protocol
        await super().start(connection)
        if protocol is not None and (self.status >= 500 or self.content_type == "text/event-stream"):
            came_whole = self.connection is None  # and has been given back
            protocol.close() if came_whole else protocol.force_close()
        return self


class Client:
    """Opens exchanges with upstreams: one pool of connections for all, without a limit of its own.

    A dispatcher may hold hundreds of `/run` open while each needs more connections through the same proxy: any
    shared limit would be a deadlock. Idle connections are dropped after 10 s, since Gym's servers close theirs
    after 30 s and a request must not meet a connection that is being closed.
    """

    def __init__(self) -> None:
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=10),
            auto_decompress=False,
            response_class=Answer,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            skip_auto_headers=_NEVER_ADDED,
            max_line_size=256 * 1024,
            max_field_size=256 * 1024,
        )
        self.session._retry_connection = False  # a request is sent once; whether to send it again the caller decides

    async def open(
        self,
        upstream: Upstream,
        waiting: Waiting,
        method: str,
        target: str,
        fields: CIMultiDict[str],
        body: bytes | AsyncIterator[bytes] | None,
    ) -> aiohttp.ClientResponse:
        """Send a request and wait for the answer's head; the body is read by the caller. Raises UpstreamError."""
        url = URL(upstream.url + target, encoded=True)
        if isinstance(body, bytes) and body:
            fields["Content-Length"] = str(len(body))
        connect = upstream.limits.connect_timeout if upstream.limits else None
        limits = aiohttp.ClientTimeout(total=None, sock_connect=connect)
        while True:
            request = self.session.request(
                method, url, headers=fields, data=body, allow_redirects=False, timeout=limits
            )
            try:
                answer = await waiting.first_byte(request)
            except aiohttp.ClientConnectorError as error:
                await self._again(upstream, error)
            except aiohttp.ConnectionTimeoutError as error:
                text = f"no connection within {connect:g} s, Rollcall's connect_timeout; raise it"
                raise UpstreamError("timeout", text) from error
            except aiohttp.ClientError as error:
                raise lost(error, "before any answer; whether the request was delivered is unknown") from error
            else:
                upstream.window.accepted()
                return answer

    async def _again(self, upstream: Upstream, error: aiohttp.ClientConnectorError) -> None:
        """Wait before the next attempt to connect. Raises UpstreamError when the window is over."""
        window = upstream.window
        if upstream.limits is None:
            raise UpstreamError("unreachable", f"cannot connect: {error.os_error}") from error
        if not window.refused(time.monotonic()):
            text = f"cannot connect for {window.seconds:g} s, Rollcall's connect_window: {error.os_error}"
            raise UpstreamError("unreachable", text) from error
        await asyncio.sleep(_AGAIN_S)


def lost(error: Exception, when: str) -> UpstreamError:
    """The server went away."""
    return UpstreamError("peer_drop", f"the connection was lost {when} ({type(error).__name__})")
