"""However the bytes of either side are cut into reads, both see the same."""

from itertools import pairwise

import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from rollcall_proxy.wire.body import Chunks, Counted
from wirestage.cases import CHUNKED, END, GET, HI, LENGTH_2, OK, POST
from wirestage.raw import Peer, Step, pause
from wirestage.second import by_h11
from wirestage.through import Wire

TRAILERS = b"0\r\nX-Sum: 1\r\n\r\n"
CHUNKS = b"5;a=b\r\nhello\r\n1\r\n,\r\n00C\r\nw\r\n0\r\n\r\norld\r\n" + TRAILERS
REQUESTS = [GET + END, POST + LENGTH_2 + END + b"hi", POST + CHUNKED + END + CHUNKS, POST + END]
ANSWERS = [
    HI,
    OK + CHUNKED + b"Trailer: X-Sum\r\n" + END + CHUNKS,
    b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n" + END + HI,
    b"HTTP/1.1 204 No Content\r\n" + END,
]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The data in pieces."""
    at = sorted({place % len(data) for place in places} | {0, len(data)})
    return [data[begin:end] for begin, end in pairwise(at)]


def slowly(pieces: list[bytes]) -> list[Step]:
    """Each piece as a read of its own."""
    return [step for piece in pieces for step in (piece, pause(0.001))]


def normal(data: bytes) -> list[bytes]:
    """The messages in this, with their chunks put together."""
    found = []
    while data:
        head, _, data = data.partition(END + END)
        body: Chunks | Counted | None = Chunks() if CHUNKED in head + END else None
        if b"Content-Length" in head:
            body = Counted(2)
        if body is not None:
            head, data = head + body.feed(data) + repr(body.trailers).encode(), body.rest
        found.append(head)
    return found


def whole_requests(number: int) -> Step:
    """Wait for so many."""

    async def step(peer: Peer) -> None:
        await peer.until(lambda: len(by_h11(bytes(peer.seen))) >= number)

    return step


places = st.lists(st.integers(0, 10_000), max_size=4)


@settings(max_examples=300, deadline=None)
@given(places.map(lambda found: cut(CHUNKS + b"next", found)))
def test_chunks_are_read_the_same_in_any_pieces(pieces: list[bytes]) -> None:
    reader, content, rest = Chunks(), b"", b""
    for piece in pieces:
        if reader.done:
            rest += piece
        else:
            content += reader.feed(piece)
    assert content == b"hello,w\r\n0\r\n\r\norld"
    assert (reader.trailers, reader.rest + rest) == ([(b"X-Sum", b"1")], b"next")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=3), st.sampled_from(ANSWERS), places, places)
def test_each_side_sees_the_same_however_the_other_one_sends(
    requests: list[bytes], answer: bytes, asked_at: list[int], answered_at: list[int]
) -> None:
    async def passed() -> tuple[bytes, bytes]:
        async with Wire() as wire:
            script = [
                (whole_requests(number + 1), *slowly(cut(answer, answered_at))) for number in range(len(requests))
            ]
            wire.plays([step for steps in script for step in steps])
            caller = await wire.caller(*slowly(cut(b"".join(requests), asked_at)))
            await wire.soon(lambda: normal(bytes(caller.seen)) == normal(wanted))
            return bytes(wire.server.seen), bytes(caller.seen)

    wanted = answer * len(requests)
    server_saw, caller_saw = uvloop.run(passed())
    assert by_h11(server_saw) == by_h11(b"".join(requests))
    assert normal(caller_saw) == normal(wanted)
