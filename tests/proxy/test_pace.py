"""The slower side sets the pace, and what passes meanwhile is not kept: by a proxy in a process of its own."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from proxystage.process import ProxyProcess, proxy_process
from proxystage.raw import Peer, connect
from proxystage.world import Stage, World

MB = 1_000_000
MUCH = 200
"""Megabytes that one side has for the other."""
BUFFERED = 40
"""Megabytes that the system keeps in its sockets' buffers, at the most."""
GROWN = 24
"""Megabytes that the proxy's process may have grown."""
BLOCK = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(MB // 32))
"""A megabyte in which no part is like another."""


@dataclass
class Proxied:
    """A world and its proxy's process."""

    world: World
    proxy: ProxyProcess

    def peak_mb(self) -> float:
        """The most memory that the proxy has had."""
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.proxy.process.pid}/status").read_text())
        assert found
        return int(found[1]) / 1000


@pytest.fixture
async def proxied(stage: Stage) -> AsyncIterator[Proxied]:
    world = await stage()
    await world.proxy_stops()
    async with proxy_process(world) as proxy:
        yield Proxied(world, proxy)


class Sender:
    """Sends megabytes on a connection; `sent` are those that the system has taken."""

    def __init__(self) -> None:
        self.sent = 0

    async def send(self, peer: Peer, framed: Callable[[bytes], bytes] = bytes) -> None:
        for _ in range(MUCH):
            await peer.say(framed(BLOCK))
            self.sent += 1

    async def stuck(self) -> int:
        """Wait until nothing more is taken; what has been."""
        before = -1
        while before != self.sent or not self.sent:
            before = self.sent
            await asyncio.sleep(0.25)
        return self.sent


async def digest_of(peer: Peer, size: int) -> str:
    """What comes, digested without keeping it."""
    found = hashlib.sha256()
    while size and (piece := await peer.reader.read(min(size, MB))):
        found.update(piece)
        size -= len(piece)
    return found.hexdigest()


def expected() -> str:
    found = hashlib.sha256()
    for _ in range(MUCH):
        found.update(BLOCK)
    return found.hexdigest()


def chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


KINDS = ["application/octet-stream", "text/event-stream", "application/x-ndjson"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_caller_that_reads_slowly_holds_its_server_back(proxied: Proxied, kind: str) -> None:
    """Of an answer whose type is read by nobody, and of one that is read on its way."""
    sender = Sender()

    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.say(
            b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n" % (kind.encode(), MUCH * MB)
        )
        await sender.send(peer)

    await proxied.world.stands_at((await proxied.world.serves_raw(script)).url, "resources", "tools")
    caller = await connect(proxied.world.listeners["tools"])
    caller.writer.transport.pause_reading()
    before = proxied.peak_mb()
    await caller.say(b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n")
    assert await sender.stuck() < BUFFERED
    caller.writer.transport.resume_reading()
    await caller.head()
    assert await digest_of(caller, MUCH * MB) == expected()
    assert proxied.peak_mb() - before < GROWN


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_server_that_reads_slowly_holds_its_caller_back(proxied: Proxied, chunked: bool) -> None:
    sender, goes_on = Sender(), asyncio.Event()
    found: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % (MUCH * MB)

    async def script(peer: Peer) -> None:
        await peer.head()
        peer.writer.transport.pause_reading()
        await goes_on.wait()
        peer.writer.transport.resume_reading()
        found.set_result(await (unchunked(peer) if chunked else digest_of(peer, MUCH * MB)))
        await peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    await proxied.world.stands_at((await proxied.world.serves_raw(script)).url)
    caller = await connect(proxied.world.listeners["model"])
    before = proxied.peak_mb()
    await caller.say(b"POST /v1/files HTTP/1.1\r\nHost: a\r\n%b\r\n\r\n" % framing)
    sending = asyncio.ensure_future(sender.send(caller, chunk if chunked else bytes))
    assert await sender.stuck() < BUFFERED
    goes_on.set()
    await sending
    if chunked:
        await caller.say(b"0\r\n\r\n")
    assert await found == expected()
    assert (await caller.head()).startswith(b"HTTP/1.1 200 OK")
    assert proxied.peak_mb() - before < GROWN


async def unchunked(peer: Peer) -> str:
    """A chunked body, digested without keeping it."""
    found = hashlib.sha256()
    while size := int(await peer.reader.readline(), 16):
        while size:
            piece = await peer.reader.read(min(size, MB))
            found.update(piece)
            size -= len(piece)
        await peer.reader.readexactly(2)
    return found.hexdigest()


async def test_64_mb_pass_both_ways_at_once_in_flat_memory(proxied: Proxied) -> None:
    """The server sends back what comes, while it comes."""
    size = 64 * MB

    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.say(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n" % size
        )
        left = size
        while left and (piece := await peer.reader.read(MB)):
            left -= len(piece)
            await peer.say(piece)

    async def send(caller: Peer) -> None:
        for _ in range(64):
            await caller.say(BLOCK)

    await proxied.world.stands_at((await proxied.world.serves_raw(script)).url)
    caller = await connect(proxied.world.listeners["model"])
    before = proxied.peak_mb()
    await caller.say(b"POST /v1/echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size)
    sending = asyncio.ensure_future(send(caller))
    await caller.head()
    assert await digest_of(caller, size) == hashlib.sha256(BLOCK * 64).hexdigest()
    await sending
    assert proxied.peak_mb() - before < GROWN
