"""One listener for each of Gym's servers, and the way that an exchange takes from it."""

import asyncio
import logging
import socket
import time
from collections.abc import Iterable, Iterator
from itertools import count
from urllib.parse import urlsplit
from uuid import uuid4

import orjson
from aiohttp import web
from rollcall_collector.contract.exchange import DispatchBegun
from rollcall_collector.contract.gate import Counts, withheld_metrics
from rollcall_collector.contract.identity import Identity, identify
from rollcall_collector.serving import Problem, bind, url_of

from .answers import own_answer
from .encoding import decoded
from .exchange import Exchange, head_from
from .forwarding import Forwarder
from .gate import Gate, Withheld, withheld_answer
from .gym_config import GymServer
from .ledger import Ledger
from .outermost import OutermostRun
from .owners import find_owner, session_of
from .roles import role_of
from .sessions import Sessions, UnknownSessionError
from .settings import ProxySettings
from .upstream import Upstream, Window

log = logging.getLogger(__name__)

_HEAD_LIMIT = 256 * 1024
_IDLE_S = 75
"""Seconds an idle connection of a caller is kept; Gym's client keeps its own for 15 s."""
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]", "0.0.0.0"})


class OwnAddressError(ValueError):
    """A server's address is a listener of Rollcall's own under another name."""


class Exchanges:
    """What becomes of each request that a listener takes in."""

    def __init__(
        self, forwarder: Forwarder, run: OutermostRun, gate: Gate, ledger: Ledger, sessions: Sessions, observe: bool
    ) -> None:
        self._forwarder, self._run, self._gate = forwarder, run, gate
        self._ledger, self._sessions, self._observe = ledger, sessions, observe
        self._name, self._numbers = uuid4().hex[:12], count(1)

    async def take_in(self, request: web.BaseRequest, upstream: Upstream) -> web.StreamResponse:
        """Find the exchange's owner and role, and send it on its way."""
        exchange = self._exchange(request, upstream)
        if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")  # RFC 9110 10.1.1; it is not passed on
        if exchange.owner is None and exchange.role == "run" and request.method == "POST":
            return await self._outermost_run(request, exchange)
        if exchange.owner is None and exchange.role == "aggregate_metrics" and not self._observe:
            return await self._outermost_metrics(request, exchange)
        return await self._forwarder.forward(request, exchange)

    def _exchange(self, request: web.BaseRequest, upstream: Upstream) -> Exchange:
        head = head_from(request)
        owner = find_owner(head, self._ledger.running)
        role = role_of(upstream.kind, head.path, owner.role if owner else None)
        exchange = Exchange(
            f"{self._name}.{next(self._numbers)}", upstream, role, request.method, request.raw_path, owner, head
        )
        if owner is not None:
            exchange.dispatch, exchange.depth = owner.dispatch, owner.depth + 1
        return exchange

    async def _outermost_run(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        body = b"".join([piece async for piece in request.content.iter_any()])
        exchange.digest.update(body)
        plain = decoded(body, exchange.head.fields.get("content-encoding", ""))
        identity = identify(_json(plain or b""), exchange.upstream.name)
        if identity is None:
            return await self._forwarder.forward(request, exchange, body)
        try:
            session = await self._sessions.of(session_of(exchange.head))
        except UnknownSessionError as error:
            if self._observe:
                return await self._forwarder.forward(request, exchange, body)
            return own_answer("unknown_session", {"error": "unknown_session", "detail": str(error)}, 503)
        begun = dispatch_of(identity, exchange, session.session, session.run)
        return await self._run.answer(request, exchange, body, begun)

    async def _outermost_metrics(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        try:
            session = await self._sessions.of(session_of(exchange.head))
        except UnknownSessionError as error:
            return await withheld_answer(request, Withheld(withheld_metrics(Counts(), str(error))))
        withheld = await self._gate.ask(session.run, exchange.upstream.name)
        if withheld is not None:
            return await withheld_answer(request, withheld)
        return await self._forwarder.forward(request, exchange)


def dispatch_of(identity: Identity, exchange: Exchange, session: str, run: str) -> DispatchBegun:
    """The dispatch that an outermost `/run` begins."""
    return DispatchBegun(
        dispatch=f"d-{uuid4().hex}",
        session=session,
        run=run,
        benchmark=identity.benchmark,
        rollout=identity.rollout,
        server=exchange.upstream.name,
        started_at=time.time(),
        agent=identity.agent,
        environment_server=identity.environment_server,
        task_index=identity.task_index,
        rollout_index=identity.rollout_index,
        stage_index=identity.stage_index,
        attempt=identity.attempt,
        identity=identity.keys,
    )


def _json(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


class Listeners:
    """The registered servers and their listeners."""

    def __init__(self, settings: ProxySettings, host: str, exchanges: Exchanges) -> None:
        self._settings, self._host, self._exchanges = settings, host, exchanges
        self._upstreams: dict[tuple[str, str], Upstream] = {}
        self._runners: list[web.ServerRunner] = []
        self._ports = _ports(settings.port_range)
        self._registering = asyncio.Lock()

    def all(self) -> list[Upstream]:
        """The registered servers, in order of registration."""
        return list(self._upstreams.values())

    async def register(self, servers: Iterable[GymServer]) -> list[Upstream]:
        """The servers with their listeners; to register one again changes nothing. Raises OwnAddressError."""
        async with self._registering:  # Gym's processes start together, and all register the same config
            return [self._own(server) or await self._one(server) for server in servers]

    async def close(self) -> None:
        """Stop listening; what is in flight is given a moment to end."""
        await asyncio.gather(*(runner.cleanup() for runner in self._runners))

    def _own(self, server: GymServer) -> Upstream | None:
        """The upstream whose listener the server's address already is."""
        place = _place(server.url)
        for upstream in self._upstreams.values():
            if _place(upstream.listener) != place:
                continue
            if upstream.name != server.name:
                raise OwnAddressError(
                    f"{server.name} at {server.url}: this is Rollcall's own listener of {upstream.name}; "
                    "register the server's real address"
                )
            return upstream
        return None

    async def _one(self, server: GymServer) -> Upstream:
        key = (server.name, server.url)
        if key not in self._upstreams:
            self._upstreams[key] = await self._listen(server)
        return self._upstreams[key]

    async def _listen(self, server: GymServer) -> Upstream:
        limits = None if self._settings.mode == "observe" else self._settings
        window = Window(self._settings.connect_window)
        upstream = Upstream(server.name, server.kind, server.url, limits, window)

        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            return await self._exchanges.take_in(request, upstream)

        served = web.Server(
            handler,
            handler_cancellation=True,
            auto_decompress=False,
            access_log=None,
            keepalive_timeout=_IDLE_S,
            max_line_size=_HEAD_LIMIT,
            max_field_size=_HEAD_LIMIT,
        )
        bound = self._bind()
        runner = web.ServerRunner(served, shutdown_timeout=1)
        await runner.setup()
        await web.SockSite(runner, bound, backlog=4096).start()
        self._runners.append(runner)
        upstream.address = (self._settings.advertised_host or self._host, bound.getsockname()[1])
        upstream.listener = url_of(bound, upstream.address[0])
        log.info("%s (%s) at %s is reached at %s", server.name, server.kind, server.url, upstream.listener)
        return upstream

    def _bind(self) -> socket.socket:
        for port in self._ports:
            try:
                return bind(self._host, port)
            except OSError:
                if port == 0:
                    raise
        raise Problem(503, "no free port", f"port_range {self._settings.port_range} is used up; widen it")


def _ports(port_range: str | None) -> Iterator[int]:
    if port_range is None:
        while True:
            yield 0
    low, _, high = port_range.partition("-")
    yield from range(int(low), int(high) + 1)


def _place(url: str) -> tuple[str, int | None]:
    parts = urlsplit(url)
    host = parts.netloc.rpartition(":")[0]
    return ("loopback" if host in _LOOPBACK else host, parts.port)
