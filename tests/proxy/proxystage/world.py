"""The world of a test: one collector, one proxy, and the fake servers that are registered with it."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web
from rollcall_collector.service import serving as collector_serving
from rollcall_collector.settings import CollectorSettings
from rollcall_proxy.service import serving as proxy_serving
from rollcall_proxy.settings import ProxySettings

from . import fakes
from .fakes import FakeServer, Heard, Play, Said
from .raw import RawServer, Script

SESSION, RUN = "s-1", "r-1"
GONE = "http://127.0.0.1:9"
"""An address at which nothing listens."""


class World:
    """Everything a transcript speaks to."""

    def __init__(self, stack: AsyncExitStack, http: aiohttp.ClientSession, folder: Path) -> None:
        self._stack, self.http, self.folder = stack, http, folder
        self.collector, self.proxy = GONE, ""
        self.listeners: dict[str, str] = {}
        self._collecting, self._proxying = AsyncExitStack(), AsyncExitStack()
        self.stack = stack
        self.policy: dict[str, Any] = {}

    # the two services

    async def collector_starts(self) -> None:
        """A collector; the same address and database each time."""
        port = 0 if self.collector == GONE else int(self.collector.rpartition(":")[2])
        given: dict[str, Any] = {"listen": f"127.0.0.1:{port}", "database": f"sqlite:///{self.folder / 'c.sqlite3'}"}
        given |= self.policy
        self.collector = await self._collecting.enter_async_context(collector_serving(CollectorSettings(**given)))

    async def collector_stops(self) -> None:
        await self._collecting.aclose()

    async def proxy_starts(self, **settings: Any) -> None:
        given: dict[str, Any] = {
            "listen": "127.0.0.1:0",
            "collector": self.collector,
            "spool": self.spool,
            "head_server": GONE,
            "allow_servers": "10.0.0.0/24",  # where some configs have a server
        }
        given |= {"connect_window": 0.001, "resend_grace": 0.3} | settings
        self.proxy = await self._proxying.enter_async_context(proxy_serving(ProxySettings(**given)))

    async def proxy_stops(self) -> None:
        await self._proxying.aclose()

    @property
    def spool(self) -> Path:
        return self.folder / "spool"

    # Gym's servers

    async def serves(self, server: FakeServer) -> FakeServer:
        """Start a fake server."""
        app = web.Application(client_max_size=2**30)
        app.router.add_route("*", "/{path:.*}", server.handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=4096)
        await site.start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return server

    async def serves_raw(self, script: Script) -> RawServer:
        """Start a server that plays a script on each connection."""
        server = RawServer(script)
        await server.start()
        self._stack.push_async_callback(server.stop)
        return server

    async def plays(self, play: Play, name: str = "agent", **others: FakeServer) -> FakeServer:
        """An agent that plays, a model and a resources server, registered with the proxy."""
        defaults = {"model": FakeServer("model", MODEL_ANSWERS.copy()), "tools": FakeServer("resources", TOOLS.copy())}
        player = fakes.agent(self.http, self.listeners, play)
        await self.registers(**defaults | others | {name: player})
        return player

    async def registers(self, **servers: FakeServer) -> None:
        """Start servers, and register a config that names them."""
        for server in servers.values():
            if not server.url:
                await self.serves(server)
        await self.config({name: server.entry for name, server in servers.items()})

    async def stands_behind_another_proxy(self, name: str, server: FakeServer) -> None:
        """From now on callers reach a server by way of a second proxy of the same collector."""
        given = {"listen": "127.0.0.1:0", "collector": self.collector, "spool": self.folder / "other-spool"}
        other = await self._stack.enter_async_context(proxy_serving(ProxySettings(**given)))
        await self.serves(server)
        body = {"config": yaml.safe_dump({name: server.entry}), "own": None}
        (listener,) = (await self.ask("POST", f"{other}/v1/config", body)).value["listeners"]
        self.listeners[name] = listener["listener"]

    async def config(self, config: dict[str, Any], own: str | None = None) -> Heard:
        """POST /v1/config with a config in Gym's shape."""
        answer = await self.main("POST", "/v1/config", {"config": yaml.safe_dump(config), "own": own})
        if answer.status == 200:
            self.listeners.update({each["name"]: each["listener"] for each in answer.value["listeners"]})
        return answer

    async def stands_at(self, url: str, kind: str = "model", name: str = "model") -> str:
        """Register a server by its address; its listener."""
        server = FakeServer(kind)
        server.url = url
        await self.config({name: server.entry})
        return self.listeners[name]

    # a dispatcher's requests

    async def main(self, method: str, path: str, value: Any = None) -> Heard:
        return await self.ask(method, self.proxy + path, value)

    async def ask(self, method: str, url: str, value: Any = None, fields: dict[str, str] | None = None) -> Heard:
        """One exchange, as it came back."""
        data = value if isinstance(value, bytes) else None if value is None else json.dumps(value)
        async with self.http.request(method, url, data=data, headers=fields, allow_redirects=False) as answer:
            return Heard(url, dict(answer.headers), await answer.read(), answer.status)

    async def expects(self, *rollouts: tuple[str, int, int], session: str = SESSION, run: str = RUN) -> None:
        """A dispatcher registers its session and the rollouts of its materialized inputs."""
        about = {"run": run, "output": "/out/rollouts.jsonl", "mode": "fresh", "gym": "0.7.0"}
        assert (await self.main("PUT", f"/v1/sessions/{session}", about)).status == 200
        listed = [[*rollout, None] for rollout in rollouts]
        body = {"session": session, "source": "inputs.jsonl", "digest": "sha256:0", "rollouts": listed}
        assert (await self.main("PUT", f"/v1/runs/{run}/expected", body)).status == 200

    async def run(self, task: int = 0, rollout: int = 0, agent: str = "agent", **more: Any) -> Heard:
        """The dispatcher's `/run` of one rollout."""
        row = {"_ng_task_index": task, "_ng_rollout_index": rollout, "agent_ref": {"name": agent}} | more
        return await self.post(agent, "/run", row)

    async def post(self, server: str, path: str, value: Any, session: str | None = SESSION) -> Heard:
        """A dispatcher's request to a listener."""
        named = {} if session is None else {"Rollcall-Session": session}
        return await self.ask("POST", self.listeners[server] + path, value, named)

    async def metrics(self, agent: str = "agent") -> Heard:
        return await self.post(agent, "/aggregate_metrics", {"verify_responses": []})

    # what Rollcall says of it

    async def status(self, run: str = RUN) -> dict[str, Any]:
        found: dict[str, Any] = (await self.ask("GET", f"{self.collector}/v1/runs/{run}")).value
        return found

    async def totals(self) -> dict[str, int]:
        """The counts that are not 0."""
        found = (await self.status())["totals"]
        return {word: number for word, number in found.items() if number}

    async def rollout(self, name: str = "0-0") -> dict[str, Any]:
        answer = await self.ask("GET", f"{self.collector}/v1/runs/{RUN}/rollouts/{name}")
        assert answer.status == 200, answer.body
        found: dict[str, Any] = answer.value
        return found

    async def tags(self, name: str = "0-0") -> list[dict[str, Any]]:
        """The tags of a rollout's last dispatch."""
        dispatches = (await self.rollout(name))["dispatches"]
        return list(dispatches[-1]["tags"]) if dispatches else []


Stage = Callable[..., Awaitable[World]]
"""Starts a world; see the fixture of this name."""

MODEL_ANSWERS: dict[str, fakes.Answer] = {"/v1/responses": Said({"status": "completed", "output": []})}
TOOLS: dict[str, fakes.Answer] = {
    "/seed_session": Said({}),
    "/get_weather": Said({"weather": "cold"}),
    "/verify": Said(fakes.RESULT),
}


async def eventually(holds: Callable[[], Awaitable[Any]], within_s: float = 15) -> Any:
    """The first true value; fails after a while. For what the services do on their own time."""
    async with asyncio.timeout(within_s):
        while not (value := await holds()):  # noqa: ASYNC110  # another process, or what the API alone shows
            await asyncio.sleep(0.02)
    return value


def told(answer: Heard) -> tuple[int, str | None]:
    """An answer's status, and the word of Rollcall's where Rollcall made it."""
    return answer.status, answer.answered_by_rollcall


def cause(row: dict[str, Any]) -> tuple[str, str, str, int | None]:
    """A failure row's root cause: server, role, what, status."""
    found = row["_rollcall"]["root_cause"]
    return found["server"], found["role"], found["what"], found["status"]
