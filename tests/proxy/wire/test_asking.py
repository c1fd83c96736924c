"""Coroutines that read a request, ask a server on their own, and answer."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from rollcall_proxy.wire import Answer, BodyTooLargeError, Exchange, FailedError, Limits, RequestHead
from rollcall_proxy.wire.server import ServerConnection
from wirestage.cases import ASKED, CHUNKED, END, GET, HI, LENGTH_2, OK, POST
from wirestage.raw import closes, pause, until
from wirestage.through import Wire

ASK = RequestHead(b"GET", b"/", [(b"Host", b"server")])


def handles(wire: Wire, coroutine: Callable[[Exchange], Awaitable[None]]) -> list[asyncio.Task[None]]:
    """Have each exchange handled by a coroutine."""
    tasks: list[asyncio.Task[None]] = []
    wire.handler = lambda exchange: tasks.append(asyncio.ensure_future(coroutine(exchange)))
    return tasks


async def test_a_body_is_read_whole(wire: Wire) -> None:
    async def echo(exchange: Exchange) -> None:
        exchange.answer(200, [], await exchange.read_body(100))

    handles(wire, echo)
    caller = await wire.caller(POST + CHUNKED + END + b"2\r\nhi\r\n", pause(), b"1\r\n!\r\n0\r\n\r\n", until(b"hi!"))
    assert caller.end == "open"


async def test_reading_a_body_sends_100_to_a_caller_that_waits_for_it(wire: Wire) -> None:
    async def echo(exchange: Exchange) -> None:
        await asyncio.sleep(0.03)
        assert b"100" not in caller.seen
        exchange.answer(200, [], await exchange.read_body(100))

    tasks = handles(wire, echo)
    caller = await wire.caller()
    await caller.follow(
        (POST + b"Expect: 100-Continue\r\n" + LENGTH_2 + END, until(b"100"), b"hi", until(b"\r\n\r\nhi"))
    )
    await tasks[0]


async def test_a_body_beyond_the_limit_can_still_be_passed_on(wire: Wire) -> None:
    async def reads(exchange: Exchange) -> None:
        with pytest.raises(BodyTooLargeError):
            await exchange.read_body(3)
        wire.pass_on(exchange)

    handles(wire, reads)
    wire.plays((until(b"hello"), HI))
    request = POST + b"Content-Length: 500005\r\n" + END + b"x" * 500_000 + b"hello"
    caller = await wire.caller(request, until(b"hi"))
    assert (caller.seen, wire.server.seen) == (HI, request)


async def test_a_body_that_has_been_read_can_be_passed_on(wire: Wire) -> None:
    async def reads(exchange: Exchange) -> None:
        assert await exchange.read_body(100) == b"hello"
        wire.pass_on(exchange)

    handles(wire, reads)
    wire.plays((until(b"hello"), HI))
    request = POST + b"Content-Length: 5\r\n" + END
    caller = await wire.caller(request, pause(), b"he", pause(), b"llo", until(b"hi"))
    assert (caller.seen, wire.server.seen) == (HI, request + b"hello")


async def test_who_reads_a_body_is_told_that_the_caller_has_left(wire: Wire) -> None:
    async def reads(exchange: Exchange) -> None:
        await exchange.read_body(100)

    tasks = handles(wire, reads)
    await wire.caller(POST + LENGTH_2 + END + b"h", pause(), closes)
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(tasks[0], 1)


async def test_a_request_of_ones_own_gets_its_answer(wire: Wire) -> None:
    wire.plays((ASKED, OK + CHUNKED + END + b"1\r\na\r\n", pause(), b"1\r\nb\r\n0\r\nX: y\r\n\r\n"))
    async with await wire.engine.send(wire.address, ASK) as answer:
        assert (answer.head.status, answer.framing) == (200, "chunked")
        assert [piece async for piece in answer.pieces()] == [b"a", b"b"]
    assert answer.trailers == [(b"X", b"y")]
    assert await wire.left_over() == (0, 0)


async def test_a_request_that_came_in_chunks_is_sent_on_with_its_length(wire: Wire) -> None:
    async def sends(exchange: Exchange) -> None:
        answer = await wire.engine.send(wire.address, exchange.head, await exchange.read_body(100))
        exchange.answer(answer.head.status, [], await answer.read())

    handles(wire, sends)
    wire.plays((until(b"hi"), HI))
    await wire.caller(POST + b"Trailer: X\r\n" + CHUNKED + END + b"2\r\nhi\r\n0\r\nX: y\r\n\r\n", until(b"\r\n\r\nhi"))
    assert wire.server.seen == POST + LENGTH_2 + END + b"hi"


@pytest.mark.parametrize(
    ("script", "word"),
    [
        ((ASKED, closes), "dropped"),
        ((ASKED, b"no\r\n\r\n"), "no_http"),
        ((), "timeout"),
        ((ASKED, OK + LENGTH_2 + END + b"h", pause(), closes), "cut"),
        ((ASKED, OK + b"Upgrade: x\r\n" + CHUNKED + END + b"zz\r\n"), "no_http"),
    ],
)
async def test_a_request_of_ones_own_fails_with_its_outcome(wire: Wire, script, word: str) -> None:
    wire.plays(script)
    with pytest.raises(FailedError) as failed:
        await (await wire.engine.send(wire.address, ASK, limits=Limits(first=0.05))).read()
    assert failed.value.outcome.word == word
    assert await wire.left_over() == (0, 0)


async def test_a_request_of_ones_own_to_nobody_is_unreachable(wire: Wire) -> None:
    with pytest.raises(FailedError) as failed:
        await wire.engine.send(wire.address._replace(port=1), ASK)
    assert (failed.value.outcome.word, failed.value.outcome.sent) == ("unreachable", False)


async def test_a_request_of_ones_own_does_not_meet_a_connection_that_was_closed(wire: Wire) -> None:
    wire.plays((ASKED, HI), (ASKED, HI))
    assert await (await wire.engine.send(wire.address, ASK)).read() == b"hi"
    wire.server.peers[0].writer.transport.abort()
    await asyncio.sleep(0)  # now it is closed, and the engine has not been told
    assert await (await wire.engine.send(wire.address, ASK)).read() == b"hi"
    assert [peer.seen for peer in wire.server.peers] == 2 * [GET + END]


async def test_a_connection_that_was_closed_before_it_is_used_the_first_time_drops_its_exchange(wire: Wire) -> None:
    """As a balancer closes what it has accepted and has no server for."""
    opened: asyncio.Future[ServerConnection] = wire.engine.loop.create_future()
    wire.plays((closes,))
    wire.engine.connect(wire.address, wire.limits, opened.set_result, opened.set_exception)
    connection, answer = await opened, Answer()
    assert await wire.soon(lambda: connection.transport.is_closing())
    await asyncio.sleep(0.01)  # the loop tells the connection that it is lost
    answer.sent_by(connection)
    connection.send(ASK, answer, wire.limits)
    with pytest.raises(FailedError) as failed:
        await asyncio.wait_for(answer.begun(), 2)
    assert failed.value.outcome.word == "dropped"
    assert await wire.left_over() == (0, 0)


async def test_an_answer_that_nobody_reads_makes_its_server_wait(wire: Wire) -> None:
    size = 30_000_000
    wire.plays((ASKED, OK + b"Content-Length: %d\r\n" % size + END, b"x" * size))
    answer = await wire.engine.send(wire.address, ASK)
    await asyncio.sleep(0.2)
    assert wire.server.peers[0].writer.transport.get_write_buffer_size() > size // 3
    assert len(await answer.read()) == size


@pytest.mark.parametrize("script", [(), (ASKED, OK + LENGTH_2 + END + b"h")], ids=["no head yet", "half a body"])
async def test_a_coroutine_that_is_cancelled_gives_its_server_up(wire: Wire, script) -> None:
    async def sends() -> None:
        async with await wire.engine.send(wire.address, ASK) as answer:
            await answer.read()

    wire.plays(script)
    task = asyncio.ensure_future(sends())
    server = await wire.server.peer()
    await server.until(lambda: server.seen != b"")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await server.until(lambda: False, patience=1)
    assert await wire.left_over() == (0, 0)


async def test_an_answer_is_given_piece_by_piece(wire: Wire) -> None:
    async def relays(exchange: Exchange) -> None:
        answer: Answer = await wire.engine.send(wire.address, exchange.head)
        exchange.begin(answer.head, answer.framing)
        async for piece in answer.pieces():
            exchange.piece(piece)
            await exchange.ready()
        exchange.end(answer.trailers)

    tasks = handles(wire, relays)
    answer = OK + b"Content-Length: 9000000\r\n" + END + b"x" * 9_000_000
    wire.plays((ASKED, answer))
    caller = await wire.caller(GET + END)
    await caller.until(lambda: len(caller.seen) == len(answer))
    await tasks[0]
    assert caller.seen == answer


async def test_who_writes_an_answer_is_told_that_the_caller_has_left(wire: Wire) -> None:
    async def writes(exchange: Exchange) -> None:
        exchange.begin(answer_head, "chunked")
        while True:
            exchange.piece(b"x" * 65536)
            await exchange.ready()
            await asyncio.sleep(0)

    wire.plays((ASKED, OK + CHUNKED + END + b"0\r\n\r\n"))
    answer_head = (await wire.engine.send(wire.address, ASK)).head
    tasks = handles(wire, writes)
    await wire.caller(GET + END, until(b"xxx"), closes)
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(tasks[0], 2)
