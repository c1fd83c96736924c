"""Bodies pass as they are and as they come: encoded, large, streamed, announced."""

import asyncio
import gzip
import hashlib
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from proxystage.fakes import RESULT, FakeServer, Said
from proxystage.raw import Peer, connect, post
from proxystage.world import World, told

LARGE = hashlib.sha256(b"rollcall").digest() * 100_000


@pytest.fixture
async def echo(world: World) -> World:
    """A model server that sends back what it was sent."""

    async def back(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    await world.registers(model=FakeServer("model", {"/v1/echo": back}))
    return world


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_of_3_mb_passes_both_ways(echo: World, chunked: bool) -> None:
    """By length and by chunks; no limit of Rollcall's own."""

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(LARGE), 70_000):
            yield LARGE[at : at + 70_000]

    url, data = echo.listeners["model"] + "/v1/echo", pieces() if chunked else LARGE
    async with echo.http.post(url, data=data) as answer:
        assert (answer.status, await answer.read() == LARGE) == (200, True)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "gzip, gzip"])
async def test_a_coded_answer_is_not_decoded(world: World, coding: str) -> None:
    """Its bytes and its field are the server's, whether Rollcall could read them or not."""
    body = gzip.compress(b"{}")
    said = b"HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n" % (coding.encode(), len(body))

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(said + body)

    await world.stands_at((await world.serves_raw(script)).url)
    caller = await connect(world.listeners["model"])
    await caller.say(post("/v1/x"))
    got = await caller.until_lost()
    assert (got.endswith(b"\r\n\r\n" + body), b"Content-Encoding: " + coding.encode() in got) == (True, True)
    caller.close()


@pytest.mark.parametrize("path", ["/v1/responses", "/run"])
async def test_a_coded_request_is_not_decoded(world: World, path: str) -> None:
    """The server gets the bytes that its Content-Encoding and Content-Length speak of."""
    requests, body = [], gzip.compress(b'{"_ng_task_index": 0}' * 50)

    async def script(peer: Peer) -> None:
        requests.append(await peer.request())
        await peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    await world.stands_at((await world.serves_raw(script)).url, "agent", "agent")
    caller = await connect(world.listeners["agent"])
    await caller.say(post(path, body, "Content-Encoding: gzip"))
    assert (await caller.until_lost()).endswith(b"{}")
    assert requests[0].endswith(b"\r\n\r\n" + body)
    caller.close()


async def test_a_coded_run_answer_is_read_as_a_copy_and_passes_untouched(world: World) -> None:
    """A gzipped result succeeds, a gzipped answer without a reward fails."""
    answers = [
        Said(body=gzip.compress(body), fields={"Content-Encoding": "gzip"}) for body in (b'{"reward": 1}', b"{}")
    ]
    await world.registers(agent=FakeServer("agent", {"/run": answers}))
    await world.expects(("agent", 0, 0), ("agent", 1, 0))
    assert [told(await world.run(task)) for task in (0, 1)] == [(200, None), (200, "verdict")]


async def test_a_streamed_answers_first_piece_arrives_before_its_second_is_sent(world: World) -> None:
    """Nothing is buffered: the server sends its second event only once the caller has the first."""
    first_seen = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n")
        await first_seen.wait()
        await peer.say(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")

    await world.stands_at((await world.serves_raw(script)).url)
    caller = await connect(world.listeners["model"])
    await caller.say(post("/v1/responses"))
    await caller.reader.readuntil(b"data: 1\n\n")
    first_seen.set()
    assert (await caller.until_lost()).endswith(b"data: 2\n\n\r\n0\r\n\r\n")
    caller.close()


async def test_an_answers_head_arrives_before_its_body_is_sent(world: World) -> None:
    """A stream that takes its time to begin shows its status and fields at once."""
    head_seen = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
        await head_seen.wait()
        await peer.say(b"{}")

    await world.stands_at((await world.serves_raw(script)).url)
    caller = await connect(world.listeners["model"])
    await caller.say(post("/v1/responses"))
    await caller.head()
    head_seen.set()
    assert await caller.until_lost() == b"{}"
    caller.close()


async def test_a_streamed_requests_first_piece_arrives_before_its_second_is_sent(world: World) -> None:
    """Requests are passed on as they come, too."""
    arrived = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"first")
        arrived.set()
        await peer.reader.readuntil(b"second")
        await peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    await world.stands_at((await world.serves_raw(script)).url)
    caller = await connect(world.listeners["model"])
    await caller.say(post("/v1/responses", b"firstsecond").removesuffix(b"second"))
    await arrived.wait()
    await caller.say(b"second")
    assert (await caller.until_lost()).endswith(b"{}")
    caller.close()


@pytest.mark.parametrize("interim", [b"", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_rollcall_tells_a_caller_to_continue(world: World, interim: bytes) -> None:
    """Expect: 100-continue is answered here and not passed on; a server's own 100 is no result."""
    requests = []

    async def script(peer: Peer) -> None:
        requests.append(await peer.request())
        await peer.say(interim + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    await world.stands_at((await world.serves_raw(script)).url)
    caller = await connect(world.listeners["model"])
    await caller.say(post("/v1/x", b"wait", "Expect: 100-continue").removesuffix(b"wait"))
    assert await caller.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
    await caller.say(b"wait")
    assert (await caller.until_lost()).startswith(b"HTTP/1.1 200 OK")
    assert (b"xpect" in requests[0], requests[0][-4:]) == (False, b"wait")
    caller.close()


async def test_an_early_refusal_reaches_a_caller_that_is_still_sending(world: World) -> None:
    """A server that answers 413 without reading: the caller has the answer before it has sent its body."""

    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.say(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}")

    await world.stands_at((await world.serves_raw(script)).url)
    caller = await connect(world.listeners["model"])
    await caller.say(post("/v1/x", b"y" * 1000)[:-1])
    assert (await caller.head()).startswith(b"HTTP/1.1 413 Too Large")
    caller.close()


async def test_a_body_that_has_to_be_read_is_asked_for_first(world: World) -> None:
    """`Expect: 100-continue` on an outermost /run, whose body says which rollout it is."""
    await world.registers(agent=FakeServer("agent", {"/run": Said(RESULT)}))
    body = b'{"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "agent"}}'
    peer = await connect(world.listeners["agent"])
    head = b"POST /run HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    await peer.say(head % len(body))
    assert (await peer.head()).startswith(b"HTTP/1.1 100")
    await peer.say(body)
    assert (await peer.until_eof()).startswith(b"HTTP/1.1 200")
