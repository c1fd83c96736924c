"""Everything that takes part in a round, as processes, and what the acts do to them."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from .nursery import Nursery
from .parts import NotUpError, Part, Ports, environment
from .plan import AGENTS, JUDGE, POLICY, RESOURCES, Act
from .relay import Relay
from .truth import Truth

PROJECT = Path(__file__).resolve().parents[1]
FIRST_BYTE_S, CONNECT_S = 3.0, 1.5
"""The proxy's limits, short so that a hanging or a dead server costs little."""

_STARTS = 4

_KINDS = {
    POLICY: ("responses_api_models", "chaos_model", {}),
    JUDGE: ("responses_api_models", "chaos_model", {}),
    RESOURCES: ("resources_servers", "arithmetic", {"judge_model_server": JUDGE}),
    AGENTS[0]: ("responses_api_agents", "chaos_agent", {"resources_server": RESOURCES, "model_server": POLICY}),
    AGENTS[1]: ("responses_api_agents", "chaos_agent", {"resources_server": RESOURCES, "model_server": POLICY}),
}
_SERVERS = {"agent": AGENTS, POLICY: (POLICY,), JUDGE: (JUDGE,), RESOURCES: (RESOURCES,)}
_MODULES = {"agent": "chaos.agent", POLICY: "chaos.model", JUDGE: "chaos.model", RESOURCES: "chaos.resources"}


class Stage:
    """The parts by name, and the cable between proxy and collector."""

    def __init__(self, folder: Path, parallel: int, database: str | None = None) -> None:
        self.folder, self.output = folder, folder / "rollouts.jsonl"
        self._ports = Ports()
        self.database = database or f"sqlite:///{folder / 'records.sqlite3'}"
        (folder / "truth").mkdir(parents=True)
        self.truth = Truth(folder / "truth", "stage")
        self._dispatches = [str(self.output), str(folder / "rows.jsonl"), str(parallel)]
        proxy, collector, cable = self._ports.new(), self._ports.new(), self._ports.held()
        self.relay = Relay(cable, collector)
        self.proxy_url, self.collector_url = (f"http://127.0.0.1:{port}" for port in (proxy, collector))
        listening = {name: self._ports.new() for name in _KINDS}
        self._config = json.dumps({name: _entry(name, port) for name, port in listening.items()})
        self.parts = {
            "collector": self._service("collector", collector, "--database", self.database),
            "proxy": self._service("proxy", proxy, *_proxy_flags(cable.getsockname()[1], folder)),
            **{name: self._server(name, [listening[each] for each in names]) for name, names in _SERVERS.items()},
            "dispatcher": self._dispatcher(),
        }
        self._nursery = Nursery()
        for part in self.parts.values():
            part.nursery = self._nursery

    def _service(self, name: str, port: int, *flags: str) -> Part:
        command = [sys.executable, "-m", "rollcall_runner", name, "--listen", f"127.0.0.1:{port}", *flags]
        return Part(name, command, environment(), self.folder / f"{name}.log", port)

    def _server(self, name: str, ports: list[int]) -> Part:
        env = self._env() | {
            "CHAOS_NAME": name,
            "CHAOS_PORTS": ",".join(map(str, ports)),
            "NEMO_GYM_CONFIG_DICT": self._config,
            "NEMO_GYM_CONFIG_PATH": _SERVERS[name][0],
        }
        return Part(name, [sys.executable, "-m", _MODULES[name]], env, self.folder / f"{name}.log", ports[-1])

    def _dispatcher(self) -> Part:
        command = [sys.executable, "-m", "chaos.dispatcher", *self._dispatches]
        env = self._env() | {"CHAOS_CONFIG": self._config}
        return Part("dispatcher", command, env, self.folder / "dispatcher.log")

    def _env(self) -> dict[str, str]:
        path = os.pathsep.join([str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])])
        return environment(
            ROLLCALL_PROXY=self.proxy_url, CHAOS_TRUTH=str(self.folder / "truth"), PYTHONPATH=path, PYTHONUNBUFFERED="1"
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Everything but the dispatcher is up while the block runs."""
        try:
            await self.relay.start()
            await self._nursery.start(self._env())
            for name in ("collector", "proxy"):
                await self.parts[name].start()
                await self.parts[name].up()
            servers = [self.parts[name] for name in _SERVERS]
            await asyncio.gather(*(part.start() for part in servers))
            await asyncio.gather(*(part.up() for part in servers))
            yield
        finally:
            self.relay.speak()
            await self.relay.cut()
            for part in self.parts.values():
                part.signal(signal.SIGCONT)
                await part.end(signal.SIGKILL)
            await self._nursery.end()
            self._ports.close()

    async def suffers(self, act: Act) -> None:
        """Let an act happen, and put it right."""
        at = asyncio.get_running_loop().time()
        await {"cable": self._cable, "services": self._services}.get(act.part, self._part)(act)
        until = asyncio.get_running_loop().time()
        for part in ("proxy", "collector") if act.part == "services" else (act.part,):
            self.truth.note("act", what=act.what, part=part, began=at, ended=until)

    async def _part(self, act: Act) -> None:
        part = self.parts[act.part]
        async with part.lock:
            if not part.lives:
                return
            if act.what == "stop":
                part.signal(signal.SIGSTOP)
                await asyncio.sleep(act.seconds)
                part.signal(signal.SIGCONT)
                return
            await part.end(signal.SIGTERM if act.what == "term" else signal.SIGKILL)
            await asyncio.sleep(act.seconds)
            if act.part != "dispatcher":  # whoever waits for its end starts it again
                await _again(part)

    async def _services(self, act: Act) -> None:
        proxy, collector = self.parts["proxy"], self.parts["collector"]
        async with proxy.lock, collector.lock:
            await asyncio.gather(proxy.end(signal.SIGKILL), collector.end(signal.SIGKILL))
            await asyncio.sleep(act.seconds)
            await proxy.start()  # first, so that it has nobody to ask
            await asyncio.sleep(act.seconds / 2)
            await collector.start()
            await asyncio.gather(proxy.up(), collector.up())

    async def _cable(self, act: Act) -> None:
        if act.what == "cut":
            await self.relay.cut()
        else:
            self.relay.silence()
        await asyncio.sleep(act.seconds)
        if act.what == "cut":
            await self.relay.start()
        else:
            self.relay.speak()


async def _again(part: Part) -> None:
    """Start a part until it is up: a server of Gym's gives up where the proxy stays away, and is started anew."""
    for _ in range(_STARTS):
        await part.start()
        try:
            return await part.up()
        except NotUpError:
            continue
    raise NotUpError(f"{part.name} did not come up {_STARTS} times")


def _entry(name: str, port: int) -> dict[str, object]:
    kind, implementation, calls = _KINDS[name]
    named = {key: {"type": _KINDS[each][0], "name": each} for key, each in calls.items()}
    return {kind: {implementation: {"entrypoint": "app.py", "host": "127.0.0.1", "port": port, **named}}}


def _proxy_flags(cable: int, folder: Path) -> list[str]:
    limits = ["--first-byte-timeout", str(FIRST_BYTE_S), "--connect-window", str(CONNECT_S), "--drain-timeout", "3"]
    return ["--collector", f"http://127.0.0.1:{cable}", "--spool", str(folder / "spool"), *limits]
