"""What a consumer sees of an exchange, and what it can do with it."""

import asyncio
from typing import ClassVar

import pytest
from rollcall_proxy.wire import AnswerHead, Consumer, Outcome, Passage
from rollcall_proxy.wire.passage import Step
from wirestage.cases import ASKED, CHUNKED, END, GET, HI, LENGTH_2, OK, POST
from wirestage.raw import closes, pause, until
from wirestage.through import Wire

FAILED = b"HTTP/1.1 500 No\r\n"


class Recorder(Consumer):
    """Writes down what it is told."""

    told: ClassVar[list[tuple[str, object]]]

    def on_request_piece(self, piece: bytes) -> None:
        self.told.append(("asked", piece))

    def on_request_end(self) -> None:
        self.told.append(("asked", "end"))

    def on_answer_head(self, head: AnswerHead) -> AnswerHead:
        self.told.append(("answered", head.status))
        return head

    def on_answer_piece(self, piece: bytes) -> Step:
        self.told.append(("answered", piece))
        return "pass"

    def on_end(self, outcome: Outcome) -> None:
        self.told.append(("ended", outcome.word))
        super().on_end(outcome)


async def test_a_consumer_sees_each_piece_and_the_end(wire: Wire) -> None:
    class Here(Recorder):
        told: ClassVar[list[tuple[str, object]]] = []

    wire.consumer = Here
    wire.plays((until(b"0\r\n\r\n"), OK + CHUNKED + END + b"1\r\na\r\n", pause(), b"1\r\nb\r\n0\r\n\r\n"))
    caller = await wire.caller(
        POST + CHUNKED + END + b"1\r\nx\r\n", pause(), b"1\r\ny\r\n0\r\n\r\n", until(b"0\r\n\r\n")
    )
    assert caller.end == "open"
    assert Here.told == [
        ("asked", b"x"),
        ("asked", b"y"),
        ("asked", "end"),
        ("answered", 200),
        ("answered", b"a"),
        ("answered", b"b"),
        ("ended", "whole"),
    ]


async def test_the_head_that_goes_to_the_caller_is_the_consumers(wire: Wire) -> None:
    class Marks(Consumer):
        def on_answer_head(self, head: AnswerHead) -> AnswerHead:
            return AnswerHead(head.status, head.reason, [*head.fields, (b"Set-Cookie", b"a=1")], head.minor, head.noted)

    wire.consumer = Marks
    wire.plays((ASKED, HI))
    caller = await wire.caller(GET + END)
    await caller.settled(1)
    assert caller.seen == OK + LENGTH_2 + b"Set-Cookie: a=1\r\n" + END + b"hi"


async def test_fields_and_target_may_be_replaced(wire: Wire) -> None:
    def handler(exchange) -> None:
        fields = [pair for pair in exchange.head.fields if pair[0] != b"Cookie"]
        exchange.pass_on(wire.address, fields=[*fields, (b"Rollcall-Owner", b"x")], target=b"/other")

    wire.handler = handler
    wire.plays((ASKED, HI))
    await (await wire.caller(GET + b"Cookie: a\r\nConnection: Y\r\nY: 1\r\n" + END)).settled(1)
    assert wire.server.seen == b"GET /other HTTP/1.1\r\nHost: server\r\nRollcall-Owner: x\r\n\r\n"


class HoldsTheLast(Consumer):
    """Holds the last piece of a failed answer, and its end, until it is told to go on."""

    going_on: ClassVar[list[Passage]]

    def on_answer_head(self, head: AnswerHead) -> AnswerHead:
        if (b"Content-Length", b"0") in head.fields:
            self.passage.hold()
        return head

    def on_answer_piece(self, piece: bytes) -> Step:
        self.passage.release()
        return "hold"

    def on_end(self, outcome: Outcome) -> None:
        self.going_on.append(self.passage)


async def test_the_last_piece_waits_for_its_release(wire: Wire) -> None:
    class Here(HoldsTheLast):
        going_on: ClassVar[list[Passage]] = []

    wire.consumer = Here
    wire.plays((ASKED, FAILED + CHUNKED + END + b"1\r\na\r\n", pause(), b"1\r\nb\r\n0\r\n\r\n"))
    caller = await wire.caller(GET + END)
    await caller.settled(len(FAILED + CHUNKED + END) + 6)
    assert caller.seen == FAILED + CHUNKED + END + b"1\r\na\r\n"
    Here.going_on[0].release()
    await caller.until(lambda: caller.seen.endswith(b"1\r\nb\r\n0\r\n\r\n"))


async def test_a_head_without_a_body_waits_as_well(wire: Wire) -> None:
    class Here(HoldsTheLast):
        going_on: ClassVar[list[Passage]] = []

    wire.consumer = Here
    wire.plays((ASKED, FAILED + b"Content-Length: 0\r\n" + END))
    caller = await wire.caller(GET + END, pause(0.05))
    assert caller.seen == b""
    Here.going_on[0].release()
    await caller.until(lambda: caller.seen == FAILED + b"Content-Length: 0\r\n" + END)


async def test_what_is_held_of_a_cut_answer_can_go_before_the_cut(wire: Wire) -> None:
    class Here(HoldsTheLast):
        going_on: ClassVar[list[Passage]] = []

    wire.consumer = Here
    wire.plays((ASKED, FAILED + b"Content-Length: 9\r\n" + END + b"half", closes))
    caller = await wire.caller(GET + END, pause(0.05))
    passage = Here.going_on[0]
    passage.release()
    passage.exchange.cut()
    await caller.until(lambda: False)
    assert (caller.seen[-4:], caller.end) == (b"half", "closed")


async def test_a_held_answer_does_not_keep_the_servers_connection(wire: Wire) -> None:
    """The connection goes to the next exchange; to end the first one must not touch it."""

    class Here(HoldsTheLast):
        going_on: ClassVar[list[Passage]] = []

    wire.consumer = Here
    wire.plays((ASKED, HI, pause(0.05), HI))
    first = await wire.caller(GET + END, pause(0.03))
    wire.consumer = None
    second = await wire.caller(POST + END)
    Here.going_on[0].exchange.cut()
    await first.until(lambda: False)
    await second.until(lambda: second.seen == HI)
    assert len(wire.server.peers) == 1


async def test_connecting_is_tried_again_as_long_as_the_consumer_says(wire: Wire) -> None:
    attempts: list[str] = []

    class Patient(Consumer):
        def on_unreachable(self, outcome: Outcome) -> float | None:
            attempts.append(outcome.word)
            return 0.01 if len(attempts) < 3 else None

    wire.consumer = Patient
    wire.address = wire.address._replace(port=1)
    caller = await wire.caller(GET + END)
    await caller.until(lambda: b"502" in caller.seen)
    assert attempts == 3 * ["unreachable"]


async def test_a_caller_that_leaves_between_two_attempts_ends_them(wire: Wire) -> None:
    class Patient(Consumer):
        def on_unreachable(self, outcome: Outcome) -> float | None:
            attempts.append(outcome.word)
            return 0.05

    attempts: list[str] = []
    wire.consumer = Patient
    wire.address = wire.address._replace(port=1)
    await wire.caller(GET + END, pause(), closes)
    assert await wire.left_over() == (0, 0)
    made = len(attempts)
    await asyncio.sleep(0.1)
    assert len(attempts) == made


async def test_what_a_server_did_not_take_can_still_be_read(wire: Wire) -> None:
    class Digesting(Recorder):
        told: ClassVar[list[tuple[str, object]]] = []

        def on_end(self, outcome: Outcome) -> None:
            self.passage.read_on()

        def on_request_end(self) -> None:
            super().on_request_end()
            self.passage.exchange.answer(502, [], b"no")

    wire.consumer = Digesting
    wire.address = wire.address._replace(port=1)
    caller = await wire.caller(POST + b"Content-Length: 4\r\n" + END + b"ab", pause(0.05), b"cd")
    await caller.until(lambda: caller.seen.endswith(b"no"))
    assert Digesting.told == [("asked", b"ab"), ("asked", b"cd"), ("asked", "end")]


async def test_a_local_answer_leaves_the_connection_for_the_next_request(wire: Wire) -> None:
    wire.handler = lambda exchange: exchange.answer(418, [(b"X", b"y")], b"tea", b"Teapot")
    caller = await wire.caller(2 * (POST + LENGTH_2 + END + b"hi"))
    teapot = b"HTTP/1.1 418 Teapot\r\nX: y\r\nContent-Length: 3\r\n\r\ntea"
    await caller.settled(2 * len(teapot))
    assert (caller.seen, caller.end) == (2 * teapot, "open")


async def test_a_local_answer_before_the_body_reads_and_drops_it(wire: Wire) -> None:
    wire.handler = lambda exchange: exchange.answer(404, [])
    caller = await wire.caller(POST + b"Content-Length: 400000\r\n" + END, until(b"404"), b"x" * 400_000, GET + END)
    await caller.until(lambda: caller.seen.count(b"HTTP/1.1 404") == 2)
    assert len(wire.exchanges) == 2


async def test_a_local_answer_to_a_caller_that_waits_for_100_ends_the_connection(wire: Wire) -> None:
    wire.handler = lambda exchange: exchange.answer(401, [])
    caller = await wire.caller(POST + b"Expect: 100-continue\r\n" + LENGTH_2 + END)
    await caller.until(lambda: False)
    assert caller.seen == b"HTTP/1.1 401 \r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("method", ["on_request_piece", "on_answer_head", "on_answer_piece"])
async def test_a_consumer_that_raises_ends_its_own_exchange_alone(wire: Wire, method: str) -> None:
    def raises(self: Consumer, value: object) -> None:
        raise ValueError(value)

    reported: list[object] = []
    wire.engine.loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
    wire.consumer = type("Raises", (Consumer,), {method: raises})
    wire.plays((until(b"hi"), HI), (ASKED, HI))
    caller = await wire.caller(POST + LENGTH_2 + END + b"hi")
    await caller.until(lambda: b"502" in caller.seen or len(caller.seen) > 30)
    assert isinstance(reported[0], ValueError)
    wire.consumer = None
    caller = await wire.caller(GET + END)
    await caller.until(lambda: caller.seen == HI)


async def test_an_exchange_is_answered_once(wire: Wire) -> None:
    wire.handler = lambda exchange: None
    await wire.caller(GET + END, pause())
    wire.exchanges[0].answer(200, [])
    with pytest.raises(RuntimeError):
        wire.exchanges[0].answer(200, [])


async def test_an_exchange_can_be_cut_before_any_answer(wire: Wire) -> None:
    wire.handler = lambda exchange: exchange.cut()
    caller = await wire.caller(GET + END)
    await caller.until(lambda: False)
    assert (caller.seen, await wire.left_over()) == (b"", (0, 0))


async def test_cutting_an_exchange_gives_its_server_up(wire: Wire) -> None:
    await wire.caller(GET + END, pause(0.03))
    server = await wire.server.peer()
    wire.exchanges[0].cut()
    await server.until(lambda: False, patience=1)
    assert await wire.left_over() == (0, 0)
