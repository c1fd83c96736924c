"""A connection to a server that is closed just as it is used again: sent on another where nothing can have arrived."""

import asyncio

import pytest
from proxystage.fakes import RESULT, Caller, Heard
from proxystage.raw import Peer
from proxystage.world import World, told

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 24\r\n\r\n"
SAID = OK + b'{"status": "completed" }'


class Closing:
    """A server whose first connection ends behind its first answer, or behind the request that follows it."""

    def __init__(self, reads_the_second: bool, resets: bool) -> None:
        self._reads, self._resets = reads_the_second, resets
        self.requests: list[bytes] = []
        self.connections = 0
        self.idle, self.closes = asyncio.Event(), asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        self.connections += 1
        first = self.connections == 1
        await self.answer(peer)
        if not first:
            while True:
                await self.answer(peer)
        self.idle.set()
        await self.closes.wait()
        if self._reads:
            self.requests.append(await peer.request())
        if self._resets:
            peer.reset()

    async def answer(self, peer: Peer) -> None:
        self.requests.append(await peer.request())
        await peer.say(SAID)


async def called_twice(world: World, server: Closing, method: str) -> Heard:
    """Two calls of a rollout, between which the connection ends, or is about to; what the second is answered."""
    answers: list[Heard] = []

    async def play(call: Caller) -> object:
        await call("raw", "/v1/responses", {"call": 1}, method)
        await server.idle.wait()
        server.closes.set()
        if not server._reads:
            await asyncio.sleep(0.05)
        answers.append(await call("raw", "/v1/responses", {"call": 2}, method))
        return RESULT

    await world.stands_at((await world.serves_raw(server)).url, name="raw")
    await world.plays(play)
    await world.expects(("agent", 0, 0))
    await world.run()
    return answers[0]


@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
async def test_a_call_that_meets_a_closed_connection_arrives_once(world: World, method: str, resets: bool) -> None:
    """Nothing of it can have been delivered: it goes on another connection, and nobody hears of it."""
    server = Closing(False, resets)
    assert told(await called_twice(world, server, method)) == (200, None)
    assert [request[-3:-1] for request in server.requests] == [b" 1", b" 2"]
    assert (server.connections, await world.tags()) == (2, [])


@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
async def test_a_call_that_may_have_arrived_is_not_sent_again(world: World, method: str, resets: bool) -> None:
    """The server had it when the connection ended: its caller is told that, and decides."""
    server = Closing(True, resets)
    answer = await called_twice(world, server, method)
    assert told(answer) == (502, "peer_drop")
    assert "delivered" in answer.value["detail"]
    assert [request[-3:-1] for request in server.requests] == [b" 1", b" 2"]
    assert [tag["what"] for tag in await world.tags()] == ["peer_drop"]
