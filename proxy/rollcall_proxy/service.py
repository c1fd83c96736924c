"""A whole proxy: its parts put together, started, and ended in order."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing, suppress
from typing import Any
from uuid import uuid4

import aiohttp
from aiohttp import web
from rollcall_collector.contract.exchange import Event, ProxyGone, Topology
from rollcall_collector.guard import guard_of
from rollcall_collector.serving import bind, listen, url_of
from rollcall_collector.settings import split_address
from rollcall_collector.tasks import background

from . import clock, wire
from .carriers import Carriers
from .clock import now
from .door import Door
from .draining import drained
from .first_line import accepting
from .forwarding import Forwarder
from .gate import Gate
from .gym_config import GymServer
from .http_proxy import HttpProxy
from .inheriting import CallIds, Heritage
from .intake import Intake
from .ledger import Ledger
from .listeners import Listeners
from .main_port import MainPort
from .measuring import ProxyMeasures
from .metrics import Metrics
from .outermost import OutermostRun
from .policy_in_force import PolicyInForce
from .posting import Posting
from .reach import CarefulResolver, Reach
from .recording import Records
from .relay import client_for_head
from .reporting import Reporter
from .resend import Executions
from .sender import NotStoredError, Sender
from .sessions import Sessions
from .settings import Limits, ProxySettings, engine_settings
from .span_sender import SpanSender
from .spans import SOON_S, Spans
from .succession import Succession, proxy_of, sender_of
from .watch import Watch
from .workers.crew import Alone, Crew
from .workers.hearing import Hearing
from .workers.pool import Pool

log = logging.getLogger(__name__)

_TOLD_S = 2.0
_INHERITS_S = 1.0
"""Seconds for which the listeners wait until it is known what stood failed."""
_AGAIN_S = 0.1


class Proxy:
    """The parts of a proxy at an address. `control` is the client that asks the collector, with the token that it is
    shown; `asking_head` asks Gym's head server."""

    def __init__(
        self,
        settings: ProxySettings,
        address: tuple[str, int],
        control: aiohttp.ClientSession,
        asking_head: aiohttp.ClientSession,
    ) -> None:
        collector, spool, observe = settings.collector, settings.spool, settings.mode == "observe"
        self.guard = guard_of(settings, *filter(None, [settings.advertised_host]))
        self.reach, door = Reach(settings, self.guard.refusals), Door(settings, self.guard.refusals)
        self.settings, engine = settings, wire.Engine(engine_settings(settings), why_not=self.reach.at_connect)
        self.succession = Succession(spool, *address)
        # Of its own: the other one is closed before the last events are sent.
        self.posts = wire.Engine(tls=settings.believed)
        posting = Posting(self.posts, collector, settings.shown_to_collector)
        self.sender = Sender(posting, spool, sender_of(self.succession.proxy), settings.queue_bytes)
        self.in_force = PolicyInForce(control, collector, spool)
        line, carriers = self.succession.left.line, Carriers()
        ledger = Ledger(CallIds(line, self.succession.proxy).new, lambda: self.in_force.policy)
        sessions = Sessions(control, collector, spool, self.succession.left.static)
        self.watch = Watch(sessions.runs_on)
        self.span_sender = SpanSender(posting, f"q-{uuid4().hex}", settings.spans_waiting)
        self.spans = Spans(self.span_sender, settings.spans)
        self.records = Records(ledger, self.sender, self.in_force, self.spans, settings)
        self._heritage, self._may_open = Heritage(control, collector, line), asyncio.Event()
        if self.succession.follows:
            self.records.expect()
        else:
            self._may_open.set()
        hearing = Hearing(
            records=self.records, ledger=ledger, carriers=carriers, watch=self.watch, spans=self.span_sender
        )
        self.crew: Crew = (
            Pool(settings, engine, hearing, self.in_force, door) if settings.workers > 1 else Alone(engine)
        )
        self.reporter = Reporter(control, collector, self.sender, self.succession.proxy, self.known)
        gate = Gate(control, collector, self.sender, self.known, self.reporter)
        self.forwarder = Forwarder(engine, self.records, observe, settings.inspect_limit)
        executions = Executions(settings.resend_grace)
        self.intake = Intake(
            forwarder=self.forwarder,
            run=OutermostRun(
                forwarder=self.forwarder,
                records=self.records,
                ledger=ledger,
                carriers=carriers,
                sender=self.sender,
                crew=self.crew,
                settings=settings,
            ),
            metrics=Metrics(gate, sessions, self.forwarder, self.records),
            ledger=ledger,
            carriers=carriers,
            sessions=sessions,
            sender=self.sender,
            watch=self.watch,
            door=door,
            executions=executions,
            observe=observe,
            inspect_limit=settings.inspect_limit,
            proxy=self.succession.proxy,
        )
        self.listeners = listeners = Listeners(settings, address[0], self.crew, self.intake.take_in)
        self.intake.listener_of = listeners.listener_of
        self.main = MainPort(
            settings,
            control,
            listeners,
            sessions,
            self.sender,
            gate,
            self.untold,
            executions,
            self.succession,
            self.crew,
            asking_head=asking_head,
            reach=self.reach,
        )
        self.abroad = wire.Engine(tls=settings.believed, why_not=self.reach.why_never)
        self.http_proxy = HttpProxy(
            engine=engine,
            abroad=self.abroad,
            listeners=listeners,
            guard=self.guard,
            reach=self.reach,
            as_head_server=self.main.as_head_server,
            head_server=settings.head_server,
            allowed=settings.allow_hosts,
        )

    def app(self) -> web.Application:
        """The main port's application."""
        app = self.main.app(self.guard)
        ProxyMeasures(self.spans.measured, self.sender, self.listeners.all, self.guard.refusals).serve(app)
        return app

    def untold(self) -> list[Event]:
        """What is known here and has yet to be told; from then on it is."""
        return [*self.watch.told(), *self.records.untold()]

    async def known(self) -> list[Event]:
        """The same, with what the workers know."""
        await self.crew.settled()
        return self.untold()

    def works(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        """What goes on as long as the proxy lives, by name."""
        return [
            ("sender", self.sender.run()),
            ("watch", self._tell()),
            ("span sender", self.span_sender.run()),
            ("spans", self._tell_spans()),
            ("policy", self.in_force.run()),
            ("succession", self._take_over()),
            ("listeners", self.listeners.run()),
            ("keeping", self.main.keep_on()),
            ("reports", self.reporter.run()),
        ]

    async def start(self) -> None:
        """Open the listeners that are known already; as a rule it is known then what stood failed there."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._may_open.wait(), _INHERITS_S)
        await self.crew.start()
        await self.listeners.reopen(self.succession.to_open())
        await self.listeners.register(static_servers(self.settings))
        await self.main.keep()

    async def end(self, hurry: asyncio.Event | None) -> None:
        """Let what is in flight end, and tell what is known."""
        self.main.draining = self.intake.draining = True
        if hurry is not None:
            await drained(self.listeners, self.crew, self.settings.drain_timeout, hurry)
        await self.main.keep()
        await self.intake.close()
        await self.crew.close()
        self.records.close()
        self.sender.put(*self.untold())
        hurried = hurry is not None and hurry.is_set()
        await (self.sender.finish(0) if hurried else self.sender.finish())
        self.spans.tell()
        if not hurried:
            await self.span_sender.flush()
            await self.reporter.report(ended=True)

    async def _tell(self) -> None:
        """Send what was watched from time to time."""
        while True:
            await asyncio.sleep(_TOLD_S)
            events: list[Event] = [*self.watch.told(), *self.records.due()]
            if events:
                self.sender.put(*events)

    async def _tell_spans(self) -> None:
        """Tell what was seen of dispatches that go on, so that it can be looked at meanwhile."""
        while True:
            await asyncio.sleep(SOON_S)
            self.records.settle()
            self.spans.tell()

    async def _take_over(self) -> None:
        """Have the collector told which processes are gone, and again which servers can call which."""
        left = self.succession.left
        gone = dict.fromkeys([*left.gone, *map(proxy_of, self.sender.left_behind)])
        told = [ProxyGone(proxy, now()) for proxy in gone]
        related = [Topology(left.references)] if left.references else []
        while True:
            try:
                await self.sender.store(*told, *related)
                break
            except NotStoredError:  # it is said where it happens
                await asyncio.sleep(_TOLD_S)
        await self.succession.told()
        if self.succession.follows:
            await self._inherit()

    async def _inherit(self) -> None:
        """The collector knows what stood failed once it has all that the last one left, and has heard of its end."""
        if self.sender.spooled:
            self._may_open.set()
        while self.sender.spooled:  # noqa: ASYNC110 - it is seldom that anything is left
            await asyncio.sleep(_AGAIN_S)
        self.records.inherit(await self._heritage.ask())
        self.crew.know_standing()
        self._may_open.set()


def limits_text(settings: ProxySettings) -> str:
    """The limits in force, by the names of their settings."""
    if settings.mode == "observe":
        return "none, as without Rollcall"
    times = [f"{name} {getattr(settings, name):g} s" for name in Limits.model_fields]
    return ", ".join([*times, f"connections {engine_settings(settings).callers}"])


def static_servers(settings: ProxySettings) -> list[GymServer]:
    """The servers of `--upstream NAME=URL`; their kinds are not known."""
    named: list[Any] = [part.partition("=") for part in settings.upstream]
    return [GymServer(name, "unknown", url) for name, _, url in named]


def main_port(proxy: Proxy, bound: socket.socket, runner: web.AppRunner) -> AbstractAsyncContextManager[None]:
    """Serve the main port: its own routes, and what is meant for an HTTP proxy. Raises OSError."""
    routes, settings = runner.server, proxy.settings
    assert routes is not None  # it is set up
    listen(bound)
    return accepting(
        bound, routes, proxy.http_proxy.connection, seconds=engine_settings(settings).head_time, tls=settings.tls
    )


@asynccontextmanager
async def serving(settings: ProxySettings, hurry: asyncio.Event | None = None) -> AsyncIterator[str]:
    """Run a proxy; yields the main port's URL. Raises OSError at the start.

    At the end what is in flight has `drain_timeout` to end, unless `hurry` is set; without a `hurry` it has no time.
    """
    address, tls = split_address(settings.listen), settings.tls
    async with AsyncExitStack() as stack:
        bound = stack.enter_context(closing(bind(*address)))
        asking_head = await stack.enter_async_context(client_for_head(CarefulResolver(Reach(settings))))
        # Whoever follows a run keeps a connection to the collector; a limit would hold up all other questions.
        unlimited = aiohttp.TCPConnector(limit=0, ssl=settings.believed or True)
        shown = settings.shown_to_collector
        fields = {"Authorization": f"Bearer {shown}"} if shown else {}
        control = await stack.enter_async_context(aiohttp.ClientSession(connector=unlimited, headers=fields))
        proxy = Proxy(settings, address, control, asking_head)
        stack.push_async_callback(proxy.posts.close)
        stack.push_async_callback(proxy.abroad.close)
        stack.callback(proxy.crew.abandon)
        runner = web.AppRunner(proxy.app(), access_log=None, shutdown_timeout=1)
        stack.push_async_callback(runner.cleanup)
        await runner.setup()
        log.info("mode %s; limits: %s", settings.mode, limits_text(settings))
        await proxy.in_force.fetch()
        await clock.agree(control, settings.collector)
        async with AsyncExitStack() as working:
            for name, work in proxy.works():
                await working.enter_async_context(background(work, name))
            await proxy.start()
            await stack.enter_async_context(main_port(proxy, bound, runner))
            yield url_of(bound, tls=tls is not None)
            await proxy.end(hurry)
        proxy.sender.close()
