"""A collector and a proxy in front of it, and whoever asks them."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
from aiohttp import web
from rollcall_collector.service import serving as collector_serving
from rollcall_collector.settings import CollectorSettings
from rollcall_proxy.service import serving as proxy_serving
from rollcall_proxy.settings import ProxySettings

Answers = Callable[[web.Request], Awaitable[web.StreamResponse]]
WRITE, READ, OTHER = "write-" * 6, "read-" * 7, "other-" * 6


@dataclass(frozen=True)
class Came:
    """An answer."""

    status: int
    fields: Mapping[str, str]
    body: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def detail(self) -> str:
        """Of a problem."""

        return str(self.json["detail"])


@dataclass
class Stage:
    """Starts services, which end with the test."""

    folder: Path
    stack: AsyncExitStack
    http: aiohttp.ClientSession
    collector: str = ""
    proxy: str = ""
    heard: list[web.Request] = field(default_factory=list)
    proxying: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def collects(self, **settings: Any) -> str:
        """Start a collector; its URL."""
        given = {"listen": "127.0.0.1:0", "database": f"sqlite:///{self.folder / 'c.sqlite3'}"} | settings
        self.collector = await self.stack.enter_async_context(collector_serving(CollectorSettings(**given)))
        return self.collector

    async def proxies(self, **settings: Any) -> str:
        """Start a proxy in front of it; its URL."""
        given = {"listen": "127.0.0.1:0", "collector": self.collector, "spool": self.folder / "spool"}
        given |= {"head_server": "http://127.0.0.1:9", "connect_window": 0.001} | settings
        self.proxy = await self.proxying.enter_async_context(proxy_serving(ProxySettings(**given)))
        return self.proxy

    async def serves(self, answers: Answers | None = None) -> str:
        """Start a server that answers everything, by default with an empty object, and keeps what it hears; its URL."""

        async def answer(request: web.Request) -> web.StreamResponse:
            self.heard.append(request)
            return await answers(request) if answers else web.json_response({})

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        self.stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    async def asks(
        self, url: str, token: str | None = None, method: str = "GET", value: Any = None, **fields: str
    ) -> Came:
        """Ask; the fields' names have `_` for `-`."""
        named = {name.replace("_", "-"): text for name, text in fields.items()}
        if token is not None:
            named["Authorization"] = f"Bearer {token}"
        async with self.http.request(method, url, json=value, headers=named, allow_redirects=False) as answer:
            return Came(
                answer.status,
                {name: ", ".join(answer.headers.getall(name)) for name in answer.headers},
                await answer.text(),
            )

    async def registers(
        self, url: str, token: str | None = None, name: str = "model", kind: str = "responses_api_models"
    ) -> Came:
        """Register a server at a URL with the proxy, and an agent that refers to it."""
        host, _, port = url.removeprefix("http://").rpartition(":")
        server = {"host": host.strip("[]"), "port": int(port)}
        refers = {"model_server": {"type": "responses_api_models", "name": name}}
        referring = {"responses_api_agents": {"x": {"host": "127.0.0.1", "port": 9} | refers}}
        config = json.dumps({name: {kind: {"x": server}}, "refers": referring})
        return await self.asks(f"{self.proxy}/v1/config", token, "POST", {"config": config, "own": None})


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Nothing is started yet."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession())
        made = Stage(tmp_path, stack, http)
        stack.push_async_callback(lambda: made.proxying.aclose())
        yield made


@dataclass(frozen=True)
class Certified:
    """Files: a certificate for 127.0.0.1 and localhost, its key, and the authority that has signed it."""

    certificate: Path
    key: Path
    authority: Path

    @property
    def settings(self) -> dict[str, Path]:
        """Of a service."""
        return {"tls_certificate": self.certificate, "tls_key": self.key}


@pytest.fixture(scope="session")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    """A certificate."""
    folder, authority = tmp_path_factory.mktemp("tls"), trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    files = Certified(folder / "cert.pem", folder / "key.pem", folder / "ca.pem")
    authority.cert_pem.write_to_path(files.authority)
    issued.private_key_pem.write_to_path(files.key)
    for each in issued.cert_chain_pems:
        each.write_to_path(files.certificate, append=True)
    return files
