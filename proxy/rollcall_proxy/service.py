"""The proxy's main port: registration, the head server's stand-in, and the way to the collector."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from itertools import count
from secrets import token_hex
from typing import Any
from uuid import uuid4

import aiohttp
import orjson
from aiohttp import web
from rollcall_collector.contract.exchange import Event, ProxyGone, Topology
from rollcall_collector.serving import Problem, bind, json_response, problems, read_json, url_of
from rollcall_collector.settings import split_address
from rollcall_collector.tasks import background

from . import wire
from .carriers import Carriers
from .clock import now
from .forwarding import Forwarder
from .gate import Gate, Untold
from .gym_config import ConfigError, GymConfig, GymServer
from .http_proxy import HttpProxy
from .intake import Intake
from .ledger import Ledger
from .listeners import Listeners, OwnAddressError
from .measuring import ProxyMeasures
from .metrics import Metrics
from .outermost import OutermostRun
from .policy_in_force import PolicyInForce
from .posting import Posting
from .recording import Records
from .relay import passing_client
from .reporting import Reporter
from .resend import Executions
from .sender import NotStoredError, Sender
from .sessions import SessionOfRun, Sessions, unattached
from .settings import Limits, ProxySettings, engine_settings
from .span_sender import SpanSender
from .spans import SOON_S, Spans
from .succession import Succession, proxy_of, sender_of
from .watch import Watch
from .workers.crew import Alone, Crew
from .workers.hearing import Hearing
from .workers.pool import Pool

log = logging.getLogger(__name__)

_BODY_LIMIT = 512 * 1024 * 1024
_TOLD_S = 2.0
_KEPT_S = 3600.0
_LOOK_S = 0.05
_ASKING = aiohttp.ClientTimeout(total=60, connect=5)


class MainPort:
    """The routes of the main port."""

    def __init__(
        self,
        settings: ProxySettings,
        client: aiohttp.ClientSession,
        listeners: Listeners,
        sessions: Sessions,
        sender: Sender,
        gate: Gate,
        untold: Untold,
        executions: Executions,
        succession: Succession,
        crew: Crew,
    ) -> None:
        self._settings, self._client, self._listeners = settings, client, listeners
        self._sessions, self._sender, self._gate, self._untold = sessions, sender, gate, untold
        self._executions, self._succession, self._crew = executions, succession, crew
        self._related = succession.left.references
        self.draining = False

    def app(self, http_proxy: HttpProxy) -> web.Application:
        """The aiohttp application."""
        app = web.Application(middlewares=[problems, http_proxy.middleware], client_max_size=_BODY_LIMIT)
        app.router.add_get("/healthz", self.healthz)
        app.router.add_get("/readyz", self.readyz)
        app.router.add_get("/v1/upstreams", self.upstreams)
        app.router.add_post("/v1/config", self.config)
        app.router.add_get("/global_config_dict_yaml", self.head_config)
        app.router.add_get("/server_instances", self.head_instances)
        app.router.add_put("/v1/sessions/{session}", self.put_session)
        app.router.add_post("/v1/sessions/{session}/heartbeat", self.heartbeat)
        app.router.add_get("/v1/runs/{run}/gate", self.once_all_is_told)
        app.router.add_post("/v1/runs/{run}/healed", self.once_all_is_told)
        app.router.add_route("*", "/v1/sessions/{rest:.*}", self.relay)
        app.router.add_route("*", "/v1/runs{rest:.*}", self.relay)
        return app

    async def healthz(self, _: web.Request) -> web.Response:
        """The process lives."""
        return json_response({"status": "ok"})

    async def readyz(self, _: web.Request) -> web.Response:
        """New rollouts are taken, and the collector is there and has everything."""
        if self.draining:
            raise Problem(503, "the proxy ends", "no new rollout is begun")
        if self._sender.trouble:
            raise Problem(503, "events cannot be kept", self._sender.trouble)
        if self._succession.trouble:
            raise Problem(503, "what a restart needs cannot be kept", self._succession.trouble)
        if self._sender.spooled or self._sender.away:
            raise Problem(503, "events wait for the collector", f"{self._sender.spooled} batches: {self._sender.away}")
        await self._ask("GET", "/readyz")
        return json_response({"status": "ready"})

    async def upstreams(self, _: web.Request) -> web.Response:
        """Gym's servers and their listeners, and the processes that serve these."""
        upstreams = [upstream.as_dict() for upstream in self._listeners.all()]
        return json_response({"upstreams": upstreams, "processes": self._crew.as_list()})

    async def config(self, request: web.Request) -> web.Response:
        """Register the servers of a config; the same config with the listeners' addresses."""
        body = await read_json(request)
        text = body.get("config") if isinstance(body, dict) else None
        own = body.get("own") if isinstance(body, dict) else None
        if not isinstance(text, str) or not (own is None or isinstance(own, str)):
            raise Problem(400, "a field is wrong", 'send {"config": "<YAML>", "own": "<name>" or null}')
        rewritten, listeners = await self._rewritten(text, own)
        return json_response({"config": rewritten, "listeners": listeners, "mode": self._settings.mode})

    async def head_config(self, _: web.Request) -> web.Response:
        """Gym's head server, which hands out its config as a JSON string of YAML."""
        text = orjson.loads(await self._ask_head("/global_config_dict_yaml"))
        rewritten, _listeners = await self._rewritten(str(text), None, unattached())
        return json_response(rewritten)

    async def head_instances(self, _: web.Request) -> web.Response:
        """Gym's head server, passed through."""
        return web.Response(body=await self._ask_head("/server_instances"), content_type="application/json")

    async def put_session(self, request: web.Request) -> web.Response:
        """A dispatcher registers; the collector keeps it, and this proxy knows its run."""
        answer = await self.relay(request)
        if answer.status != 200 or not isinstance(answer.body, bytes):
            return answer
        value, asked = orjson.loads(answer.body), orjson.loads(await request.read())
        self._sessions.learn(value["session"], value["run"])
        if asked.get("mode") == "aggregate":
            gate = asked.get("gate")
            self._sessions.learn_shards(value["session"], gate if isinstance(gate, dict) else None)
        if isinstance(reverified := asked.get("reverifies"), str):
            self._sessions.learn_reverified(value["session"], reverified)
        return json_response(value | {"mode": self._settings.mode})

    async def heartbeat(self, request: web.Request) -> web.Response:
        """A dispatcher lives, or has ended."""
        body = await read_json(request)
        session = request.match_info["session"]
        if isinstance(body, dict) and body.get("state") == "running":
            self._sessions.lives(session)
        if isinstance(body, dict) and body.get("state") == "ended":
            self._executions.session_ended(session)
            await self._crew.settled()
            self._sender.put(*self._untold())
            self._sessions.ended(session)
        return await self.relay(request)

    async def once_all_is_told(self, request: web.Request) -> web.Response:
        """What the collector answers once all that this proxy knows has reached it."""
        if doubt := await self._gate.undelivered():
            raise Problem(503, "unknown is not complete", doubt)
        return await self.relay(request)

    async def relay(self, request: web.Request) -> web.Response:
        """Pass a request about runs and sessions on to the collector."""
        status, kind, body = await self._asked(request.method, request.raw_path, await request.read())
        return web.Response(status=status, body=body, headers={"Content-Type": kind})

    async def _ask(self, method: str, path: str) -> None:
        try:
            status, _, body = await self._asked(method, path, None)
        except Problem as away:
            raise Problem(503, away.title, away.detail) from away
        if status != 200:
            raise Problem(503, "the collector is not ready", body[:500].decode("utf-8", "replace"))

    async def _asked(self, method: str, path: str, body: bytes | None) -> tuple[int, str, bytes]:
        url, fields = f"{self._settings.collector}{path}", {"Content-Type": "application/json"}
        try:
            async with self._client.request(method, url, data=body, headers=fields, timeout=_ASKING) as answer:
                kind = answer.headers.get("Content-Type", "application/json")
                return answer.status, kind, await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            detail = f"{self._settings.collector}: {type(error).__name__}: {error}"
            raise Problem(502, "the collector cannot be reached", detail) from error

    async def _ask_head(self, path: str) -> bytes:
        url = f"{self._settings.head_server}{path}"
        try:
            async with self._client.get(url, timeout=_ASKING) as answer:
                answer.raise_for_status()
                return await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            detail = f"{url}: {type(error).__name__}: {error}; start Gym's servers, or set head_server"
            raise Problem(502, "Gym's head server cannot be reached", detail) from error

    async def _rewritten(
        self, text: str, own: str | None, session: SessionOfRun | None = None
    ) -> tuple[str, list[dict[str, str]]]:
        """The config with the listeners' addresses, those of a session of its own where one is given."""
        try:
            config = GymConfig(text)
            servers = config.servers()
            listeners = self._listeners
            known = await (listeners.register_for(session, servers) if session else listeners.register(servers))
            watched = await listeners.register(self._providers(config))
        except ConfigError as error:
            raise Problem(400, "the config cannot be read", str(error)) from error
        except OwnAddressError as error:
            raise Problem(409, "a listener cannot be an upstream", str(error)) from error
        self._relate(config)
        await self.keep()
        addresses = {each.name: each.address if each.name != own else _real(each.url) for each in known}
        endpoints = {each.name: each.listener for each in watched}
        return config.rewritten(addresses, endpoints), [each.as_dict() for each in (*known, *watched)]

    async def keep(self) -> None:
        """Keep what a successor needs."""
        await self._succession.keep(self._listeners.places(), self._related)

    async def keep_on(self) -> None:
        """Keep it now and again, since listeners that are used are not forgotten."""
        for waited in count(1):
            await asyncio.sleep(_TOLD_S)
            if self._succession.trouble or waited % (_KEPT_S // _TOLD_S) == 0:
                await self.keep()

    def _providers(self, config: GymConfig) -> list[GymServer]:
        return config.providers() if self._settings.watch_providers else []

    def _relate(self, config: GymConfig) -> None:
        """Tell the collector, once, which servers can call which."""
        references = config.references()
        if references and references != self._related:
            self._related = references
            self._sender.put(Topology(references))


async def _tell(sender: Sender, watch: Watch, records: Records) -> None:
    """Send what was watched from time to time."""
    while True:
        await asyncio.sleep(_TOLD_S)
        events: list[Event] = [*watch.told(), *records.due()]
        if events:
            sender.put(*events)


async def _drained(listeners: Listeners, crew: Crew, seconds: float, hurry: asyncio.Event) -> None:
    """Wait until nothing is in flight, for some seconds at the most; set `hurry` ends it at once."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    in_flight = await _in_flight(listeners, crew)
    if in_flight:
        log.info("%d exchanges are in flight; they have %g s (drain_timeout) to end", in_flight, seconds)
    while await _in_flight(listeners, crew) and loop.time() < until and not hurry.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(hurry.wait(), _LOOK_S)
    if left := await _in_flight(listeners, crew):
        log.warning("%d exchanges are broken off; Gym's clients send them again", left)


async def _in_flight(listeners: Listeners, crew: Crew) -> int:
    await crew.settled()
    return sum(upstream.in_flight + upstream.in_flight_elsewhere for upstream in listeners.all())


async def _take_over(succession: Succession, sender: Sender) -> None:
    """Have the collector told which processes are gone, and again which servers can call which."""
    left = succession.left
    gone = dict.fromkeys([*left.gone, *map(proxy_of, sender.left_behind)])
    told = [ProxyGone(proxy, now()) for proxy in gone]
    related = [Topology(left.references)] if left.references else []
    while True:
        try:
            await sender.store(*told, *related)
            break
        except NotStoredError:  # it is said where it happens
            await asyncio.sleep(_TOLD_S)
    await succession.told()


async def _tell_spans(spans: Spans) -> None:
    """Tell what was seen of dispatches that go on, so that it can be looked at meanwhile."""
    while True:
        await asyncio.sleep(SOON_S)
        spans.tell()


def _real(url: str) -> tuple[str, int]:
    host, _, port = url.removeprefix("http://").rpartition(":")
    return host.strip("[]"), int(port)


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


@asynccontextmanager
async def serving(settings: ProxySettings, hurry: asyncio.Event | None = None) -> AsyncIterator[str]:
    """Run a proxy; yields the main port's URL. Raises OSError at the start.

    At the end what is in flight has `drain_timeout` to end, unless `hurry` is set; without a `hurry` it has no time.
    """
    host, port = split_address(settings.listen)
    async with AsyncExitStack() as stack:
        bound = stack.enter_context(closing(bind(host, port)))
        observe, engine = settings.mode == "observe", wire.Engine(engine_settings(settings))
        client = await stack.enter_async_context(passing_client())
        control = await stack.enter_async_context(aiohttp.ClientSession())
        succession = Succession(settings.spool, host, port)
        name = sender_of(succession.proxy)
        posts = wire.Engine()  # of its own, since the other is closed before the last events are sent
        stack.push_async_callback(posts.close)
        posting = Posting(posts, settings.collector)
        sender = Sender(posting, settings.spool, name, settings.queue_bytes)
        in_force = PolicyInForce(control, settings.collector, settings.spool)
        ledger, carriers = Ledger(lambda: f"c-{token_hex(8)}", lambda: in_force.policy), Carriers()
        sessions = Sessions(control, settings.collector, settings.spool, succession.left.static)
        watch = Watch(sessions.runs_on)

        def untold() -> list[Event]:
            return [*watch.told(), *records.untold()]

        span_sender = SpanSender(posting, f"q-{uuid4().hex}", settings.spans_waiting)
        spans = Spans(span_sender, settings.spans)
        records = Records(ledger, sender, in_force, spans)
        hearing = Hearing(records=records, ledger=ledger, carriers=carriers, watch=watch, spans=span_sender)
        crew: Crew = Pool(settings, engine, hearing, in_force) if settings.workers > 1 else Alone(engine)
        stack.callback(crew.abandon)
        reporter = Reporter(control, settings.collector, sender, succession.proxy)
        gate = Gate(control, settings.collector, sender, untold, crew, reporter.report)
        forwarder = Forwarder(engine, records, observe, settings.inspect_limit)
        run = OutermostRun(
            forwarder=forwarder,
            records=records,
            ledger=ledger,
            carriers=carriers,
            sender=sender,
            crew=crew,
            settings=settings,
        )
        executions = Executions(settings.resend_grace)
        intake = Intake(
            forwarder=forwarder,
            run=run,
            metrics=Metrics(gate, sessions, forwarder, records),
            ledger=ledger,
            carriers=carriers,
            sessions=sessions,
            sender=sender,
            watch=watch,
            executions=executions,
            observe=observe,
            inspect_limit=settings.inspect_limit,
            proxy=succession.proxy,
        )
        listeners = Listeners(settings, host, crew, intake.take_in)
        intake.listener_of = listeners.listener_of
        http_proxy = HttpProxy(client, listeners, settings.head_server, settings.allow_hosts)
        main = MainPort(settings, control, listeners, sessions, sender, gate, untold, executions, succession, crew)
        app = main.app(http_proxy)
        ProxyMeasures(spans.measured, sender, listeners.all).serve(app)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        stack.push_async_callback(runner.cleanup)
        await runner.setup()
        log.info("mode %s; limits: %s", settings.mode, limits_text(settings))
        await in_force.fetch()
        sending, telling = background(sender.run(), "sender"), background(_tell(sender, watch, records), "watch")
        taking_over = background(_take_over(succession, sender), "succession")
        reopening, keeping = background(listeners.run(), "listeners"), background(main.keep_on(), "keeping")
        kept = background(span_sender.run(), "span sender"), background(_tell_spans(spans), "spans")
        async with AsyncExitStack() as working:
            reporting = background(reporter.run(), "reports")
            learning = background(in_force.run(), "policy")
            for each in (sending, telling, *kept, learning, taking_over, reopening, keeping, reporting):
                await working.enter_async_context(each)
            await crew.start()
            await listeners.reopen(succession.to_open())
            await listeners.register(static_servers(settings))
            await main.keep()
            await web.SockSite(runner, bound).start()
            yield url_of(bound)
            main.draining = intake.draining = True
            if hurry is not None:
                await _drained(listeners, crew, settings.drain_timeout, hurry)
            await main.keep()
            await intake.close()
            await crew.close()
            records.close()
            sender.put(*untold())
            hurried = hurry is not None and hurry.is_set()
            await (sender.finish(0) if hurried else sender.finish())
            spans.tell()
            if not hurried:
                await span_sender.flush()
                await reporter.report(ended=True)
        sender.close()
