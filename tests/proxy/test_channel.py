"""What two processes say to each other arrives whole, in order, each connection with its message."""

import asyncio
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rollcall_proxy.workers.channel import Channel, Message, pair

SIZES = st.lists(st.integers(0, 200_000) | st.integers(32_700, 32_900), max_size=12)


class Ends:
    """Both ends of a channel, in one process."""

    def __init__(self) -> None:
        one, other = pair()
        self.heard, self._queue, self.lost = list[Message](), asyncio.Queue[Message](), asyncio.Event()
        self.sender = Channel(one, lambda _: None, lambda: None)
        self.receiver = Channel(other, self._queue.put_nowait, self.lost.set)

    async def all_heard(self, wanted: int) -> None:
        async with asyncio.timeout(10):
            while len(self.heard) < wanted:
                self.heard.append(await self._queue.get())

    def close(self) -> None:
        self.sender.close()
        self.receiver.close()


@settings(deadline=None, max_examples=25)
@given(sizes=SIZES)
def test_messages_of_any_size_arrive_in_order(sizes: list[int]) -> None:
    """Also more than the kernel takes at once, while the other one does not read."""

    async def say() -> None:
        ends = Ends()
        for number, size in enumerate(sizes):
            ends.sender.send("piece", {"number": number}, bytes([number]) * size)
        await ends.all_heard(len(sizes))
        assert [(each.kind, each.about, each.data) for each in ends.heard] == [
            ("piece", {"number": number}, bytes([number]) * size) for number, size in enumerate(sizes)
        ]
        ends.close()

    asyncio.run(say())


@pytest.mark.parametrize("size", [0, 100_000])
async def test_a_connection_comes_with_its_message(size: int) -> None:
    ends, (ours, theirs) = Ends(), socket.socketpair()
    for number in range(3):
        ends.sender.send("other", {"number": number})
    ends.sender.send("connection", {}, b"\n" * size, theirs)
    await ends.all_heard(4)
    assert [each.connection is None for each in ends.heard] == [True, True, True, False]
    assert ends.heard[3].data == b"\n" * size
    ours.send(b"hello")
    assert ends.heard[3].connection is not None
    assert ends.heard[3].connection.recv(5) == b"hello"
    ends.heard[3].connection.close()
    ours.close()
    ends.close()


async def test_what_was_said_before_the_end_is_heard_before_it() -> None:
    """A process that dies has said what it has written."""
    ends = Ends()
    for number in range(100):
        ends.sender.send("last words", {"number": number})
    ends.sender.close()
    await asyncio.wait_for(ends.lost.wait(), 10)
    await ends.all_heard(100)
    assert [each.about["number"] for each in ends.heard] == list(range(100))
    ends.close()


async def test_a_connection_for_nobody_is_closed() -> None:
    ends, (ours, theirs) = Ends(), socket.socketpair()
    ends.sender.close()
    ends.sender.send("connection", {}, b"", theirs)
    assert ours.recv(1) == b""
    ours.close()
    ends.close()
