"""A caller that leaves ends its exchange with the server at once, whatever the two are doing.

The server's answer is hours away in each of these; a second is allowed where a tenth of one is meant.
"""

import asyncio

import pytest
from proxystage.raw import Peer, connect, post
from proxystage.world import Stage, World

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b"9\r\ndata: 1\n\n\r\n"
ASKED = post("/v1/responses")
HALF = post("/v1/responses", b"x" * 1000)[:-1]
SAID = {
    "before the answer": (ASKED, b""),
    "before its request is whole": (HALF, b""),
    "within an event stream": (ASKED, STREAM + EVENT),
    "within an answer by length": (ASKED, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"),
    "within an answer that a close would end": (ASKED, b"HTTP/1.1 200 OK\r\n\r\nhalf"),
    "within a failed answer": (ASKED, b"HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\nhalf"),
    "within a tunnel": (
        b"GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\x00\x01",
    ),
}
"""What the caller has sent, and what the server has said, when the caller leaves."""


class Watching:
    """A server that says something and then waits for its caller to go."""

    def __init__(self, said: bytes) -> None:
        self._said, self.said, self.left = said, asyncio.Event(), asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        await peer.head()
        await peer.say(self._said)
        self.said.set()
        await peer.until_lost()
        self.left.set()


@pytest.mark.parametrize("reset", [False, True], ids=["closes", "resets"])
@pytest.mark.parametrize("phase", SAID)
async def test_a_server_sees_at_once_that_its_caller_has_left(world: World, phase: str, reset: bool) -> None:
    asked, said = SAID[phase]
    server = Watching(said)
    await world.stands_at((await world.serves_raw(server)).url)
    caller = await connect(world.listeners["model"])
    await caller.say(asked)
    await server.said.wait()
    if said and "failed" not in phase:
        await caller.head()
    caller.reset() if reset else caller.close()
    async with asyncio.timeout(1):
        await server.left.wait()


async def test_a_caller_that_reads_nothing_is_seen_to_leave(world: World) -> None:
    """The server has more to say than anybody takes, and learns that there is no point in it."""
    left = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 900000000\r\n\r\n")
        try:
            while True:
                await peer.say(b"x" * 1_000_000)
        finally:
            left.set()

    await world.stands_at((await world.serves_raw(script)).url)
    caller = await connect(world.listeners["model"])
    caller.writer.transport.pause_reading()
    await caller.say(ASKED)
    await asyncio.sleep(0.3)
    assert not left.is_set()
    caller.reset()
    async with asyncio.timeout(1):
        await left.wait()


async def test_a_caller_that_is_made_to_wait_is_seen_to_leave(world: World) -> None:
    """The server takes nothing; when it goes on, it finds the end and not the rest."""
    goes_on, left = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        peer.writer.transport.pause_reading()
        await goes_on.wait()
        peer.writer.transport.resume_reading()
        await peer.until_lost()
        left.set()

    await world.stands_at((await world.serves_raw(script)).url)
    caller = await connect(world.listeners["model"])
    sending = asyncio.ensure_future(caller.say(post("/v1/responses", b"x" * 90_000_000)))
    await asyncio.sleep(0.3)
    assert not sending.done()
    sending.cancel()
    caller.reset()
    goes_on.set()
    async with asyncio.timeout(5):
        await left.wait()


async def test_an_outermost_run_goes_on_for_its_grace(stage: Stage) -> None:
    """Its caller may come back; only then the agent sees that nobody waits."""
    server, world = Watching(b""), await stage(resend_grace=0.5)
    await world.stands_at((await world.serves_raw(server)).url, "agent", "agent")
    await world.expects(("agent", 0, 0))
    running = asyncio.ensure_future(world.run())
    await server.said.wait()
    running.cancel()
    await asyncio.sleep(0.2)
    assert not server.left.is_set()
    async with asyncio.timeout(2):
        await server.left.wait()
