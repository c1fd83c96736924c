"""A failed answer that cannot be read has failed all the same: its status is known without reading."""

import gzip
from typing import Any

import pytest
from proxystage.fakes import RESULT, Caller
from proxystage.raw import Peer, asked, post
from proxystage.world import Stage, World, cause, eventually, told


def nested(times: int) -> bytes:
    """A 500 whose body is gzipped so many times, and says so."""
    body = b"boom"
    for _ in range(times):
        body = gzip.compress(body, 0)
    coding = b", ".join([b"gzip"] * times)
    return b"HTTP/1.1 500 No\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n" % (coding, len(body)) + body


DEEP = nested(1200)


async def deep(peer: Peer) -> None:
    await peer.request()
    await peer.say(DEEP)


async def unattributed(world: World) -> Any:
    return (await world.status())["unattributed"]


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_run_that_fails_in_1200_codings_fails(stage: Stage, workers: int) -> None:
    """It is answered with its failure row, which has no excerpt."""
    world = await stage(workers=workers)
    await world.stands_at((await world.serves_raw(deep)).url, "agent", "agent")
    await world.expects(("agent", 0, 0))
    answer = await world.run()
    assert told(answer) == (200, "verdict")
    assert cause(answer.value) == ("agent", "run", "http_status", 500)
    assert await world.totals() == {"expected": 1, "failed": 1}


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_call_that_fails_in_1200_codings_is_tagged(stage: Stage, workers: int) -> None:
    """With the status, though its agent goes on; the answer passes as it came."""
    world = await stage(workers=workers)
    said = []

    async def play(call: Caller) -> object:
        said.append(await asked(world.listeners["deep"], post("/v1/responses", b"{}", f"Rollcall-Owner: {call.owner}")))
        return RESULT

    await world.stands_at((await world.serves_raw(deep)).url, "model", "deep")
    await world.plays(play)
    await world.expects(("agent", 0, 0))
    answer = await world.run()
    assert cause(answer.value) == ("deep", "model", "http_status", 500)
    assert said[0].replace(b"Connection: close\r\n", b"") == DEEP


async def test_a_call_of_nobodys_that_fails_in_1200_codings_is_unattributed(world: World) -> None:
    """It may concern any rollout."""
    await world.stands_at((await world.serves_raw(deep)).url)
    await world.expects(("agent", 0, 0))
    await asked(world.listeners["model"], post("/v1/responses"))
    assert await eventually(lambda: unattributed(world)) == 1


@pytest.mark.parametrize(("times", "excerpt"), [(8, "boom"), (9, "")])
async def test_eight_codings_are_taken_away_and_no_more(world: World, times: int, excerpt: str) -> None:
    """What is compressed in a way that nobody reads makes no excerpt."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(nested(times))

    await world.stands_at((await world.serves_raw(script)).url, "agent", "agent")
    await world.expects(("agent", 0, 0))
    assert (await world.run()).value["_rollcall"]["root_cause"]["excerpt"] == excerpt
