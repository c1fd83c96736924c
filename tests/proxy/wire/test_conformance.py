"""What callers and servers see of each other through the engine, byte for byte."""

import socket

import pytest
from rollcall_proxy.wire import Address
from wirestage.cases import ASKED, END, GET, HI, NO_HTTP, PASSES, REFUSED, Case, Seen
from wirestage.through import Wire


def names(cases: list[Case]) -> list[str]:
    return [case.name for case in cases]


async def played(wire: Wire, case: Case, direct: bool) -> Seen:
    wire.plays(case.server)
    caller = await wire.caller(*case.caller, direct=direct)
    wanted = case.direct if direct else case.by_engine
    await caller.settled(len(wanted.caller), case.end, patience=0.2 if direct else 5.0)
    await (await wire.server.peer()).until(lambda: len(wire.server.seen) >= len(wanted.server))
    return Seen(wire.server.seen, bytes(caller.seen), caller.end)


@pytest.mark.parametrize("case", PASSES, ids=names(PASSES))
async def test_each_side_sees_what_it_must(wire: Wire, case: Case) -> None:
    assert await played(wire, case, direct=False) == case.by_engine


@pytest.mark.parametrize("case", PASSES, ids=names(PASSES))
async def test_only_cases_with_a_reason_differ_from_direct(wire: Wire, case: Case) -> None:
    differs = await played(wire, case, direct=True) != case.by_engine
    assert differs == bool(case.why)


@pytest.mark.parametrize("request_", REFUSED.values(), ids=REFUSED.keys())
async def test_a_request_with_two_readings_is_refused_and_nothing_of_it_passes(wire: Wire, request_: bytes) -> None:
    caller = await wire.caller(request_)
    await caller.until(lambda: False)
    assert (caller.seen[:13], caller.end) == (b"HTTP/1.1 400 ", "closed")
    assert wire.server.seen == b""
    assert not wire.exchanges


@pytest.mark.parametrize("answer", NO_HTTP.values(), ids=NO_HTTP.keys())
async def test_an_answer_with_two_readings_does_not_pass(wire: Wire, answer: bytes) -> None:
    wire.plays((ASKED, answer))
    caller = await wire.caller(GET + END)
    await caller.settled(60)
    head, _, why = caller.seen.partition(b"\r\n\r\n")
    assert head == b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: %d" % len(why)
    assert why


async def test_a_refused_request_does_not_hurt_the_ones_before_it(wire: Wire) -> None:
    wire.plays((ASKED, HI))
    caller = await wire.caller(GET + END + GET + b"X : y\r\n" + END)
    await caller.until(lambda: False)
    assert caller.seen.startswith(HI + b"HTTP/1.1 400 ")
    assert wire.server.seen == GET + END


async def test_a_head_beyond_the_limit_is_answered_400(wire: Wire) -> None:
    caller = await wire.caller(GET + b"X: " + b"y" * 270_000)
    await caller.until(lambda: False)
    assert (caller.seen[:13], caller.end) == (b"HTTP/1.1 400 ", "closed")


async def test_a_request_that_comes_together_with_an_answer_is_not_mixed_up_with_the_one_before_it(wire: Wire) -> None:
    caller = await wire.caller(2 * (GET + END))
    server = await wire.server.peer()
    for number in range(1, 30):
        await server.until(lambda number=number: len(server.seen) == number * len(GET + END))
        server.writer.write(HI)
        caller.writer.write(GET + END)
    await caller.until(lambda: len(caller.seen) == 29 * len(HI))
    assert (caller.seen, server.seen) == (29 * HI, 30 * (GET + END))


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="there is no IPv6")
async def test_an_old_request_names_a_server_of_ipv6_in_brackets(wire: Wire) -> None:
    wire.address = Address(f"::ffff:{wire.address.host}", wire.server_port)
    caller = await wire.caller(b"GET / HTTP/1.0\r\n" + END)
    server = await wire.server.peer()
    await server.until(lambda: END + END in server.seen)
    assert server.seen == b"GET / HTTP/1.1\r\nHost: [::ffff:127.0.0.1]:%d\r\n\r\n" % wire.server_port
    await caller.close()
