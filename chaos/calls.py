"""How the stage's processes call each other: as Gym's client does, which asks again while nobody answers."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import aiohttp
from rollcall_attach import listeners

from .truth import Truth

Json = dict[str, Any]
CALL = "Chaos-Call"
"""The field that names an exchange in the truth; it goes end to end."""
AGAIN_S = 0.25
"""Between two tries at a listener that is not there; Gym waits 0.5 s (nemo_gym 0.4 to 0.7)."""


class PeerError(Exception):
    """An answer that is no 2xx (`status`), or one that broke off."""

    def __init__(self, server: str, path: str, status: int | None) -> None:
        super().__init__(f"{server} {path}: {status or 'broken off'}")
        self.status = status


@dataclass
class Execution:
    """One execution of a `/run`, or of a part of it behind the call `within`; counts its exchanges."""

    name: str
    within: str
    depth: int
    number: "count[int]" = field(default_factory=count)


@dataclass(frozen=True)
class Peers:
    """The other servers' addresses as the config names them, which are Rollcall's listeners."""

    truth: Truth
    addresses: Mapping[str, str]
    http: aiohttp.ClientSession

    @classmethod
    @asynccontextmanager
    async def connected(cls, truth: Truth, config: Json) -> "AsyncIterator[Peers]":
        async with client() as http:
            yield cls(truth, addresses_of(config), http)

    async def post(self, execution: Execution, server: str, path: str, body: Json, again: int = 0) -> tuple[int, bytes]:
        """POST until there is an answer. Raises PeerError for one that is no whole 2xx; `again` numbers repetitions."""
        key = f"{execution.within}>{server}{path}#{body.get('turn', '')}"
        while True:
            call = f"{execution.within}.{next(execution.number)}"
            fields = {CALL: call, "x-stainless-retry-count": str(again)}
            where = {"server": server, "path": path, "depth": execution.depth}
            self.truth.note("asked", call=call, execution=execution.name, key=key, **where)
            try:
                answer = await self.http.post(self.addresses[server] + path, json=body, headers=fields)
            except aiohttp.ClientError:
                self.truth.note("got", call=call, ok=False, status=None)
                await asyncio.sleep(AGAIN_S)
                continue
            return await self._read(answer, call, server, path)

    async def _read(self, answer: aiohttp.ClientResponse, call: str, server: str, path: str) -> tuple[int, bytes]:
        status: int | None = answer.status
        try:
            body = await answer.read()
        except aiohttp.ClientError:
            body, status = b"", None
        ok = status is not None and status < 400
        self.truth.note("got", call=call, ok=ok, status=answer.status)
        if status is None or not ok:
            raise PeerError(server, path, status)
        return status, body


def addresses_of(config: Json) -> dict[str, str]:
    """Name to URL: a server's own entry names its real address, and it calls itself through its listener (attach)."""
    servers = {name: next(iter(next(iter(kinds.values())).values())) for name, kinds in config.items()}
    real = {name: f"http://{server['host']}:{server['port']}" for name, server in servers.items()}
    return {name: listeners.instead_of(url) for name, url in real.items()}


def client() -> aiohttp.ClientSession:
    """Without limits of its own, as Gym's is."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None))
