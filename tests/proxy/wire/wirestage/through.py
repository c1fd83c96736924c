"""An engine in front of a scripted server."""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, Self

from rollcall_proxy.wire import Address, Consumer, Engine, Exchange, Limits, Passage, Settings

from .raw import Peer, Script, Server, call, listening

SETTINGS = Settings(linger=0.3, tick=0.02, rest=0.05)


class Wire:
    """What a test has: a server, an engine before it with a handler, and callers.

    `exchanges` are all that came to the handler. Unless a test gives another `handler`, each is passed on. With
    `shows`, the server's certificate, it is spoken to in TLS, and `trusts` says whom the engine believes.
    """

    def __init__(
        self,
        settings: Settings = SETTINGS,
        shows: ssl.SSLContext | None = None,
        trusts: ssl.SSLContext | None = None,
    ) -> None:
        self._settings, self.stack = settings, AsyncExitStack()
        self._shows, self._trusts = shows, trusts
        self.server = Server()
        self.consumer: Callable[[Passage], Consumer] | None = None
        self.limits = Limits(connect=2)
        self.handler: Callable[[Exchange], Any] = self.pass_on
        self.exchanges: list[Exchange] = []

    async def __aenter__(self) -> Self:
        self.engine = Engine(self._settings, self._trusts)
        self.stack.push_async_callback(self.engine.close, 0)
        self.server_port = await self.server.start(tls=self._shows)
        self.stack.push_async_callback(self.server.close)
        bound = listening()
        await self.engine.listen(bound, self._handle)
        self.port = int(bound.getsockname()[1])
        self.address = Address("127.0.0.1", self.server_port, tls=self._shows is not None)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stack.aclose()

    def pass_on(self, exchange: Exchange) -> Passage:
        """The handler that only passes on."""
        return exchange.pass_on(self.address, self.consumer, limits=self.limits)

    async def caller(self, *steps: Any, direct: bool = False) -> Peer:
        """A caller that follows a script; `direct`: without the engine."""
        peer = await call(self.server_port if direct else self.port)
        self.stack.push_async_callback(peer.close)
        await peer.follow(steps)
        return peer

    def plays(self, *scripts: Script) -> None:
        """What the server does on its first connection, on its second, and so on."""
        self.server.scripts.extend(scripts)

    async def soon(self, true: Callable[[], Any]) -> bool:
        """Whether something comes true within two seconds."""
        for _ in range(400):
            if true():
                return True
            await asyncio.sleep(0.005)
        return False

    async def left_over(self) -> tuple[int, int]:
        """Callers' and servers' connections in an exchange, once the loop has had time to close what is closed."""
        await self.soon(lambda: not self.engine.callers and not self.engine.calls)
        return len(self.engine.callers), len(self.engine.calls)

    def _handle(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)
        self.handler(exchange)
