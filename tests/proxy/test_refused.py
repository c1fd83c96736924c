"""What is no HTTP with one reading is answered 400 before anybody is asked whose it is."""

import asyncio

from proxystage.fakes import RESULT, Caller
from proxystage.raw import asked
from proxystage.world import World, told

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
    assert statuses == [b"400"] * (len(SMUGGLED) - 1) + [b"431"]
    assert await world.tags() == []
    assert (await world.status())["unattributed"] == 0
    assert player.paths() == ["/run"]
