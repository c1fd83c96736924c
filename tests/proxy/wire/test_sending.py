"""When what has been written is sent."""

import asyncio
import socket

from rollcall_proxy.wire import Exchange
from wirestage.cases import END, GET
from wirestage.through import Wire


def arrived(caller: socket.socket, flags: int = 0) -> bytes:
    """What has been sent to a caller so far."""
    try:
        return caller.recv(1000, socket.MSG_DONTWAIT | flags)
    except BlockingIOError:
        return b""


async def connected(wire: Wire, number: int) -> list[socket.socket]:
    """Callers whose connections the engine has taken; they send nothing by themselves."""
    callers = [wire.stack.enter_context(socket.create_connection(("127.0.0.1", wire.port))) for _ in range(number)]
    assert await wire.soon(lambda: len(wire.engine.callers) == number)
    return callers


async def test_a_whole_answer_is_sent_before_its_handler_goes_on_where_it_is_the_only_one(wire: Wire) -> None:
    [caller] = await connected(wire, 1)
    seen: list[bytes] = []

    def answers(exchange: Exchange) -> None:
        exchange.answer(200, [], b"one")
        seen.append(arrived(caller))

    wire.handler = answers
    for number in range(1, 4):
        caller.send(GET + END)
        assert await wire.soon(lambda number=number: len(seen) == number)
    assert [text.endswith(b"\r\n\r\none") for text in seen] == 3 * [True]


async def test_answers_of_one_turn_are_sent_together_at_its_end(wire: Wire) -> None:
    callers = await connected(wire, 5)
    seen: list[int] = []

    def answers(exchange: Exchange) -> None:
        exchange.answer(200, [], b"one")
        seen.append(sum(bool(arrived(caller, socket.MSG_PEEK)) for caller in callers))

    wire.handler = answers
    for _ in range(2):
        seen.clear()
        for caller in callers:
            caller.send(GET + END)
        assert await wire.soon(lambda: len(seen) == 5)
        await asyncio.sleep(0.01)
        assert [arrived(caller).endswith(b"\r\n\r\none") for caller in callers] == 5 * [True]
    assert seen == 5 * [0]  # in the first round one was sent at once: nobody knew yet of the others
