"""Connections on which HTTP has ended: each direction passes by itself, and ends by itself."""

import asyncio

import pytest
from wirestage.cases import ASKED, CHUNKED, END, GET, HI, POST, SWITCHES, UPGRADE
from wirestage.raw import Step, closes, eof, pause, reads_on, resets, stops_reading, until
from wirestage.through import Wire

ASKS = GET + UPGRADE + END
CONNECT = b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n" + END
CONNECTED = b"HTTP/1.1 200 Connected\r\n" + END


@pytest.mark.parametrize("leaves", [closes, resets])
@pytest.mark.parametrize(("asks", "granted"), [(ASKS, SWITCHES), (CONNECT, CONNECTED)], ids=["upgrade", "CONNECT"])
async def test_an_upgrade_that_meets_a_closed_connection_is_asked_on_another(
    wire: Wire, asks: bytes, granted: bytes, leaves
) -> None:
    wire.plays((ASKED, HI), (ASKED, granted, until(b"ping"), b"pong"))
    caller = await wire.caller(GET + END)
    await caller.until(lambda: caller.seen == HI)
    asked = asyncio.create_task(caller.follow((asks, until(granted), b"ping", until(b"pong"))))
    await wire.server.peers[0].follow((leaves,))
    await asked
    assert [peer.seen for peer in wire.server.peers] == [GET + END, asks + b"ping"]


async def test_a_half_closed_tunnel_waits_for_a_slow_server(wire: Wire) -> None:
    wire.plays((ASKED, stops_reading, SWITCHES))
    caller = await wire.caller(ASKS, until(SWITCHES))
    size = 0
    while not wire.engine.unread:
        await caller.follow((65536 * b"x", pause(0.001)))
        size += 65536
    await caller.follow((eof, pause(0.15)))
    server = await wire.server.peer()
    await server.follow((reads_on,))
    await server.until(lambda: False)
    assert (len(server.seen), server.end) == (len(ASKS) + size, "closed")
    await server.follow((b"thanks", closes))
    await caller.until(lambda: False)
    assert (caller.seen, caller.end) == (SWITCHES + b"thanks", "closed")


async def test_a_tunnel_whose_caller_is_gone_ends_though_its_server_reads_nothing(wire: Wire) -> None:
    wire.plays((ASKED, stops_reading, SWITCHES))
    caller = await wire.caller(ASKS, until(SWITCHES))
    sending = asyncio.ensure_future(caller.follow((90_000_000 * b"x",)))
    assert await wire.soon(lambda: wire.engine.unread)
    sending.cancel()
    await caller.follow((resets,))
    assert await wire.left_over() == (0, 0)


async def test_what_comes_behind_the_request_waits_for_a_slow_server(wire: Wire) -> None:
    """It has been kept, and is more than the server takes at once."""
    wire.plays((ASKED, stops_reading))
    caller = await wire.caller(ASKS, pause())
    sending = asyncio.ensure_future(caller.follow((40_000_000 * b"x",)))
    assert await wire.soon(lambda: wire.engine.unread)
    server = await wire.server.peer()
    await server.follow((SWITCHES,))
    await caller.until(lambda: caller.seen == SWITCHES)
    await asyncio.sleep(0.3)
    assert caller.writer.transport.get_write_buffer_size() > 10_000_000
    await server.follow((reads_on,))
    await sending
    await server.until(lambda: len(server.seen) == len(ASKS) + 40_000_000)


@pytest.mark.parametrize("then", [300_000 * b"x", closes], ids=["says much", "leaves"])
async def test_a_new_protocol_waits_for_the_end_of_the_request(wire: Wire, then: Step) -> None:
    """A server that leaves meanwhile, or says more than a head may be long, has cut it off."""
    wire.plays((until(b"hi"), SWITCHES, then))
    caller = await wire.caller(POST + UPGRADE + CHUNKED + END + b"2\r\nhi\r\n")
    await caller.until(lambda: False)
    assert (caller.seen, caller.end) == (SWITCHES, "reset")
