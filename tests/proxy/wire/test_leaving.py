"""What happens when a side leaves: the other one is told at once, and nothing stays behind."""

import asyncio
import gc
import select
import weakref
from collections.abc import Iterator

import pytest
from rollcall_proxy.wire import AnswerHead, Consumer, FailedError, Outcome, RequestHead
from rollcall_proxy.wire.passage import Step
from wirestage.cases import ASKED, CHUNKED, END, GET, HI, LENGTH_2, OK, POST
from wirestage.raw import Peer, closes, eof, pause, resets, stops_reading, until
from wirestage.through import Wire


class Noting(Consumer):
    """Notes how its exchanges ended."""

    __slots__ = ()
    ends: list[Outcome]

    def on_end(self, outcome: Outcome) -> None:
        self.ends.append(outcome)
        super().on_end(outcome)


@pytest.fixture
def ends(wire: Wire) -> list[Outcome]:
    """How the exchanges of the test end."""
    found: list[Outcome] = []

    class Here(Noting):
        ends = found

    wire.consumer = Here
    return found


@pytest.fixture
def no_gc() -> Iterator[None]:
    """What is freed is freed by its last reference, and not by the collector of cycles."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("leaves", [closes, resets, eof])
@pytest.mark.parametrize(
    "phase",
    [
        (GET + END,),
        (POST + b"Content-Length: 9\r\n" + END + b"half",),
        (POST + CHUNKED + END + b"4\r\nhalf\r\n",),
        (GET + END + GET + END,),
    ],
    ids=["asked", "within a length", "within chunks", "one more is waiting"],
)
async def test_a_caller_that_leaves_ends_the_servers_part(wire: Wire, ends: list[Outcome], phase, leaves) -> None:
    caller = await wire.caller(*phase)
    server = await wire.server.peer()
    await server.until(lambda: len(server.seen) > 20)
    await caller.follow((leaves,))
    await server.until(lambda: False, patience=1)
    assert [outcome.word for outcome in ends] == ["left"]
    assert await wire.left_over() == (0, 0)


@pytest.mark.parametrize("leaves", [closes, resets])
async def test_a_caller_that_leaves_within_the_answer_ends_the_servers_part(
    wire: Wire, ends: list[Outcome], leaves
) -> None:
    wire.plays((ASKED, OK + CHUNKED + END + b"4\r\nhalf\r\n"))
    caller = await wire.caller(GET + END, until(b"half"), leaves)
    server = await wire.server.peer()
    await server.until(lambda: False, patience=1)
    assert (server.end, caller.end) != ("open", "reset")
    assert [outcome.word for outcome in ends] == ["left"]


@pytest.mark.parametrize(
    ("size", "leaves"),
    [(1_000_000, closes), (1_000_000, resets), (90_000_000, resets)],
    ids=["all is sent, closes", "all is sent, resets", "it is made to wait, resets"],
)
@pytest.mark.parametrize("framing", [b"Content-Length: 900000000\r\n", CHUNKED], ids=["length", "chunked"])
async def test_a_server_that_reads_nothing_is_told_that_its_caller_has_left(
    wire: Wire, ends: list[Outcome], size: int, leaves, framing: bytes
) -> None:
    """At once, not behind the megabytes that the system keeps for it; and what ends there is no request."""
    wire.plays((ASKED, stops_reading))
    caller = await wire.caller(POST + framing + END, b"%x\r\n" % 900_000_000 if framing is CHUNKED else b"")
    server = await wire.server.peer()
    await server.until(lambda: END + END in server.seen)
    sending = asyncio.ensure_future(caller.follow((size * b"x",)))
    assert await wire.soon(sending.done if size < 9_000_000 else lambda: wire.engine.unread)
    sending.cancel()
    await caller.follow((leaves,))
    assert await wire.soon(lambda: has_been_reset(server))
    assert await wire.left_over() == (0, 0)
    assert [outcome.word for outcome in ends] == ["left"]


def has_been_reset(peer: Peer) -> bool:
    """Whether a peer that reads nothing has been told that its connection is broken off."""
    looking = select.poll()
    looking.register(peer.writer.get_extra_info("socket").fileno(), 0)
    return any(seen & select.POLLERR for _, seen in looking.poll(0))


async def test_a_consumer_that_keeps_gets_the_whole_answer(wire: Wire) -> None:
    pieces: list[bytes] = []
    ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    class Keeping(Consumer):
        keeps = True

        def on_answer_piece(self, piece: bytes) -> Step:
            pieces.append(piece)
            return "pass"

        def on_end(self, outcome: Outcome) -> None:
            ended.set_result(outcome)

    wire.consumer = Keeping
    wire.plays((ASKED, pause(0.05), HI))
    await wire.caller(GET + END, pause(), closes)
    assert (await asyncio.wait_for(ended, 2)).word == "whole"
    assert pieces == [b"hi"]
    assert await wire.left_over() == (0, 0)


@pytest.mark.parametrize(
    ("script", "word"),
    [
        ((ASKED, closes), "dropped"),
        ((ASKED, resets), "dropped"),
        ((ASKED, OK[:9], closes), "dropped"),
        ((ASKED, OK + LENGTH_2 + END + b"h", pause(), closes), "cut"),
        ((ASKED, OK + CHUNKED + END + b"1\r\nh\r\n", pause(), resets), "cut"),
        ((ASKED, OK + END + b"h", pause(), resets), "cut"),
        ((ASKED, OK + CHUNKED + END, pause(), b"zz\r\n"), "no_http"),
        ((ASKED, HI), "whole"),
    ],
)
async def test_how_the_servers_part_ended_has_a_word(wire: Wire, ends: list[Outcome], script, word: str) -> None:
    wire.plays(script)
    await wire.caller(GET + END)
    assert await wire.soon(lambda: ends)
    assert [outcome.word for outcome in ends] == [word]
    assert ends[0].sent


async def test_a_server_that_refuses_got_nothing(wire: Wire, ends: list[Outcome]) -> None:
    wire.address = wire.address._replace(port=1)
    caller = await wire.caller(POST + LENGTH_2 + END + b"hi")
    await caller.until(lambda: b"\r\n\r\n" in caller.seen)
    assert caller.seen.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
    assert (ends[0].word, ends[0].sent) == ("unreachable", False)


async def test_a_host_without_an_address_is_unreachable(wire: Wire, ends: list[Outcome]) -> None:
    wire.address = wire.address._replace(host="nobody.invalid")
    caller = await wire.caller(GET + END)
    await caller.until(lambda: b"\r\n\r\n" in caller.seen)
    assert ends[0].word == "unreachable"


async def test_an_answer_after_the_callers_leaving_is_for_nobody(wire: Wire) -> None:
    wire.handler = lambda exchange: None
    await wire.caller(GET + END, pause(), closes)
    await wire.left_over()
    exchange = wire.exchanges[0]
    exchange.answer(200, [], b"hi")
    exchange.cut()
    assert exchange.left
    with pytest.raises(ConnectionResetError):
        await exchange.read_body(1)


async def test_a_request_is_not_passed_on_for_a_caller_that_has_left(wire: Wire, ends: list[Outcome]) -> None:
    wire.handler = lambda exchange: None
    await wire.caller(GET + END, pause(), closes)
    await wire.left_over()
    wire.pass_on(wire.exchanges[0])
    assert [outcome.word for outcome in ends] == ["left"]
    assert wire.server.seen == b""


async def test_on_left_tells_who_answers_by_a_coroutine(wire: Wire) -> None:
    left = asyncio.Event()
    wire.handler = lambda exchange: setattr(exchange, "on_left", left.set)
    await wire.caller(GET + END, pause(), closes)
    await asyncio.wait_for(left.wait(), 1)


@pytest.mark.parametrize(
    "script",
    [(ASKED, HI), (ASKED, OK + CHUNKED + END + b"1\r\nx\r\n0\r\n\r\n"), (ASKED, closes), (ASKED, OK + END, closes)],
    ids=["length", "chunks", "dropped", "closed"],
)
async def test_an_exchange_that_is_over_leaves_no_memory_behind(wire: Wire, no_gc: None, script) -> None:
    wire.plays(script)
    caller = await wire.caller(POST + CHUNKED + END + b"2\r\nhi\r\n0\r\n\r\n")
    await caller.until(lambda: len(caller.seen) > 20)
    gone = weakref.ref(wire.exchanges.pop())
    assert await wire.soon(lambda: gone() is None)
    await caller.close()
    assert await wire.left_over() == (0, 0)


async def test_a_passage_is_told_once(wire: Wire) -> None:
    """A consumer that answers later, and whose caller leaves meanwhile, hears of the first end alone."""
    heard: list[str] = []

    class Later(Consumer):
        def on_answer_head(self, head: AnswerHead) -> AnswerHead:
            return head

        def on_end(self, outcome: Outcome) -> None:
            heard.append(outcome.word)

    wire.consumer = Later
    wire.plays((ASKED, closes))
    await wire.caller(GET + END, pause(0.05), closes)
    assert await wire.left_over() == (0, 0)
    assert heard == ["dropped"]


async def test_closing_the_engine_waits_for_what_is_in_flight(wire: Wire) -> None:
    wire.plays((ASKED, pause(0.05), HI))
    caller = await wire.caller(GET + END, pause())
    idle = await wire.caller()
    await wire.engine.close(grace=2)
    await caller.until(lambda: False)
    await idle.until(lambda: False)
    assert caller.seen == OK + LENGTH_2 + b"Connection: close\r\n" + END + b"hi"


async def test_closing_the_engine_is_no_end_of_an_answer(wire: Wire) -> None:
    """Where only the connection's end ends an answer, ours must not look like the server's."""
    wire.plays(*2 * [(ASKED, OK + END + b"half")])
    caller = await wire.caller(GET + END, until(b"half"))
    answer = await wire.engine.send(wire.address, RequestHead(b"GET", b"/", [(b"Host", b"x")]))
    await wire.engine.close(grace=0.01)
    with pytest.raises(FailedError):
        await answer.read()
    await caller.until(lambda: False)
    assert caller.end == "reset"


async def test_closing_the_engine_ends_what_lasts_too_long(wire: Wire, ends: list[Outcome]) -> None:
    caller = await wire.caller(GET + END, pause())
    await wire.engine.close(grace=0.01)
    await caller.until(lambda: False)
    assert await wire.left_over() == (0, 0)
    assert caller.seen == b""
