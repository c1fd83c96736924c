"""Three machines: the dispatcher's, the agent's and the resources server's, each with a proxy of its own.

Each proxy reaches a collector by a cable that can be cut, and that leads to either of two, as a balancer's does. What
the agent calls goes through its own machine's proxy, and so on: only the collector knows all that concerns a rollout.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web
from machine_clock import MachineClock
from proxystage import fakes
from proxystage.fakes import Caller, FakeServer, Heard, Play, Said
from proxystage.world import RUN, World

from chaos.parts import Part, Ports, environment
from chaos.relay import Relay

COLLECTORS = 2
DISPATCHERS, AGENTS, RESOURCES = range(3)
"""The machines."""


class Nodes(World):
    """A world whose proxies and collectors are processes; what a test asks of `proxy` goes to the dispatcher's."""

    def __init__(self, stack: AsyncExitStack, http: aiohttp.ClientSession, folder: Path, database: str) -> None:
        super().__init__(stack, http, folder)
        self._ports, self._database = Ports(), database
        ports = [self._ports.new() for _ in range(COLLECTORS)]
        self.collectors = [f"http://127.0.0.1:{port}" for port in ports]
        self.collecting = [self._service("collector", n, port, "--database", database) for n, port in enumerate(ports)]
        self.collector = self.collectors[0]
        self.clocks = [MachineClock(folder / f"clock-{n}") for n in range(3)]
        cables = [self._ports.held() for _ in range(3)]
        self.cables = [Relay(cable, ports[n % COLLECTORS]) for n, cable in enumerate(cables)]
        ports = [self._ports.new() for _ in range(3)]
        self.proxies = [f"http://127.0.0.1:{port}" for port in ports]
        self.proxying = [
            self._service("proxy", n, port, *_flags(cable.getsockname()[1], folder / f"spool-{n}"))
            for n, (port, cable) in enumerate(zip(ports, cables, strict=True))
        ]
        self.proxy = self.proxies[DISPATCHERS]
        self.seen_from: list[dict[str, str]] = [{}, {}, {}]

    def _service(self, name: str, number: int, port: int, *flags: str) -> Part:
        command = [sys.executable, "-m", "rollcall_runner", name, "--listen", f"127.0.0.1:{port}", *flags]
        variables = environment() | (self.clocks[number].variables if name == "proxy" else {})
        return Part(name, command, variables, self.folder / f"{name}-{number}.log", port)

    async def start(self) -> None:
        """One collector after the other, since the first makes the tables."""
        self.stack.push_async_callback(self._end)
        for part in self.collecting:
            await part.start()
            await part.up()
        for cable in self.cables:
            await cable.start()
        for part in self.proxying:
            await part.start()
        await asyncio.gather(*(part.up() for part in self.proxying))

    async def _end(self) -> None:
        for cable in self.cables:
            await cable.cut()
        for part in [*self.proxying, *self.collecting]:
            await part.end(signal.SIGKILL)
        self._ports.close()

    async def collector_dies(self, number: int) -> None:
        """kill -9; from now on all cables lead to the other one."""
        await self.collecting[number].end(signal.SIGKILL)
        port = int(self.collectors[1 - number].rpartition(":")[2])
        for cable in self.cables:
            cable.leads_to(port)

    @asynccontextmanager
    async def cut_off(self, machine: int, for_s: float) -> AsyncIterator[None]:
        """A machine's proxy reaches no collector while the block runs, and for so many seconds at the least."""
        until = asyncio.get_running_loop().time() + for_s
        await self.cables[machine].cut()
        yield
        await asyncio.sleep(until - asyncio.get_running_loop().time())
        await self.cables[machine].start()

    async def proxy_dies(self, number: int) -> None:
        """kill -9."""
        await self.proxying[number].end(signal.SIGKILL)

    async def proxy_returns(self, number: int) -> None:
        """A successor, at the same listeners."""
        await self.proxying[number].start()
        await self.proxying[number].up()

    async def plays(self, play: Play, name: str = "agent", **others: FakeServer) -> FakeServer:
        """Each proxy knows all servers; the agent's calls go through its own machine's, the verifier's too."""
        self.servers = {name: fakes.agent(self.http, self.seen_from[AGENTS], play), **others}
        for server in self.servers.values():
            await self.serves(server)
        config = yaml.safe_dump({each: server.entry for each, server in self.servers.items()})
        for url, listeners in zip(self.proxies, self.seen_from, strict=True):
            answer = await self.ask("POST", f"{url}/v1/config", {"config": config, "own": None})
            listeners.update({each["name"]: each["listener"] for each in answer.value["listeners"]})
        self.listeners = self.seen_from[DISPATCHERS]
        return self.servers[name]

    def verifier(self) -> FakeServer:
        """A resources server whose `/verify` asks the judge, and swallows what comes of it."""

        async def verify(request: web.Request) -> web.Response:
            await Caller(self.http, self.seen_from[RESOURCES], request)("judge", "/v1/responses")
            return Said({"reward": 0.0}).response()

        return FakeServer("resources", {"/verify": verify})

    async def gate(self, at: int = DISPATCHERS) -> Heard:
        """What the gate says through a machine's proxy."""
        return await self.ask("GET", f"{self.proxies[at]}/v1/runs/{RUN}/gate")

    async def states(self, at: int) -> dict[str, Any]:
        """Of each rollout, its state by one of the collectors."""
        answer = await self.ask("GET", f"{self.collectors[at]}/v1/runs/{RUN}/rollouts")
        found = answer.value["rollouts"]
        return {f"{each['task_index']}-{each['rollout_index']}": each["state"] for each in found}


def _flags(cable: int, spool: Path) -> list[str]:
    return ["--collector", f"http://127.0.0.1:{cable}", "--spool", str(spool), "--connect-window", "0.001"]


@asynccontextmanager
async def started(database: str, folder: Path) -> AsyncIterator[Nodes]:
    """All of it, while the block runs."""
    async with AsyncExitStack() as stack:
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        http = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        nodes = Nodes(stack, http, folder, database)
        await nodes.start()
        yield nodes
