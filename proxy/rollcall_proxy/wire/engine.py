"""The engine: its listeners, its connections, and one timer for all of them."""

import asyncio
import select
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

from .asking import Answer, ask
from .caller import CallerConnection, Handler
from .exchange import Exchange
from .head import RequestHead
from .limits import NO_LIMITS, Address, Limits, Outcome, Settings
from .passage import Consumer, Passage
from .resting import Resting
from .sending import Turn
from .server import ServerConnection

_SOON = 0.05
"""Seconds between looks at callers that are not read from, to see if they have left, and at connections that rest."""
_BACKLOG = 4096


class Engine:
    """Serves listeners and calls servers. There is no limit to the connections to a server: exchanges that wait for
    each other through the same proxy would wait for ever. `why_not` says of a host and an address that it has why it
    is not connected to; where that is asked, no other addresses are connected to than those that it has let pass.

    `callers` are the connections of callers, `unread` those not read from for now, `calls` the connections to servers
    that are within an exchange. `elsewhere`: callers that other processes serve, and that count as well.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        tls: ssl.SSLContext | None = None,
        why_not: Callable[[str, str], str | None] | None = None,
    ) -> None:
        self.settings, self.loop = settings or Settings(), asyncio.get_running_loop()
        self.now, self.turn = self.loop.time, Turn(self.loop)
        self.callers: set[CallerConnection] = set()
        self.unread: set[CallerConnection] = set()
        self.calls: set[ServerConnection] = set()
        self.closing, self.elsewhere = False, 0
        self._idle: dict[Address, dict[ServerConnection, None]] = {}
        self._resting = Resting(self.settings, self.now)
        self._connecting: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._deserted = asyncio.Event()
        self._poll = select.poll()
        self._why_not = why_not
        self._tls = tls  # whom to believe; None: those whom the system believes
        self._timers = [
            self.loop.call_later(self.settings.tick, self._tick),
            self.loop.call_later(_SOON, self._look),
        ]

    async def listen(self, bound: socket.socket, handler: Handler) -> asyncio.Server:
        """Serve what comes to a bound socket; `handler` is called with each exchange, and returns at once."""
        server = await self.loop.create_server(lambda: CallerConnection(self, handler), sock=bound, backlog=_BACKLOG)
        self._servers.append(server)
        return server

    def adopt(
        self,
        accepted: socket.socket,
        handler: Handler,
        received: bytes = b"",
        gone: Callable[[], None] | None = None,
    ) -> None:
        """Serve a caller's connection that has been accepted elsewhere, where `received` has been read of it.

        `gone` is called when the connection is gone from here.
        """
        work = self._adopt(accepted, lambda: CallerConnection(self, handler, received, gone), gone)
        task = self.loop.create_task(work, name="adopt a connection")
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _adopt(
        self, accepted: socket.socket, connection: Callable[[], CallerConnection], gone: Callable[[], None] | None
    ) -> None:
        try:
            await self.loop.connect_accepted_socket(connection, accepted)
        except OSError:  # its caller has left
            accepted.close()
            if gone is not None:
                gone()

    def passage(
        self,
        exchange: Exchange,
        request: RequestHead,
        address: Address,
        limits: Limits,
        consumer: Callable[[Passage], Consumer] | None,
    ) -> Passage:
        """Begin to pass an exchange on."""
        passage = Passage(self, exchange, request, address, limits)
        passage.begin(consumer or Consumer)
        return passage

    async def send(
        self, address: Address, request: RequestHead, body: bytes = b"", limits: Limits = NO_LIMITS
    ) -> Answer:
        """Send a request of one's own, whose fields say the length of its body. Raises FailedError."""
        return await ask(self, address, request, body, limits)

    async def close(self, grace: float = 1.0) -> None:
        """Listen no longer, give what is in flight `grace` seconds to end, and close every connection."""
        self.closing = True
        for server in self._servers:
            server.close()
        for caller in list(self.callers):
            caller.stop()
        if self.callers:
            self._deserted.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._deserted.wait(), grace)
        for timer in self._timers:
            timer.cancel()
        for task in list(self._connecting):
            task.cancel()
        idle = [*self._resting, *(connection for each in self._idle.values() for connection in each)]
        for caller in list(self.callers):
            caller.break_off()
        for call in list(self.calls):
            call.reset()
        for connection in idle:
            connection.abort()
        await asyncio.sleep(0)  # the loop tells the connections that they are lost

    @property
    def crowded(self) -> bool:
        """Whether there are more connections of callers than are to be served."""
        most = self.settings.callers
        return most is not None and len(self.callers) + self.elsewhere > most

    def caller_gone(self, caller: CallerConnection) -> None:
        """A caller's connection is gone."""
        self.callers.discard(caller)
        self.unread.discard(caller)
        if not self.callers:
            self._deserted.set()

    # Connections to servers.

    def idle(self, address: Address) -> ServerConnection | None:
        """The connection to a server that has been idle shortest, None where there is none."""
        pool = self._idle.get(address)
        while pool:
            connection, _ = pool.popitem()
            if not connection.transport.is_closing():
                connection.was_idle()
                return connection
        return None

    def connect(
        self,
        address: Address,
        limits: Limits,
        connected: Callable[[ServerConnection], None],
        failed: Callable[[Outcome], None],
    ) -> asyncio.Task[None]:
        """Open a connection; one of the two is called, unless the task is cancelled."""
        task = self.loop.create_task(self._connect(address, limits, connected, failed), name=f"connect {address}")
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
        return task

    def keep(self, connection: ServerConnection, failed: bool = False) -> None:
        """Keep a connection for the next exchange with its server; behind an answer that `failed` it may rest."""
        if self.closing:
            connection.abort()
            return
        connection.idle_since, connection.idle_behind_failure = self.now(), failed
        if not (failed and self._resting.begin(connection)):
            self._offer(connection)

    def _offer(self, connection: ServerConnection) -> None:
        self._idle.setdefault(connection.address, {})[connection] = None

    def lost(self, connection: ServerConnection, by_server: bool = False) -> None:
        """A connection to a server is gone, closed `by_server` or here."""
        self.calls.discard(connection)
        if connection.idle_behind_failure:
            self._resting.lost(connection, by_server)
        pool = self._idle.get(connection.address)
        if pool is not None:
            pool.pop(connection, None)
            if not pool:
                del self._idle[connection.address]

    async def _connect(
        self,
        address: Address,
        limits: Limits,
        connected: Callable[[ServerConnection], None],
        failed: Callable[[Outcome], None],
    ) -> None:
        tls: dict[str, Any] = {"ssl": self._tls_context(), "server_hostname": address.host} if address.tls else {}
        try:
            async with asyncio.timeout(limits.connect):
                connection = await self._connected(address, tls)
        except TimeoutError:
            failed(Outcome("timeout", f"no connection within {limits.connect:g} s", "connect"))
        except OSError as error:
            failed(Outcome("unreachable", str(error)))
        else:
            self._hand_over(connection, connected)

    async def _connected(self, address: Address, tls: dict[str, Any]) -> ServerConnection:
        """Connect to the first of a host's addresses that answers. Raises OSError.

        An error that this coroutine kept would hold the coroutine, and with it the exchange: its text is enough.
        """
        troubles: list[str] = []
        for host in await self._hosts(address):
            try:
                _, connection = await self.loop.create_connection(
                    lambda: ServerConnection(self, address), host, address.port, **tls
                )
            except OSError as error:
                troubles.append(str(error))
            else:
                return connection
        raise OSError(troubles[0] if troubles else f"{address.host} has no address")

    async def _hosts(self, address: Address) -> list[str]:
        """What to connect to: addresses that have been looked at, or the host itself. Raises OSError."""
        if self._why_not is None:
            return [address.host]
        found = [address.host]
        if not _is_address(address.host):
            looked_up = await self.loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
            found = list(dict.fromkeys(str(each[4][0]) for each in looked_up))
        refused = {each: self._why_not(address.host, each) for each in found}
        allowed = [each for each, why in refused.items() if why is None]
        if not allowed and found:
            raise OSError(refused[found[0]])
        return allowed

    def _hand_over(self, connection: ServerConnection, connected: Callable[[ServerConnection], None]) -> None:
        try:
            connected(connection)
        except Exception as error:
            # As the loop does when a connection's own method raises: the exchange must not wait for ever.
            self.loop.call_exception_handler({"message": "a consumer has failed", "exception": error})
            connection.transport.abort()

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls

    # Time.

    def _tick(self) -> None:
        """Close what is overdue."""
        now = self.now()
        for caller in [each for each in self.callers if each.deadline <= now]:
            caller.overdue()
        for call in list(self.calls):
            call.overdue(now)
        oldest = now - self.settings.idle_server
        for pool in self._idle.values():
            for connection in [each for each in pool if each.idle_since <= oldest]:
                connection.abort()
        self._timers[0] = self.loop.call_later(self.settings.tick, self._tick)

    def _look(self) -> None:
        """See who has rested, and who has left: a connection that is not read from does not show that."""
        for connection in self._resting.rested():
            self._offer(connection)
        for caller in [each for each in self.unread if not each.transport.is_closing()]:
            self._poll.register(caller.fd, caller.hangs_up)
            gone = any(seen & caller.hangs_up for _, seen in self._poll.poll(0))
            self._poll.unregister(caller.fd)
            if gone:
                caller.abort()
        self._timers[1] = self.loop.call_later(_SOON, self._look)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
