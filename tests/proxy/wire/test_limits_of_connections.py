"""Limits of time and number: of exchanges, of callers, and of idle connections."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from rollcall_proxy.wire import Consumer, Limits, Outcome, Settings
from wirestage.cases import ASKED, CHUNKED, END, GET, HI, LENGTH_2, OK, POST
from wirestage.raw import QUIET_S, closes, pause, reads_on, resets, stops_reading, until
from wirestage.through import SETTINGS, Wire

SHORT = Settings(head_time=0.1, body_time=0.1, idle_caller=0.1, idle_server=0.1, linger=0.1, callers=2, tick=0.02)


@pytest.fixture
async def short() -> AsyncIterator[Wire]:
    """A wire with short limits of its own."""
    async with Wire(SHORT) as started:
        yield started


@pytest.mark.parametrize(
    ("script", "limits", "limit"),
    [
        ((), Limits(first=0.05), "first"),
        ((ASKED, b"HTTP/1.1 103 x\r\n\r\n"), Limits(first=0.05, idle=9), "first"),
        ((ASKED, OK + CHUNKED + END), Limits(first=9, idle=0.05), "idle"),
        ((ASKED, OK + CHUNKED + END), Limits(first=0.01, idle=9, total=0.05), "total"),
        ((), Limits(total=0.05), "total"),
    ],
)
async def test_a_server_that_takes_too_long_is_given_up(wire: Wire, script, limits: Limits, limit: str) -> None:
    ends: list[Outcome] = []

    class Here(Consumer):
        def on_end(self, outcome: Outcome) -> None:
            ends.append(outcome)
            super().on_end(outcome)

    wire.consumer, wire.limits = Here, limits
    wire.plays(script)
    caller = await wire.caller(GET + END)
    await caller.until(lambda: b"504" in caller.seen)
    assert [(outcome.word, outcome.limit, outcome.sent) for outcome in ends] == [("timeout", limit, True)]
    server = await wire.server.peer()
    await server.until(lambda: False, patience=1)


async def test_a_slow_answer_within_its_limits_passes(wire: Wire) -> None:
    wire.limits = Limits(first=9, idle=0.2, total=9)
    wire.plays(
        (ASKED, OK + CHUNKED + END, *(step for _ in range(6) for step in (pause(0.08), b"1\r\nx\r\n")), b"0\r\n\r\n")
    )
    caller = await wire.caller(GET + END)
    await caller.until(lambda: caller.seen.endswith(b"0\r\n\r\n"))
    assert caller.seen.count(b"1\r\nx\r\n") == 6


async def test_a_caller_that_reads_slowly_is_not_the_servers_fault(wire: Wire) -> None:
    wire.limits = Limits(idle=0.05)
    size = 30_000_000
    wire.plays((ASKED, OK + b"Content-Length: %d\r\n" % size + END, b"x" * size))
    caller = await wire.caller()
    caller.writer.transport.pause_reading()
    await caller.follow((GET + END, pause(0.4)))
    caller.writer.transport.resume_reading()
    await caller.until(lambda: len(caller.seen) > size)
    assert caller.end == "open"


async def test_a_head_that_does_not_come_whole_in_time_ends_the_connection(short: Wire) -> None:
    caller = await short.caller(GET)
    await caller.until(lambda: False)
    assert (caller.seen, caller.end) == (b"", "closed")


@pytest.mark.parametrize("step", [END, b"\r"], ids=["CRLF", "CR"])
async def test_empty_lines_do_not_keep_a_connection(short: Wire, step: bytes) -> None:
    drops = [each for _ in range(40) for each in (step, pause(0.05))]
    caller = await short.caller(*drops)
    assert (caller.seen[:13], caller.end) == (b"HTTP/1.1 400 ", "closed")


@pytest.mark.parametrize(
    "lines", [(END + END,), (END, pause(), END), (END + b"\r", pause(), b"\n"), (b"\r", pause(), b"\n\r\n")]
)
async def test_one_empty_line_is_ignored_however_it_comes_and_no_second_one(wire: Wire, lines) -> None:
    wire.plays((ASKED, HI))
    caller = await wire.caller(GET + END, until(b"hi"), *lines, pause(), GET + END)
    await caller.until(lambda: False)
    assert (caller.seen[: len(HI) + 13], caller.end) == (HI + b"HTTP/1.1 400 ", "closed")
    assert wire.server.seen == GET + END


@pytest.mark.parametrize("lines", [(END,), (b"\r", pause(), b"\n")], ids=["at once", "in pieces"])
async def test_an_empty_line_behind_a_body_is_ignored(wire: Wire, lines) -> None:
    wire.plays((until(b"ho"), HI, until(GET + END), HI))
    caller = await wire.caller(POST + LENGTH_2 + END + b"ho", until(b"hi"), *lines, GET + END)
    await caller.until(lambda: caller.seen == HI + HI)
    assert wire.server.seen == POST + LENGTH_2 + END + b"ho" + GET + END


async def test_an_idle_caller_is_closed(short: Wire) -> None:
    short.plays((ASKED, HI))
    caller = await short.caller(GET + END)
    await caller.until(lambda: False)
    assert (caller.seen, caller.end) == (HI, "closed")


async def test_a_caller_that_waits_for_its_answer_is_not_idle(short: Wire) -> None:
    short.plays((ASKED, pause(0.3), HI))
    caller = await short.caller(GET + END)
    await caller.until(lambda: caller.seen == HI)


async def test_a_refused_caller_that_goes_on_sending_is_closed_in_the_end(short: Wire) -> None:
    caller = await short.caller(b"NO\r\n\r\n", until(b"400"), b"x" * 100)
    assert await short.left_over() == (0, 0)
    assert b"400" in caller.seen


async def test_what_comes_on_a_connection_too_many_says_so_and_ends_it(short: Wire) -> None:
    short.handler = lambda exchange: exchange.answer(503 if exchange.surplus else 200, [])
    kept = [await short.caller(GET + END, until(b"200")) for _ in range(2)]
    caller = await short.caller(GET + END + GET + END)
    await caller.until(lambda: False)
    assert (caller.seen.count(b"HTTP/1.1 503 "), caller.end) == (1, "closed")
    await kept[0].follow((GET + END,))
    await kept[0].until(lambda: kept[0].seen.count(b"HTTP/1.1 200 ") == 2)


async def test_a_connection_that_was_too_many_is_served_when_another_one_has_gone(short: Wire) -> None:
    short.handler = lambda exchange: exchange.answer(503 if exchange.surplus else 200, [])
    kept = [await short.caller(GET + END, until(b"200")) for _ in range(2)]
    caller = await short.caller()
    await short.soon(lambda: len(short.engine.callers) == 3)
    await kept[0].close()
    await short.soon(lambda: len(short.engine.callers) == 2)
    await caller.follow((GET + END, until(b"200")))


async def test_a_body_that_does_not_come_in_time_is_answered_408(short: Wire) -> None:
    caller = await short.caller(POST + b"Content-Length: 9\r\n" + END + b"h")
    await caller.until(lambda: False)
    assert (caller.seen[:13], caller.end) == (b"HTTP/1.1 408 ", "closed")
    assert await short.left_over() == (0, 0)
    assert short.exchanges[0].left


async def test_a_body_that_drips_is_none_that_comes(short: Wire) -> None:
    drops = [step for _ in range(100) for step in (b"x", pause(0.02))]
    caller = await short.caller(POST + b"Content-Length: 900\r\n" + END, *drops)
    assert caller.seen[:13] == b"HTTP/1.1 408 "


async def test_a_body_that_stops_behind_its_early_answer_ends_the_connection(short: Wire) -> None:
    short.plays((until(END + END), HI))
    caller = await short.caller(POST + b"Content-Length: 9\r\n" + END + b"h", until(b"hi"))
    await caller.until(lambda: False)
    assert (caller.seen, caller.end) == (HI, "closed")


@pytest.mark.parametrize("expects", [b"", b"Expect: 100-continue\r\n"])
async def test_the_time_for_a_body_stands_still_while_it_cannot_come(short: Wire, expects: bytes) -> None:
    """Nothing is read, or nobody has said that it may come."""
    short.handler = lambda exchange: None
    size = 90_000
    caller = await short.caller(POST + expects + b"Content-Length: %d\r\n" % size + END)
    if not expects:
        await caller.follow((b"x" * 70_000,))
        assert await short.soon(lambda: short.engine.unread)
    await asyncio.sleep(0.3)
    short.plays((until(b"end"), HI))
    short.pass_on(short.exchanges[0])
    await caller.follow((b"x" * (size - 3 - (0 if expects else 70_000)) + b"end", until(b"hi")))
    assert caller.seen.endswith(HI)


async def test_a_connection_to_the_server_is_used_again(wire: Wire) -> None:
    wire.plays((ASKED, HI, until(POST + END), HI))
    for request in (GET + END, POST + END):
        caller = await wire.caller(request)
        await caller.until(lambda caller=caller: caller.seen == HI)
    assert len(wire.server.peers) == 1


@pytest.mark.parametrize(
    "first",
    [
        (ASKED, HI, closes),
        (ASKED, HI + b"HTTP/1.1 200 more than was asked for\r\n\r\n"),
        (ASKED, HI, pause(0.03), b"HTTP/1.1 408 Request Timeout\r\n\r\n"),
        (ASKED, OK + b"Connection: close\r\nContent-Length: 2\r\n" + END + b"hi"),
        (ASKED, b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n" + END + b"hi"),
    ],
    ids=["closed", "excess", "excess later", "said close", "HTTP/1.0"],
)
async def test_a_connection_that_may_be_closed_is_not_used_again(wire: Wire, first) -> None:
    wire.plays(first, (ASKED, HI))
    for _ in range(2):
        caller = await wire.caller(POST + END)
        await caller.until(lambda caller=caller: caller.seen.endswith(b"hi"))
        await asyncio.sleep(0.05)
    assert [peer.seen for peer in wire.server.peers] == 2 * [POST + END]


FAILED = b"HTTP/1.1 500 No\r\n" + LENGTH_2 + END + b"no"


async def test_a_connection_rests_after_an_answer_of_500_and_is_used_again(wire: Wire) -> None:
    """It may be one that its server closes without having said so."""
    wire.plays((ASKED, FAILED, until(2 * (POST + END)), HI), (ASKED, HI, until(2 * (POST + END)), HI))
    for wanted in (FAILED, HI):
        await answered(wire, wanted)
    assert len(wire.server.peers) == 2
    await asyncio.sleep(SETTINGS.rest + 0.1)
    callers = [await wire.caller(POST + END) for _ in range(2)]
    for caller in callers:
        await caller.until(lambda caller=caller: caller.seen == HI)
    assert [peer.seen for peer in wire.server.peers] == 2 * [2 * (POST + END)]


@pytest.mark.parametrize("closing", [0.0, 0.02], ids=["at once", "a little later"])
async def test_a_server_that_keeps_what_has_failed_is_trusted_until_it_closes_one(closing: float) -> None:
    """Behind two answers its connection rests, behind two more it does not, and is closed: the next one rests again."""
    async with Wire(replace(SETTINGS, trusted=2)) as wire:
        asked_again = [until(times * (POST + END)) for times in range(2, 5)]
        wire.plays(
            (
                ASKED,
                FAILED,
                asked_again[0],
                FAILED,
                asked_again[1],
                FAILED,
                asked_again[2],
                FAILED,
                pause(closing),
                closes,
            ),
            (ASKED, FAILED, asked_again[0], HI),
            (ASKED, HI),
        )
        for _ in range(2):
            await answered(wire, FAILED)
            await asyncio.sleep(SETTINGS.rest + 0.1)
        for _ in range(2):
            await answered(wire, FAILED)
        assert len(wire.server.peers) == 1
        await asyncio.sleep(closing + QUIET_S)
        for wanted in (FAILED, HI):
            await answered(wire, wanted)
        assert len(wire.server.peers) == 3


async def answered(wire: Wire, wanted: bytes) -> None:
    caller = await wire.caller(POST + END)
    await caller.until(lambda: caller.seen == wanted)


@pytest.mark.parametrize("leaves", [closes, resets])
@pytest.mark.parametrize(
    "request_",
    [(POST + END,), (POST + CHUNKED + END + b"1\r\nx\r\n0\r\n\r\n",), (POST + LENGTH_2 + END + b"h", pause(), b"i")],
    ids=["no body", "chunks", "length, in two"],
)
async def test_a_request_that_meets_a_closed_connection_is_sent_on_another(wire: Wire, request_, leaves) -> None:
    """The next request comes, and the server closes, within one turn of the loop."""
    wire.plays((ASKED, HI), (until(b"".join(request_[::2])[-5:]), HI))
    caller = await wire.caller(GET + END)
    await caller.until(lambda: caller.seen == HI)
    asked = asyncio.create_task(caller.follow(request_))
    await wire.server.peers[0].follow((leaves,))
    await asked
    await caller.until(lambda: caller.seen == HI + HI)
    assert [peer.seen for peer in wire.server.peers] == [GET + END, b"".join(request_[::2])]


async def test_a_long_request_that_meets_a_closed_connection_is_sent_whole_on_another(wire: Wire) -> None:
    """What is large is written at once, while the rest of it is still being handed over."""
    wire.plays((ASKED, HI), (until(b"end"), HI))
    caller = await wire.caller(GET + END)
    await caller.until(lambda: caller.seen == HI)
    wire.handler = lambda exchange: None
    parts = [POST + b"Content-Length: 120003\r\n" + END, b"a" * 40_000, b"b" * 80_000, b"end"]
    await caller.follow([step for part in parts for step in (part, pause())])
    assert await wire.soon(lambda: wire.engine.unread)
    with socket.socket(fileno=os.dup(wire.server.peers[0].writer.get_extra_info("socket").fileno())) as server:
        server.shutdown(socket.SHUT_WR)
        wire.pass_on(wire.exchanges[-1])
    await caller.until(lambda: caller.seen == HI + HI)
    assert wire.server.peers[1].seen == b"".join(parts)


async def test_a_request_that_may_have_arrived_is_not_sent_again(wire: Wire) -> None:
    wire.plays((ASKED, HI, until(POST + END), closes))
    for request in (GET + END, POST + END):
        caller = await wire.caller(request)
        await caller.until(lambda caller=caller: caller.seen != b"")
    assert caller.seen.startswith(b"HTTP/1.1 502 ")
    assert wire.server.seen == GET + END + POST + END


async def test_idle_connections_to_a_server_are_dropped(short: Wire) -> None:
    short.plays((ASKED, HI))
    await (await short.caller(GET + END)).settled(1)
    server = await short.server.peer()
    await server.until(lambda: False, patience=2)
    assert server.end != "open"


async def test_a_body_larger_than_memory_should_hold_makes_its_sender_wait(wire: Wire) -> None:
    wire.plays((stops_reading,))
    caller = await wire.caller(POST + b"Content-Length: 40000000\r\n" + END, pause())
    sending = asyncio.ensure_future(caller.follow((b"x" * 40_000_000,)))
    await asyncio.sleep(0.3)
    assert caller.writer.transport.get_write_buffer_size() > 10_000_000
    await (await wire.server.peer()).follow((reads_on,))
    await sending
    await (await wire.server.peer()).until(lambda: len(wire.server.seen) > 40_000_000)


async def test_an_early_answer_makes_nobody_read_on_for_a_server_that_is_behind(wire: Wire) -> None:
    wire.plays((ASKED, stops_reading))
    caller = await wire.caller(POST + b"Content-Length: 40000000\r\n" + END, pause())
    sending = asyncio.ensure_future(caller.follow((b"x" * 40_000_000,)))
    assert await wire.soon(lambda: wire.engine.unread)
    server = await wire.server.peer()
    await server.follow((HI,))
    await caller.until(lambda: caller.seen == HI)
    await asyncio.sleep(0.3)
    assert caller.writer.transport.get_write_buffer_size() > 10_000_000
    await server.follow((reads_on,))
    await sending
    await server.until(lambda: len(server.seen) > 40_000_000)
    await caller.follow((GET + END,))
    await server.until(lambda: server.seen.endswith(GET + END))


async def test_what_a_server_behind_does_not_take_is_dropped_once_it_has_gone(wire: Wire) -> None:
    wire.plays((ASKED, stops_reading), (ASKED, HI))
    size = 40_000_000
    caller = await wire.caller(POST + b"Content-Length: %d\r\n" % size + END, pause())
    sending = asyncio.ensure_future(caller.follow((b"x" * size, GET + END)))
    assert await wire.soon(lambda: wire.engine.unread)
    server = await wire.server.peer()
    await server.follow((HI,))
    await caller.until(lambda: caller.seen == HI)
    await server.follow((resets,))
    await caller.until(lambda: caller.seen == HI + HI)
    await sending


def test_the_defaults_fit_gym() -> None:
    """Gym's client keeps idle connections for 15 s, its servers for 30 s."""
    assert Settings().idle_caller > 15
    assert Settings().idle_server < 30
    assert SETTINGS.head_limit == 256 * 1024
