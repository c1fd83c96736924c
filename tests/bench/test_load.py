"""The two ends of a measurement, on real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.load.connection import Reading, ask
from bench.load.held import hold
from bench.load.paced import Target, in_a_row, paced
from bench.load.requests import NO_OWNER, calls, post
from bench.load.upstream import BIG

LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKS = b"HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"


@asynccontextmanager
async def refusing() -> AsyncIterator[str]:
    """A server that answers everything with 503; its URL."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(4096):
            writer.write(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        yield "http://{}:{}".format(*server.sockets[0].getsockname()[:2])


@given(st.sampled_from([LENGTH, CHUNKS]), st.lists(st.integers(1, 90)))
def test_an_answer_is_whole_with_its_last_byte_however_it_is_cut(answer: bytes, cuts: list[int]) -> None:
    reading, places = Reading(), sorted({0, len(answer), *(cut for cut in cuts if cut < len(answer))})
    whole = [reading.feed(answer[start:end]) for start, end in pairwise(places)]
    assert whole == [False] * (len(whole) - 1) + [True]
    assert reading.status == int(answer.split()[1])


def test_no_two_calls_are_alike_and_each_has_the_size_asked_for() -> None:
    made = list(islice(calls("h:1", ["one", "two"], 1024), 4))
    bodies = [each.partition(b"\r\n\r\n")[2] for each in made]
    assert len(set(bodies)) == 4
    assert {len(body) for body in bodies} == {1024}
    assert [b"Owner: one" in each for each in made] == [True, False, True, False]


async def test_held_requests_are_counted_and_all_answered(upstream: str) -> None:
    outcome = await hold(upstream, upstream, islice(calls("h:1", [NO_OWNER], 64, "hold"), 300))
    assert (outcome.held, outcome.errors) == (300, 0)


async def test_a_refused_request_is_an_error_of_the_held(upstream: str) -> None:
    async with refusing() as url:
        outcome = await hold(url, upstream, islice(calls("h:1", [NO_OWNER], 64, "hold"), 3))
    assert (outcome.held, outcome.errors) == (0, 3)


@pytest.mark.parametrize(("task", "body", "length"), [("sink", b"x" * 3_000_000, 34), ("big", b"{}", BIG)])
async def test_long_bodies_pass_whole_in_both_directions(upstream: str, task: str, body: bytes, length: int) -> None:
    answer = await ask(upstream, post("h:1", NO_OWNER, body, task))
    assert (answer.status, answer.length) == (200, length)


async def test_each_target_gets_its_share_of_a_steady_rate(upstream: str) -> None:
    targets = [Target(name, upstream, calls("h:1", [NO_OWNER], 64)) for name in ("a", "b")]
    await paced(targets, rate=500, seconds=0.2)
    assert [(len(each.seconds), each.errors) for each in targets] == [(100, 0), (100, 0)]


async def test_requests_in_a_row_have_one_connection_for_each_target(upstream: str) -> None:
    targets = [Target(name, upstream, calls("h:1", [NO_OWNER], 64)) for name in ("a", "b")]
    await in_a_row(targets, 100)
    assert [(len(each.seconds), each.errors, each.connections) for each in targets] == [(100, 0, 1), (100, 0, 1)]


async def test_an_answer_that_is_not_200_is_an_error_of_its_target() -> None:
    async with refusing() as url:
        target = Target("a", url, calls("h:1", [NO_OWNER], 64))
        await paced([target], rate=100, seconds=0.1)
    assert target.errors == 10
