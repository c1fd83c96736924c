"""The main port as a plain HTTP proxy, for `HTTP_PROXY` alone: absolute-form requests and CONNECT (RFC 9110 7.8).

Only Gym's head server and registered servers are reached this way, and hosts that the settings allow; anything else
is refused, since a proxy that goes anywhere is a way in for others. What is for a registered server is taken in as if
it had come to its listener, and a tunnel leads to the listener, so that both are watched like everything else.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from urllib.parse import parse_qsl, urlsplit

from aiohttp import web
from multidict import CIMultiDict
from rollcall_collector.access import Asked
from rollcall_collector.guard import Guard
from rollcall_collector.serving import Handler, Problem
from rollcall_collector.tasks import spawn

from . import wire
from .fields import without
from .listeners import Listeners
from .reach import Reach
from .tunnel import Tunnel
from .upstream import Upstream
from .wire.caller import CallerConnection

log = logging.getLogger(__name__)

AsHeadServer = Callable[[str, str | None], Awaitable[bytes]]

_ABSOLUTE = re.compile(rb"(?i:(https?))://([^/?#]*)(.*)", re.DOTALL)
_PLACE = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@]+)(?::([0-9]{1,5}))?")
_PORTS = {"http": 80, "https": 443}
_OTHER = "send it on a connection of its own"


@dataclass(frozen=True)
class Target:
    """Where a request is to go: `target` in origin-form, nothing for a CONNECT, whose `scheme` is empty.

    `authority` is what it says itself, `place` the same as HOST:PORT.
    """

    scheme: str
    authority: bytes
    host: str
    port: int
    target: bytes = b""

    @cached_property
    def place(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def address(self) -> wire.Address:
        return wire.Address(self.host.strip("[]"), self.port, self.scheme == "https")


def target_of(head: wire.RequestHead) -> Target:
    """Where a request to a proxy is to go. Raises Problem."""
    if head.method == b"CONNECT":
        return Target("", head.target, *_host_and_port(head.target, None))
    found = _ABSOLUTE.fullmatch(head.target)
    if found is None:
        raise Problem(421, "this connection is an HTTP proxy's", f"{_OTHER} to ask Rollcall itself")
    scheme, authority, target = found.group(1).decode().lower(), found.group(2), found.group(3)
    if not target.startswith(b"/"):
        target = b"/" + target  # RFC 9112 3.2.1: an empty path
    return Target(scheme, authority, *_host_and_port(authority, _PORTS[scheme]), target)


def _host_and_port(authority: bytes, default: int | None) -> tuple[str, int]:
    found = _PLACE.fullmatch(authority)
    port = default if found is None or found.group(2) is None else int(found.group(2))
    if found is None or port is None or not 0 < port < 65536 or not authority.isascii():
        # It is not repeated: what stands before an @ may be a password.
        raise Problem(400, "the target names no place", "write HOST:PORT, and no user before it (RFC 9110 4.2.4)")
    return found.group(1).decode().lower(), port


@web.middleware
async def own_routes_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What is meant for a proxy comes on connections that begin so."""
    if request.method == "CONNECT" or request.raw_path.lower().startswith(("http://", "https://")):
        raise Problem(421, "this connection is no HTTP proxy's", f"{_OTHER} to reach another server")
    return await handler(request)


class HttpProxy:
    """Answers requests that are meant for a proxy. `engine` has the callers; `abroad` calls allowed hosts."""

    def __init__(
        self,
        *,
        engine: wire.Engine,
        abroad: wire.Engine,
        listeners: Listeners,
        guard: Guard,
        reach: Reach,
        as_head_server: AsHeadServer,
        head_server: str,
        allowed: Iterable[str],
    ) -> None:
        self._engine, self._abroad, self._listeners = engine, abroad, listeners
        self._guard, self._reach, self._as_head_server = guard, reach, as_head_server
        parts = urlsplit(head_server.lower())
        self._head_place = parts.netloc if parts.port else f"{parts.netloc}:{_PORTS['http']}"
        self._allowed = frozenset(place.lower() for place in allowed)
        self._works: set[asyncio.Task[None]] = set()

    def connection(self) -> CallerConnection:
        """A caller's connection that is meant for a proxy."""
        return CallerConnection(self._engine, self.take)

    def take(self, request: wire.Exchange) -> None:
        """Take a request on such a connection; it is answered now or later."""
        if self._engine.closing:
            request.cut()  # it is sent again, to the successor
            return
        try:
            to = target_of(request.head)
            self._guard.check(_asked(request.head, to), _peer(request), request.caller.shown)
            self._send(request, to)
        except Problem as problem:
            _answer(request, problem)

    def _send(self, request: wire.Exchange, to: Target) -> None:
        if to.scheme == "http" and to.place == self._head_place:
            self._work(request, self._stand_in(request, to))
            return
        upstream = self._registered(to)
        if upstream is None and to.place not in self._allowed:
            raise self._refusal(request, to)
        if request.surplus and (upstream is None or not to.scheme):
            raise Problem(503, "too many callers", "more than Rollcall's connections, which are all in use; raise them")
        if not to.scheme:
            self._work(request, self._tunnel(request, to, *(upstream.address if upstream else to.address[:2])))
            return
        request.head = _for_server(request.head, to, upstream)
        if upstream is None:
            self._abroad.passage(request, request.head, to.address, wire.NO_LIMITS, lambda made: _Unwatched(made, to))
        else:
            request.caller.noted = ""  # the guard has let it in; the listener's door need not
            self._listeners.take_in(request, upstream)

    def _registered(self, to: Target) -> Upstream | None:
        """The server that a request is for: by its address, with its path, or by its listener."""
        upstream = None if to.scheme == "https" else self._listeners.at(f"http://{to.place}")
        if upstream is None or not to.scheme or not _by_address(upstream, to):
            return upstream
        return upstream if to.target.startswith(upstream.prefix.encode() + b"/") or not upstream.prefix else None

    async def _stand_in(self, request: wire.Exchange, to: Target) -> None:
        if request.head.method not in (b"GET", b"HEAD"):
            raise Problem(405, "Method Not Allowed", "Gym's head server is asked by GET", {"Allow": "GET, HEAD"})
        path = to.target.partition(b"?")[0].decode("utf-8", "replace")
        body = await self._as_head_server(path, _peer(request))
        request.answer(200, [(b"Content-Type", b"application/json")], body, b"OK")

    async def _tunnel(self, request: wire.Exchange, to: Target, host: str, port: int) -> None:
        """CONNECT: bytes both ways, to a registered server's listener or to an allowed host."""
        if request.framing != "none":
            raise Problem(400, "a CONNECT with a body", "what is for the server comes behind the answer")
        try:
            await self._connected(request, host, port)
        except OSError as error:
            raise Problem(502, "cannot connect", f"{to.place}: {error}") from error

    async def _connected(self, request: wire.Exchange, host: str, port: int) -> None:
        """Connect to the first of a host's addresses that answers. Raises OSError."""
        *others, last = await self._reach.resolved(host, port)
        loop = asyncio.get_running_loop()

        def tunnel() -> Tunnel:
            return Tunnel(self._abroad.turn, request)

        for found in others:
            with suppress(OSError):
                await loop.create_connection(tunnel, found, port)
                return
        await loop.create_connection(tunnel, last, port)

    def _work(self, request: wire.Exchange, work: Awaitable[None]) -> None:
        """Let a coroutine answer; it is cancelled when the caller leaves."""
        task = spawn("proxied request", _answered(request, work))
        self._works.add(task)
        task.add_done_callback(self._works.discard)
        request.on_left = task.cancel

    def _refusal(self, request: wire.Exchange, to: Target) -> Problem:
        detail = f"{to.place[:200]} is no registered server; reach it directly (NO_PROXY), or name it in allow_hosts"
        self._reach.note(_peer(request) or "", detail)
        return Problem(403, "Rollcall's proxy does not go there", detail)


class _Unwatched(wire.Consumer):
    """An exchange with an allowed host: its failures are nobody's."""

    __slots__ = ("_to",)

    def __init__(self, passage: wire.Passage, to: Target) -> None:
        super().__init__(passage)
        self._to = to

    def answer_for_server(self, outcome: wire.Outcome) -> None:
        title = "cannot connect" if outcome.word == "unreachable" else "no answer"
        _answer(self.passage.exchange, Problem(502, title, f"{self._to.place}: {outcome.detail}"))


async def _answered(request: wire.Exchange, work: Awaitable[None]) -> None:
    try:
        await work
    except Problem as problem:
        _answer(request, problem)
    except Exception:
        log.exception("a request to the main port as a proxy failed in Rollcall")
        if request.begun:
            request.cut()
        else:
            _answer(request, Problem(500, "an error of Rollcall's own", "see the service's log"))


def _answer(request: wire.Exchange, problem: Problem) -> None:
    made = problem.response()
    fields = [
        (name.encode(), value.encode("latin-1", "replace"))
        for name, value in made.headers.items()
        if name.lower() != "content-length"
    ]
    assert isinstance(made.body, bytes)
    request.answer(made.status, fields, made.body, HTTPStatus(made.status).phrase.encode())


def _for_server(head: wire.RequestHead, to: Target, upstream: Upstream | None) -> wire.RequestHead:
    """The request as the server would have got it without a proxy.

    RFC 9112 3.2.2: the Host field is what the target says. RFC 9110 11.7.2: `Proxy-Authorization` was for this proxy.
    """
    target = to.target
    if upstream is not None and _by_address(upstream, to):
        target = target[len(upstream.prefix.encode()) :]  # it is put before each request for this server
    fields = [
        (name, to.authority if name.lower() == b"host" else value)
        for name, value in without(head.fields, b"proxy-authorization")
    ]
    noted = {name: [to.authority] if name == b"host" else values for name, values in head.noted.items()}
    return wire.RequestHead(head.method, target, fields, head.minor, noted)


def _by_address(upstream: Upstream, to: Target) -> bool:
    """Whether a server is named by its own address, and not by its listener's."""
    return to.port != upstream.address[1]


def _asked(head: wire.RequestHead, to: Target) -> Asked:
    path, _, query = to.target.decode("utf-8", "replace").partition("?")
    fields = CIMultiDict((name.decode(), value.decode("utf-8", "surrogateescape")) for name, value in head.fields)
    return Asked(head.method.decode(), path, dict(parse_qsl(query, keep_blank_values=True)), fields, proxied=True)


def _peer(request: wire.Exchange) -> str | None:
    try:
        return str(request.caller.shown.getpeername()[0])
    except OSError:
        return None
