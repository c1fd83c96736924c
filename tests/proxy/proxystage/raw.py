"""Both ends of a connection byte by byte, for what no well-behaved library sends."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

Script = Callable[["Peer"], Awaitable[None]]


@dataclass
class Peer:
    """One end of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def request(self) -> bytes:
        """The next request: its head, and its body by Content-Length or chunks, as it stands on the wire."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        return head + await self._body(head.lower())

    async def head(self) -> bytes:
        return await self.reader.readuntil(b"\r\n\r\n")

    async def _body(self, head: bytes) -> bytes:
        if b"transfer-encoding: chunked" in head:
            return await self.reader.readuntil(b"0\r\n\r\n")
        _, _, rest = head.partition(b"content-length: ")
        return await self.reader.readexactly(int(rest.split(b"\r\n")[0])) if rest else b""

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def until_eof(self) -> bytes:
        """What comes until the other end closes; a reset raises ConnectionResetError."""
        return await self.reader.read()

    async def until_lost(self) -> bytes:
        """What comes until the connection ends, however it does."""
        got = bytearray()
        with contextlib.suppress(ConnectionError):
            while piece := await self.reader.read(65536):
                got += piece
        return bytes(got)

    async def so_far(self) -> bytes:
        """What has come up to now; empty where nothing comes for a moment."""
        got = bytearray()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                while piece := await self.reader.read(65536):
                    got += piece
        return bytes(got)

    def reset(self) -> None:
        """End the connection with a reset."""
        sock: socket.socket = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    def close(self) -> None:
        self.writer.close()


class RawServer:
    """A server that plays a script on each connection, then closes it."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._server: asyncio.Server | None = None
        self.url, self.connections, self.peers = "", 0, set[Peer]()

    async def start(self, port: int = 0) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", port)
        self._server = server
        self.url = "http://{}:{}".format(*server.sockets[0].getsockname()[:2])

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        peer = Peer(reader, writer)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._script(peer)
        finally:
            writer.close()


async def connect(url: str) -> Peer:
    """A caller's end of a new connection to a listener."""
    parts = urlsplit(url)
    return Peer(*await asyncio.open_connection(parts.hostname, parts.port))


async def asked(url: str, request: bytes) -> bytes:
    """Send a request as it stands; all that comes back until the connection ends."""
    peer = await connect(url)
    await peer.say(request)
    try:
        return await peer.until_lost()
    finally:
        peer.close()


def post(path: str, body: bytes = b"{}", *fields: str, version: str = "1.1") -> bytes:
    """A request whose answer ends the connection."""
    lines = [f"POST {path} HTTP/{version}", "Host: gym", "Connection: close", f"Content-Length: {len(body)}", *fields]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
