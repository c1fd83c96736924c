"""A caller and a server that speak bytes: they follow scripts, and note what they see.

A step of a script is bytes to send, or one of the functions below.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from socket import SO_LINGER, SOL_SOCKET
from struct import pack
from typing import Literal

End = Literal["open", "closed", "reset"]

QUIET_S = 0.02
"""How long a connection must show nothing more to count as open."""
_PATIENCE_S = 5.0


class Peer:
    """One side of one connection; `seen` is all it has received, `view` what its script sees of that."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, view: Callable[[bytes], bytes] = bytes
    ) -> None:
        self._reader, self.writer, self.view = reader, writer, view
        self.seen, self.end = bytearray(), "open"
        self.has_ended = False
        self._more = asyncio.Event()
        self._reading = asyncio.create_task(self._read(), name="peer reads")

    async def _read(self) -> None:
        try:
            while data := await self._reader.read(1 << 20):
                self.seen += data
                self._more.set()
            self.end = "closed"
        except ConnectionError:
            self.end = "reset"
        self._more.set()

    async def until(self, true: Callable[[], bool], patience: float = _PATIENCE_S) -> None:
        """Wait until something holds of what was seen, or the connection has ended."""
        async with asyncio.timeout(patience):
            while not true() and self.end == "open":
                self._more.clear()
                await self._more.wait()

    async def settled(self, size: int, end: End = "open", patience: float = _PATIENCE_S) -> None:
        """Wait until `size` bytes were seen, and then for the end, or whether more comes where none is to come."""
        with suppress(TimeoutError):
            await self.until(lambda: len(self.seen) >= size, patience)
        with suppress(TimeoutError):
            await self.until(lambda: False, QUIET_S if end == "open" else patience)

    async def follow(self, script: "Script") -> None:
        """Do a script's steps, while the connection lasts."""
        with suppress(ConnectionError):
            for step in script:
                if isinstance(step, bytes):
                    if self.has_ended or self.writer.is_closing():
                        return
                    self.writer.write(step)
                    await self.writer.drain()
                else:
                    await step(self)

    async def close(self) -> None:
        """Close the connection, and read no more."""
        self._reading.cancel()
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()


Step = bytes | Callable[[Peer], Awaitable[None]]
Script = tuple[Step, ...]


def until(part: bytes) -> Step:
    """Wait until this was seen."""

    async def step(peer: Peer) -> None:
        await peer.until(lambda: part in peer.view(peer.seen))

    return step


def pause(seconds: float = 0.01) -> Step:
    """Let the other side take what was sent as one read."""

    async def step(_: Peer) -> None:
        await asyncio.sleep(seconds)

    return step


async def eof(peer: Peer) -> None:
    """Send nothing more, and read on."""
    peer.has_ended = True
    if not peer.writer.is_closing():
        peer.writer.write_eof()


async def closes(peer: Peer) -> None:
    """Close the connection."""
    peer.writer.close()


async def resets(peer: Peer) -> None:
    """Reset the connection."""
    if peer.writer.is_closing():
        return
    peer.writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, pack("ii", 1, 0))
    peer.writer.transport.abort()


def listening() -> socket.socket:
    """A bound socket whose connections keep little: the system may else keep 32 MB for a peer that does not read."""
    bound = socket.create_server(("127.0.0.1", 0), backlog=1024)
    bound.setsockopt(SOL_SOCKET, socket.SO_RCVBUF, 256 * 1024)
    bound.setblocking(False)
    return bound


class Server:
    """Follows a script on each connection: the first script on the first one, and so on; then it only reads."""

    def __init__(self, view: Callable[[bytes], bytes] = bytes) -> None:
        self._view = view
        self.scripts: list[Script] = []
        self.peers: list[Peer] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepted = asyncio.Event()

    async def start(self, bound: socket.socket | None = None) -> int:
        """Listen, on a socket of its own where none is given; the port."""
        bound = bound or listening()
        self._server = await asyncio.start_server(self._accept, sock=bound, limit=1 << 20)
        return int(bound.getsockname()[1])

    @property
    def seen(self) -> bytes:
        """All that was received, on all connections."""
        return b"".join(peer.seen for peer in self.peers)

    async def peer(self, number: int = 0) -> Peer:
        """The connection with this number, once there is one."""
        async with asyncio.timeout(_PATIENCE_S):
            while len(self.peers) <= number:
                self._accepted.clear()
                await self._accepted.wait()
        return self.peers[number]

    async def close(self) -> None:
        """Close all connections."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        for peer in self.peers:
            await peer.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer, number = Peer(reader, writer, self._view), len(self.peers)
        self.peers.append(peer)
        self._accepted.set()
        if number < len(self.scripts):
            task = asyncio.create_task(peer.follow(self.scripts[number]), name="server's script")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def call(port: int) -> Peer:
    """A caller's connection."""
    return Peer(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 20))


async def stops_reading(peer: Peer) -> None:
    """Read nothing more, until `reads_on`."""
    peer.writer.transport.pause_reading()


async def reads_on(peer: Peer) -> None:
    """Read again."""
    peer.writer.transport.resume_reading()
