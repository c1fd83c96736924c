"""A connection that another engine takes over, with what has been read of it: nobody outside can tell."""

import asyncio
import socket

import pytest
from rollcall_proxy.wire import Engine, Exchange
from wirestage.cases import CHUNKED, END, GET, HI, LENGTH_2, PASSES, POST, Case
from wirestage.raw import pause
from wirestage.through import SETTINGS, Wire

LARGE = b"Content-Length: 300000\r\n" + END + 300_000 * b"x"
SECOND = GET.replace(b"/ ", b"/second ") + END


class Moving(Wire):
    """A wire with two engines: each connection goes to the other one with its first exchange, and is served there."""

    async def __aenter__(self) -> "Moving":
        await super().__aenter__()
        self.other = Engine(SETTINGS)
        self.stack.push_async_callback(self.other.close, 0)
        self.handler, self.gone = self.moves, 0
        return self

    def moves(self, exchange: Exchange) -> None:
        exchange.hand_over(self.taken)

    def taken(self, connection: socket.socket, received: bytes) -> None:
        self.other.adopt(connection, self.pass_on, received, self.goes)

    def goes(self) -> None:
        self.gone += 1


@pytest.fixture
async def wire():
    async with Moving() as started:
        yield started


@pytest.mark.parametrize("case", PASSES, ids=[case.name for case in PASSES])
async def test_each_side_sees_what_it_must(wire: Moving, case: Case) -> None:
    """Every conformance case, by way of two engines."""
    wire.plays(case.server)
    caller = await wire.caller(*case.caller)
    wanted = case.by_engine
    await caller.settled(len(wanted.caller), case.end)
    await (await wire.server.peer()).until(lambda: len(wire.server.seen) >= len(wanted.server))
    assert (wire.server.seen, bytes(caller.seen), caller.end) == (wanted.server, wanted.caller, case.end)


async def test_the_engine_that_gives_a_connection_away_keeps_nothing_of_it(wire: Moving) -> None:
    wire.plays((pause(), HI))
    caller = await wire.caller(GET + END)
    await caller.until(lambda: caller.seen == HI)
    assert (wire.engine.callers, wire.engine.unread, len(wire.other.callers)) == (set(), set(), 1)
    await caller.close()
    assert await wire.soon(lambda: wire.gone == 1)


@pytest.mark.parametrize(
    "body",
    [
        LENGTH_2 + END + b"hi",
        CHUNKED + END + b"2\r\nhi\r\n0\r\n\r\n",
        b"Content-Length: 300000\r\n" + END + 300_000 * b"x",
    ],
    ids=["length", "chunks", "large"],
)
async def test_a_request_that_is_read_in_any_pieces_arrives_whole(wire: Moving, body: bytes) -> None:
    request = POST + body
    cuts = [1, len(POST) - 1, len(POST), len(POST) + 30, len(request) - 1]
    pieces = [request[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(request)], strict=True)]
    caller = await wire.caller(*[step for piece in pieces for step in (piece, pause())])
    await (await wire.server.peer()).until(lambda: len(wire.server.seen) >= len(request))
    assert wire.server.seen == request
    assert caller.end == "open"


async def test_what_was_written_before_is_sent_before_the_connection_moves(wire: Moving) -> None:
    """A caller that is slow to read: a large answer of the first engine, then the request that is another one's."""
    body = 4 * 2**20 * b"y"

    def first_here(exchange: Exchange) -> None:
        if exchange.head.target == b"/second":
            wire.moves(exchange)
        else:
            exchange.answer(200, [], body)

    wire.handler = first_here
    wire.plays((pause(), HI))
    caller = await wire.caller(GET + END + SECOND)
    await caller.until(lambda: caller.seen.endswith(HI))
    head, _, rest = bytes(caller.seen).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert rest == body + HI


async def test_a_caller_that_leaves_before_its_connection_can_move_leaves_nothing(wire: Moving) -> None:
    def first_here(exchange: Exchange) -> None:
        if exchange.head.target == b"/second":
            wire.moves(exchange)
        else:
            exchange.answer(200, [], 64 * 2**20 * b"y")

    wire.handler = first_here
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", wire.port, limit=1)
        writer.write(GET + END + SECOND)
        await reader.read(1)
        writer.transport.abort()
        assert await wire.soon(lambda: not wire.engine.callers)
    assert (wire.gone, wire.server.seen) == (0, b"")


async def test_a_connection_whose_caller_has_left_is_gone_from_the_engine_that_gets_it(wire: Moving) -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    theirs.setblocking(False)
    wire.taken(theirs, b"")
    assert await wire.soon(lambda: wire.gone == 1)
