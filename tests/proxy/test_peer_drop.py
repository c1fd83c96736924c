"""A server that goes away: a 502 before its answer's head; in the middle, a cut-off that no caller can mistake."""

import pytest
from proxystage.fakes import RESULT, Caller
from proxystage.raw import Peer, Script, asked, connect, post
from proxystage.world import World, cause, told

HALF = b'{"reward": '
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n" + HALF + b"\r\n"
SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + HALF
UNSIZED = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + HALF
FAILED = b"HTTP/1.1 500 Internal Server Error\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n" + HALF + b"\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def breaking(said: bytes, reset: bool) -> Script:
    """A server that says this much of an answer, and ends the connection by a reset or a close."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(said)
        if reset:
            peer.reset()

    return script


@pytest.mark.parametrize("reset", [False, True])
async def test_a_server_that_goes_before_its_answer_is_answered_for_with_502(world: World, reset: bool) -> None:
    """Closed or reset without a byte: the answer says that the request may have been delivered."""
    server = await world.serves_raw(breaking(b"", reset))
    await world.stands_at(server.url)
    answer = await world.post("model", "/v1/responses", {}, session=None)
    assert told(answer) == (502, "peer_drop")
    assert "delivered" in answer.value["detail"]
    assert server.connections == 1, "a POST is never sent again by Rollcall"


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_a_request_is_never_sent_again_by_rollcall(world: World, method: str) -> None:
    """A kept connection dies under a second request: its caller is told, and decides."""
    requests = []

    async def script(peer: Peer) -> None:
        requests.append(await peer.head())
        await peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        requests.append(await peer.head())

    await world.stands_at((await world.serves_raw(script)).url)
    first = await world.ask(method, world.listeners["model"] + "/v1/models")
    second = await world.ask(method, world.listeners["model"] + "/v1/models")
    assert [told(first), told(second), len(requests)] == [(200, None), (502, "peer_drop"), 2]


@pytest.mark.parametrize("said", [CHUNKED, SIZED, UNSIZED, FAILED], ids=["chunked", "sized", "unsized", "failed"])
async def test_an_answer_cut_in_the_middle_is_cut_for_the_caller(world: World, said: bytes) -> None:
    """What came is passed on, nothing is appended, and the end is not a clean one."""
    await world.stands_at((await world.serves_raw(breaking(said, reset=True))).url)
    got = await asked(world.listeners["model"], post("/v1/responses"))
    head, _, body = got.partition(b"\r\n\r\n")
    assert body in (HALF, b"b\r\n" + HALF + b"\r\n"), "nothing lost, nothing appended"
    assert b"transfer-encoding: chunked" in head.lower() or b"content-length: 100" in head.lower()


@pytest.mark.parametrize("said", [CHUNKED, SIZED, UNSIZED], ids=["chunked", "sized", "unsized"])
async def test_a_caller_of_http_1_0_sees_a_reset(world: World, said: bytes) -> None:
    """Without a length and without chunks only a reset tells that the answer is not whole."""
    await world.stands_at((await world.serves_raw(breaking(said, reset=True))).url)
    peer = await connect(world.listeners["model"])
    await peer.say(post("/v1/responses", version="1.0"))
    with pytest.raises(ConnectionResetError):
        await peer.until_eof()
    peer.close()


@pytest.mark.parametrize("said", [CHUNKED, SIZED, UNSIZED, FAILED], ids=["chunked", "sized", "unsized", "failed"])
async def test_a_cut_answer_is_tagged_and_fails_its_rollout(world: World, said: bytes) -> None:
    """The agent swallows the broken connection: the root cause is the server that went away."""

    async def play(call: Caller) -> object:
        with pytest.raises(OSError):
            await call("cut", "/v1/responses")
        return RESULT

    await world.stands_at((await world.serves_raw(breaking(said, reset=True))).url, name="cut")
    await world.plays(play)
    await world.expects(("agent", 0, 0))
    status = 500 if said == FAILED else 200
    assert cause((await world.run()).value) == ("cut", "model", "peer_drop", status)


@pytest.mark.parametrize("said", [CHUNKED, SIZED, UNSIZED], ids=["chunked", "sized", "unsized"])
async def test_an_outermost_run_that_is_cut_leaves_a_failure_row(world: World, said: bytes) -> None:
    """However the cut looks, half a result is none."""
    await world.stands_at((await world.serves_raw(breaking(said, reset=False))).url, "agent", "agent")
    await world.expects(("agent", 0, 0))
    row = (await world.run()).value
    what = "invalid_result" if said == UNSIZED else "peer_drop"
    assert cause(row) == ("agent", "run", what, 200)


async def test_a_cut_stream_passes_each_piece_that_came(world: World) -> None:
    """Two events arrive at the caller before the server is gone; no last chunk follows."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for event in (b"data: 1\n\n", b"data: 2\n\n"):
            await peer.say(b"9\r\n" + event + b"\r\n")
        peer.reset()

    await world.stands_at((await world.serves_raw(script)).url)
    got = await asked(world.listeners["model"], post("/v1/responses"))
    assert got.count(b"data: ") == 2
    assert not got.endswith(LAST_CHUNK)


@pytest.mark.parametrize("said", [b"HTTP/1.1 500 No\r\n", b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"])
async def test_a_server_that_fails_may_close_without_having_said_so_and_is_not_met_closing(
    world: World, said: bytes
) -> None:
    """As uvicorn does where an app has raised, be it behind a good status: the next call has its own connection."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.say(said + b"Content-Length: 9\r\n\r\ndata: {}\n")

    server = await world.serves_raw(script)
    await world.stands_at(server.url)
    for _ in range(3):
        assert (await asked(world.listeners["model"], post("/v1/responses"))).startswith(said[:12])
    assert server.connections == 3
