"""What is no HTTP with one reading is answered 400 before anybody is asked whose it is."""

import asyncio

import pytest
from proxystage.fakes import RESULT, Caller
from proxystage.raw import Peer, asked, connect
from proxystage.world import World, eventually, told

SMUGGLED = [
    b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi!",
    b"X: a\rb\r\n\r\n",
    b"X: a\nY: b\r\n\r\n",
    b"X: a\r\n b\r\n\r\n",
    b"X: a\x00b\r\n\r\n",
    b"X : a\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\nzz\r\nhi\r\n0\r\n\r\n",
    b"X: " + b"y" * 300_000 + b"\r\n\r\n",
]
"""Behind a head that names an owner: both lengths, two lengths, bare CR and LF, a fold, NUL, a bad size, an oversized
head."""


async def test_what_has_two_readings_is_nobodys_exchange(world: World) -> None:
    """Its rollout has not failed, nothing is unattributed, and no server has heard of it."""
    statuses = []

    async def play(call: Caller) -> object:
        begin = f"POST /v1/responses HTTP/1.1\r\nHost: a\r\nRollcall-Owner: {call.owner}\r\n".encode()
        for rest in SMUGGLED:
            async with asyncio.timeout(10):
                statuses.append((await asked(world.listeners["model"], begin + rest))[9:12])
        return RESULT

    player = await world.plays(play)
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, None)
    assert statuses == [b"400"] * len(SMUGGLED)
    assert await world.tags() == []
    assert (await world.status())["unattributed"] == 0
    assert player.paths() == ["/run"]


@pytest.mark.parametrize(
    "bad", [b"zz\r\n", b"2\nhi\r\n", b"2\r\nhi!\r\n", b"0\r\nX: y\n\r\n", b"0\r\nContent-Length: 5\r\n\r\n"]
)
async def test_a_body_that_turns_bad_on_its_way_is_refused_and_ends_the_servers_part(world: World, bad: bytes) -> None:
    """Its beginning has been passed on: that is recorded as cancelled, which decides nothing."""
    arrived, seen = asyncio.Event(), bytearray()

    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"begun\r\n")
        arrived.set()
        seen.extend(await peer.until_lost())

    async def play(call: Caller) -> object:
        caller = await connect(world.listeners["raw"])
        head = f"POST /v1/responses HTTP/1.1\r\nHost: a\r\nRollcall-Owner: {call.owner}\r\n".encode()
        await caller.say(head + b"Transfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n")
        await arrived.wait()
        await caller.say(bad)
        async with asyncio.timeout(10):
            assert (await caller.until_lost()).startswith(b"HTTP/1.1 400 ")
        await eventually(world.tags)
        return RESULT

    await world.stands_at((await world.serves_raw(script)).url, name="raw")
    await world.plays(play)
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, None)
    assert b"0\r\n\r\n" not in seen
    assert [tag["what"] for tag in await world.tags()] == ["cancelled"]
    assert await world.totals() == {"expected": 1, "succeeded": 1}
