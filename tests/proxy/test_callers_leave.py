"""A caller that goes away first: recorded, never a failure by itself."""

import asyncio

from aiohttp import web
from proxystage.fakes import RESULT, Caller, FakeServer
from proxystage.raw import Peer, connect, post
from proxystage.world import World, eventually, told


class Parked:
    """A handler that never answers, and knows when its caller has gone."""

    def __init__(self) -> None:
        self.entered, self.left = asyncio.Event(), asyncio.Event()

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()
        raise AssertionError


async def leaving(call: Caller, server: str, parked: Parked) -> None:
    """A call whose caller closes the connection once the server has it."""
    calling = asyncio.ensure_future(call(server, "/v1/responses"))
    await parked.entered.wait()
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)


async def test_a_caller_that_leaves_ends_the_exchange_with_the_server(world: World) -> None:
    """The server sees its caller go; the rollout is good, and the tag says cancelled."""
    parked = Parked()

    async def play(call: Caller) -> object:
        await leaving(call, "model", parked)
        await parked.left.wait()
        return RESULT

    await world.plays(play, model=FakeServer("model", {"/v1/responses": parked}))
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, None)
    assert await world.totals() == {"expected": 1, "succeeded": 1}
    assert [tag["what"] for tag in await world.tags()] == ["cancelled"]


async def test_a_caller_that_leaves_in_the_middle_of_an_answer_is_recorded(world: World) -> None:
    """Half a stream has arrived: cancelled as well, not a server that went away."""
    left = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        await peer.until_lost()
        left.set()

    async def play(call: Caller) -> object:
        caller = await connect(world.listeners["streams"])
        await caller.say(post("/v1/responses", b"{}", f"Rollcall-Owner: {call.owner}"))
        await caller.reader.readuntil(b"a")
        caller.close()
        await left.wait()
        return RESULT

    await world.stands_at((await world.serves_raw(script)).url, name="streams")
    await world.plays(play)
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, None)
    assert [tag["what"] for tag in await world.tags()] == ["cancelled"]


async def test_a_caller_that_leaves_before_its_request_is_whole_is_recorded(world: World) -> None:
    """Half a body was sent: the server is not to blame."""
    arrived = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.head()
        arrived.set()
        await peer.until_lost()

    async def play(call: Caller) -> object:
        caller = await connect(world.listeners["slow"])
        await caller.say(post("/v1/responses", b"{}", f"Rollcall-Owner: {call.owner}").replace(b": 2\r\n", b": 9\r\n"))
        await arrived.wait()
        caller.close()
        await eventually(world.tags)
        return RESULT

    await world.stands_at((await world.serves_raw(script)).url, name="slow")
    await world.plays(play)
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, None)
    assert [tag["what"] for tag in await world.tags()] == ["cancelled"]


async def test_a_failure_of_a_server_that_was_left_in_peace_still_counts(world: World) -> None:
    """A call cancelled by its caller beside one that failed: the failed one decides."""
    parked = Parked()

    async def play(call: Caller) -> object:
        await leaving(call, "model", parked)
        await call("tools", "/made_up")
        return RESULT

    await world.plays(play, model=FakeServer("model", {"/v1/responses": parked}))
    await world.expects(("agent", 0, 0))
    assert (await world.run()).value["_rollcall"]["root_cause"]["path"] == "/made_up"


async def test_an_outermost_caller_that_leaves_makes_the_rollout_missing(world: World) -> None:
    """Nobody will write a row for it: not succeeded, not failed, and the metrics are withheld."""
    entered = asyncio.Event()

    async def play(_: Caller) -> object:
        entered.set()
        await asyncio.Event().wait()
        return RESULT

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    running = asyncio.ensure_future(world.run())
    await entered.wait()
    assert await eventually(lambda: is_now(world, "running"))
    running.cancel()
    assert await eventually(lambda: is_now(world, "missing"))
    assert (await world.metrics()).value["key_metrics"]["rollcall/reason"] == "1 missing"


async def is_now(world: World, state: str) -> bool:
    return await world.totals() == {"expected": 1, state: 1}
