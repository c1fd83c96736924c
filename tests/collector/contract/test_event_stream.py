"""`EventReader`: events out of bytes that are cut anywhere."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.event_stream import Event, EventReader

LIMIT = 1000


def read(*pieces: bytes, limit: int = LIMIT) -> list[Event]:
    """All events of a stream, the last one without its blank line too."""
    reader = EventReader(limit)
    events = [event for piece in pieces for event in reader.feed(piece)]
    last = reader.end()
    return [*events, last] if last else events


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_with_lf_crlf_or_cr(end: str) -> None:
    """The standard's three."""
    text = "event: a\ndata: 1\n\ndata: 2\n\n".replace("\n", end)
    assert read(text.encode()) == [Event("a", b"1"), Event("", b"2")]


@pytest.mark.parametrize(
    ("text", "events"),
    [
        (b"data:1\n\n", [Event("", b"1")]),
        (b"data:  1\n\n", [Event("", b" 1")]),
        (b"data: 1\ndata: 2\ndata\n\n", [Event("", b"1\n2\n")]),
        (b": keep-alive\n\n:x\ndata: 1\n\n", [Event("", b"1")]),
        (b"\xef\xbb\xbfdata: 1\n\n", [Event("", b"1")]),
        (b"id: 7\nretry: 10\nother: x\ndata: 1\n\n", [Event("", b"1")]),
        (b"event: a\n\ndata: 1\n\n", [Event("", b"1")]),
        (b"event: a\nevent: b\ndata: 1\n\n\n\n", [Event("b", b"1")]),
        (b"data: a\x0bb\xe2\x80\xa8c\n\n", [Event("", b"a\x0bb\xe2\x80\xa8c")]),
    ],
)
def test_fields_are_read_by_the_standard(text: bytes, events: list[Event]) -> None:
    """Comments, joined data, one blank after the colon, a name that holds for one event, other line separators."""
    assert read(text) == events


@pytest.mark.parametrize(
    "text", [b"data: 1\n\ndata: [DONE]\n", b"data: 1\n\ndata: [DONE]", b"data: 1\n\ndata: [DONE]\r"]
)
def test_the_last_event_counts_without_its_blank_line(text: bytes) -> None:
    """The server has said it."""
    assert read(text) == [Event("", b"1"), Event("", b"[DONE]")]


def test_an_event_comes_with_the_end_of_its_blank_line() -> None:
    """It is not kept until the next one."""
    reader = EventReader(LIMIT)
    assert [reader.feed(piece) for piece in (b"data: 1", b"\n", b"\n", b"")] == [[], [], [Event("", b"1")], []]


def test_the_unfinished_event_can_be_shown() -> None:
    """Its data so far, and the line in which the stream ended."""
    reader = EventReader(LIMIT)
    reader.feed(b'data: 1\n\ndata: {"a":\ndata: "b')
    assert reader.unfinished() == '{"a":\ndata: "b'


STREAM = st.lists(
    st.sampled_from(
        [b"data: ", b"data:", b"event: e", b":c", b"\n", b"\r", b"\r\n", b"\n\n", "é€".encode(), b"x", b"\xef\xbb\xbf"]
    ),
    max_size=30,
).map(b"".join)


@given(STREAM, st.lists(st.integers(0, 120), max_size=8), st.integers(1, 60))
def test_where_a_stream_is_cut_changes_nothing(stream: bytes, cuts: list[int], limit: int) -> None:
    """In the middle of a character, between CR and LF, everywhere; also where an event is too long."""
    edges = [0, *sorted(cuts), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(edges)]
    singles = [stream[i : i + 1] for i in range(len(stream))]
    assert read(*pieces, limit=limit) == read(stream, limit=limit) == read(*singles, limit=limit)


def test_a_long_stream_of_short_events_is_read_within_the_limit() -> None:
    """Only the current event is held."""
    assert len(read(*[b"data: 12345678\n\n"] * 500, limit=20)) == 500


@pytest.mark.parametrize("text", [b"data: " + b"x" * 60 + b"\n\n", b":" + b"x" * 60, b"data: 12345678901234567\n" * 4])
def test_an_event_beyond_the_limit_stops_the_reading(text: bytes) -> None:
    """One long line, or many; what came before it has been read."""
    reader = EventReader(40)
    assert reader.feed(b"data: 1\n\n" + text + b"\n\ndata: 2\n\n") == [Event("", b"1")]
    assert reader.overflowed
    assert (reader.feed(b"data: 3\n\n"), reader.end()) == ([], None)
