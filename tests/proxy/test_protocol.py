"""What HTTP/1.1 has beside a request and its answer: trailers, interim answers, other protocols, a body that waits."""

import asyncio

from proxystage.raw import Peer, asked, connect, post
from proxystage.world import World, told

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Sum: 1\r\n\r\n"
UPGRADE = b"GET /ws HTTP/1.1\r\nHost: gym\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"

HOPS = b"Upgrade: echo\r\nConnection: Upgrade"
"""What each hop says for itself comes last."""


async def test_trailers_pass_both_ways(world: World) -> None:
    """They follow the last chunk, and the body before them is whole."""
    seen = bytearray()

    async def script(peer: Peer) -> None:
        while not seen.endswith(b"X-Sum: 1\r\n\r\n"):
            seen.extend(await peer.reader.read(65536))
        await peer.say(b"HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\n" + CHUNKED)

    await world.stands_at((await world.serves_raw(script)).url)
    got = await asked(world.listeners["model"], b"POST /v1/x HTTP/1.1\r\nHost: gym\r\nConnection: close\r\n" + CHUNKED)
    assert got.endswith(CHUNKED.partition(b"\r\n")[2])
    assert b"2\r\n{}\r\n0\r\n" in seen


async def test_an_interim_answer_passes_before_the_final_one(world: World) -> None:
    """Early hints (RFC 8297) reach the caller, and are no answer to the call."""
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(hints + OK)

    await world.stands_at((await world.serves_raw(script)).url)
    got = await asked(world.listeners["model"], post("/v1/x"))
    assert got.startswith(hints + b"HTTP/1.1 200 OK\r\n")


async def test_a_caller_that_waits_for_100_is_told_to_go_on_once_the_server_is_there(world: World) -> None:
    """The server is not asked for it (RFC 9110 10.1.1)."""
    requests = []

    async def script(peer: Peer) -> None:
        requests.append(await peer.request())
        await peer.say(OK)

    await world.stands_at((await world.serves_raw(script)).url)
    caller = await connect(world.listeners["model"])
    await caller.say(post("/v1/x", b"{}", "Expect: 100-continue").removesuffix(b"{}"))
    assert await caller.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
    await caller.say(b"{}")
    assert (await caller.until_lost()).endswith(b"{}")
    assert b"xpect" not in requests[0]


async def test_an_upgrade_passes_bytes_both_ways_and_is_no_failure(world: World) -> None:
    """Status 101 is outside of 2xx and 3xx, and still what the caller wanted."""

    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.say(SWITCHED)
        await peer.say(await peer.reader.readexactly(4))

    await world.expects(("agent", 0, 0))
    await world.stands_at((await world.serves_raw(script)).url)
    caller = await connect(world.listeners["model"])
    await caller.say(UPGRADE + b"ping")
    async with asyncio.timeout(10):
        assert await caller.head() == SWITCHED.replace(b"Connection: Upgrade\r\nUpgrade: echo", HOPS)
        assert await caller.until_eof() == b"ping"
    caller.close()
    assert told(await world.post("model", "/v1/x", {}, session=None)) == (502, "peer_drop")
    assert (await world.status())["unattributed"] == 1, "the call that was answered 101 and had not asked for it"
