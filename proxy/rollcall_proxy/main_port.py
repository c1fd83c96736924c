"""The proxy's main port: registration, the head server's stand-in, and the way to the collector."""

import asyncio
from itertools import count

import aiohttp
import orjson
from aiohttp import web
from rollcall_collector.contract.exchange import Topology
from rollcall_collector.guard import Guard
from rollcall_collector.serving import Problem, json_response, problems, read_json

from .gate import Gate, Untold
from .gym_config import ConfigError, GymConfig, GymServer
from .http_proxy import own_routes_only
from .listeners import Listeners, OwnAddressError
from .reach import NotAllowedError, Reach
from .resend import Executions
from .sender import Sender
from .sessions import SessionOfRun, Sessions, unattached
from .settings import ProxySettings
from .succession import Succession
from .to_collector import ToCollector
from .workers.crew import Crew

_BODY_LIMIT = 512 * 1024 * 1024
_LOOKED_S = 2.0
_KEPT_S = 3600.0
_HEAD_CONFIG = "/global_config_dict_yaml"
HEAD_SERVER = (_HEAD_CONFIG, "/server_instances")
"""The paths at which the main port stands in for Gym's head server."""
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
        *,
        asking_head: aiohttp.ClientSession,
        reach: Reach,
    ) -> None:
        self._reach = reach
        self._settings, self._asking_head, self._listeners = settings, asking_head, listeners
        self._sessions, self._sender, self._gate, self._untold = sessions, sender, gate, untold
        self._collector = ToCollector(client, settings.collector)
        self._executions, self._succession, self._crew = executions, succession, crew
        self._related = succession.left.references
        self.draining = False

    def app(self, guard: Guard) -> web.Application:
        """The aiohttp application."""
        before = [problems, guard.middleware, own_routes_only]
        app = web.Application(middlewares=before, client_max_size=_BODY_LIMIT)
        app.router.add_get("/healthz", self.healthz)
        app.router.add_get("/readyz", self.readyz)
        app.router.add_get("/v1/upstreams", self.upstreams)
        app.router.add_post("/v1/config", self.config)
        for path in HEAD_SERVER:
            app.router.add_get(path, self.head)
        app.router.add_put("/v1/sessions/{session}", self.put_session)
        app.router.add_post("/v1/sessions/{session}/heartbeat", self.heartbeat)
        app.router.add_get("/v1/runs/{run}/gate", self.once_all_is_told)
        app.router.add_post("/v1/runs/{run}/healed", self.once_all_is_told)
        app.router.add_route("*", "/v1/sessions/{rest:.*}", self.relay)
        app.router.add_route("*", "/v1/runs{rest:.*}", self.relay)
        app.router.add_get("/v1/events/stream", self.relay)
        app.on_shutdown.append(self._collector.end)
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
        await self._collector.ready()
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
        rewritten, listeners = await self._rewritten(request.remote, text, own)
        return json_response({"config": rewritten, "listeners": listeners, "mode": self._settings.mode})

    async def head(self, request: web.Request) -> web.Response:
        """In the place of Gym's head server."""
        body = await self.as_head_server(request.path, request.remote)
        return web.Response(body=body, content_type="application/json")

    async def as_head_server(self, path: str, peer: str | None) -> bytes:
        """What Gym's head server answers at a path, in JSON. Raises Problem.

        Its config is a JSON string of YAML; the rest is passed through.
        """
        if path not in HEAD_SERVER:
            raise Problem(404, "Not Found", f"GET {path}: Gym's head server has {' and '.join(HEAD_SERVER)}")
        said = await self._ask_head(path)
        if path != _HEAD_CONFIG:
            return said
        rewritten, _listeners = await self._rewritten(peer, str(orjson.loads(said)), None, unattached())
        return orjson.dumps(rewritten)

    async def put_session(self, request: web.Request) -> web.StreamResponse:
        """A dispatcher registers; the collector keeps it, and this proxy knows its run."""
        answer = await self.relay(request)
        if answer.status != 200 or not isinstance(answer, web.Response) or not isinstance(answer.body, bytes):
            return answer
        value, asked = orjson.loads(answer.body), orjson.loads(await request.read())
        self._sessions.learn(value["session"], value["run"])
        if asked.get("mode") == "aggregate":
            gate = asked.get("gate")
            self._sessions.learn_shards(value["session"], gate if isinstance(gate, dict) else None)
        if isinstance(reverified := asked.get("reverifies"), str):
            self._sessions.learn_reverified(value["session"], reverified)
        return json_response(value | {"mode": self._settings.mode})

    async def heartbeat(self, request: web.Request) -> web.StreamResponse:
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
        answer = await self.relay(request)
        if isinstance(body, dict) and body.get("state") == "ended":
            await self._gate.report()
        return answer

    async def once_all_is_told(self, request: web.Request) -> web.StreamResponse:
        """What the collector answers once all that this proxy knows has reached it."""
        if doubt := await self._gate.undelivered():
            raise Problem(503, "unknown is not complete", doubt)
        asks = request.path.endswith("/gate")
        url = request.rel_url.extend_query(self._gate.told_by) if asks else None
        return await self._collector.passed_on(request, url)

    async def relay(self, request: web.Request) -> web.StreamResponse:
        """Pass a request about runs and sessions on to the collector."""
        return await self._collector.passed_on(request)

    async def _ask_head(self, path: str) -> bytes:
        url = f"{self._settings.head_server}{path}"
        try:
            async with self._asking_head.get(url, timeout=_ASKING, allow_redirects=False) as answer:
                if answer.status != 200:
                    raise aiohttp.ClientError(f"status {answer.status}")
                return await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            detail = f"{url}: {type(error).__name__}: {error}; start Gym's servers, or set head_server"
            raise Problem(502, "Gym's head server cannot be reached", detail) from error

    async def _rewritten(
        self, peer: str | None, text: str, own: str | None, session: SessionOfRun | None = None
    ) -> tuple[str, list[dict[str, str]]]:
        """The config with the listeners' addresses, those of a session of its own where one is given."""
        try:
            config = await asyncio.to_thread(GymConfig, text)
            servers, references = config.servers(), config.references()
            listeners, providers = self._listeners, self._providers(config)
            new = [each for each in (*servers, *providers) if listeners.at(each.url) is None]
            await self._reach.admit(new, peer or "")
            known = await (listeners.register_for(session, servers) if session else listeners.register(servers))
            watched = await listeners.register(providers)
        except ConfigError as error:
            raise Problem(400, "the config cannot be read", str(error)) from error
        except NotAllowedError as error:
            raise Problem(403, "a server may not be registered", str(error)) from error
        except OwnAddressError as error:
            raise Problem(409, "a listener cannot be an upstream", str(error)) from error
        self._relate(references)
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
            await asyncio.sleep(_LOOKED_S)
            if self._succession.trouble or waited % (_KEPT_S // _LOOKED_S) == 0:
                await self.keep()

    def _providers(self, config: GymConfig) -> list[GymServer]:
        return config.providers() if self._settings.watch_providers else []

    def _relate(self, references: dict[str, tuple[str, ...]]) -> None:
        """Tell the collector, once, which servers can call which."""
        if references and references != self._related:
            self._related = references
            self._sender.put(Topology(references))


def _real(url: str) -> tuple[str, int]:
    host, _, port = url.removeprefix("http://").rpartition(":")
    return host.strip("[]"), int(port)
