"""A server of the stage: uvicorn, attached as Gym's are, with half a second for what is open when it is ended."""

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp.client_reqrep
import uvicorn
import uvicorn.config
import uvicorn.server
from rollcall_attach import owner, servers, shutdown

from .calls import CALL, Peers
from .truth import Truth

Json = dict[str, Any]
_OPEN_S, _IDLE_S = 0.5, 30
"""As Gym gives uvicorn (nemo_gym 0.4 to 0.7)."""


@dataclass(frozen=True)
class Answer:
    """What a server says. `cut`: its connection breaks before the end. `what`: how it is known to have failed."""

    body: bytes
    status: int = 200
    kind: str = "application/json"
    cut: bool = False
    what: str | None = None


def said(value: Any, status: int = 200) -> Answer:
    """JSON; Gym's servers answer an error with a JSON string."""
    return Answer(json.dumps(value).encode(), status, what=None if status < 400 else "http_status")


@dataclass(frozen=True)
class Asked:
    """A request: its path, its body, the name of the exchange, and which repetition it is."""

    path: str
    body: Json
    call: str
    again: int


Handler = Callable[[Asked], Awaitable[Answer]]


class CutError(Exception):
    """Ends an answer in its middle; uvicorn then closes the connection."""


class App:
    """An ASGI app that writes down what it hears and says."""

    def __init__(self, server: str, truth: Truth, handler: Handler) -> None:
        self._server, self._truth, self._handler = server, truth, handler

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        fields = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        again = int(fields.get("x-stainless-retry-count", 0))
        asked = Asked(scope["path"], json.loads(await _whole(receive)), fields.get(CALL.lower(), ""), again)
        self._truth.note("heard", call=asked.call, server=self._server, path=asked.path)
        answer = await self._answered(asked)
        self._truth.note("said", call=asked.call, what=answer.what)
        length = len(answer.body) + (100 if answer.cut else 0)
        head = [(b"content-type", answer.kind.encode()), (b"content-length", str(length).encode())]
        await send({"type": "http.response.start", "status": answer.status, "headers": head})
        await send({"type": "http.response.body", "body": answer.body, "more_body": answer.cut})
        if answer.cut:
            raise CutError

    async def _answered(self, asked: Asked) -> Answer:
        try:
            return await self._handler(asked)
        except Exception as error:
            return said(f"Hit an exception: {error!r}", 500)


async def _whole(receive: Any) -> bytes:
    body, more = bytearray(), True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(body)


def serve(server: str, truth: Truth, make: Callable[[Peers], Handler]) -> None:
    """Serve at the ports that CHAOS_PORTS names until told to stop; the config is registered as Gym's servers do it."""
    owner.fit_uvicorn(uvicorn.config)
    shutdown.fit_uvicorn(uvicorn.server)
    owner.fit_aiohttp(aiohttp.client_reqrep)
    servers.enter()
    asyncio.run(_serve(server, truth, make))


async def _serve(server: str, truth: Truth, make: Callable[[Peers], Handler]) -> None:
    async with Peers.connected(truth, json.loads(os.environ[servers.CONFIG])) as peers:
        app = App(server, truth, make(peers))
        settings: Any = {"timeout_graceful_shutdown": _OPEN_S, "timeout_keep_alive": _IDLE_S}
        config = uvicorn.Config(app, lifespan="off", log_level="critical", **settings)
        await uvicorn.Server(config).serve([_bound(int(port)) for port in os.environ["CHAOS_PORTS"].split(",")])


def _bound(port: int) -> socket.socket:
    bound = socket.socket(proto=socket.IPPROTO_TCP)  # else asyncio leaves Nagle's algorithm on
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", port))
    return bound


def truth_of(name: str) -> Truth:
    """Of a process that the stage has started."""
    return Truth(Path(os.environ["CHAOS_TRUTH"]), name)
