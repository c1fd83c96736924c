"""A caller's connection that reads just enough of HTTP/1.1 to know when an answer is whole."""

import asyncio
from dataclasses import dataclass, field
from time import perf_counter
from typing import cast

from ..place import place_of


@dataclass
class Answer:
    """Its status, its body's length, and the seconds from the first byte sent to the last one received."""

    status: int
    length: int
    seconds: float


@dataclass
class Reading:
    """How much of an answer has come. Bodies of this benchmark hold no CR, so the last chunk ends a chunked one."""

    head: bytearray = field(default_factory=bytearray)
    status: int = 0
    length: int | None = None
    got: int = 0
    tail: bytes = b""

    def feed(self, data: bytes) -> bool:
        """Whether the answer is whole now."""
        if self.status == 0:
            self.head += data
            end = self.head.find(b"\r\n\r\n")
            if end < 0:
                return False
            data = bytes(self.head[end + 4 :])
            self._read_head(self.head[:end])
        self.got += len(data)
        self.tail = (self.tail + data[-7:])[-7:]
        return self.got >= self.length if self.length is not None else self.tail.endswith(b"0\r\n\r\n")

    def _read_head(self, head: bytes | bytearray) -> None:
        first, *lines = bytes(head).split(b"\r\n")
        self.status = int(first.split()[1])
        for line in lines:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                self.length = int(value)


class Connection(asyncio.Protocol):
    """One connection, one exchange at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._reading, self._began = Reading(), 0.0
        self._done: asyncio.Future[Answer] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._reading.feed(data) and self._done is not None and not self._done.done():
            seconds = perf_counter() - self._began
            self._done.set_result(Answer(self._reading.status, self._reading.got, seconds))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(exc or ConnectionError("closed before the answer was whole"))

    def send(self, request: bytes) -> "asyncio.Future[Answer]":
        """Send a request; its answer."""
        assert self._transport is not None
        self._reading, self._done = Reading(), asyncio.get_running_loop().create_future()
        self._began = perf_counter()
        self._transport.write(request)
        return self._done

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


async def connect(url: str) -> Connection:
    """A new connection to the server at a URL."""
    _, connection = await asyncio.get_running_loop().create_connection(Connection, *place_of(url))
    return connection


async def ask(url: str, request: bytes) -> Answer:
    """One exchange on a connection of its own."""
    connection = await connect(url)
    try:
        return await connection.send(request)
    finally:
        connection.close()
