"""Changed at random, a request is refused or means to the server what a strict reader of it finds."""

import h11
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from rollcall_proxy.wire import Fields, FramingError
from wirestage.cases import CHUNKED, END, GET, LENGTH_2, POST
from wirestage.second import HOP, Read, by_h11, by_the_engine

VALID = [
    GET + END,
    GET + b"Accept: */*\r\nX-Empty:\r\nConnection: keep-alive, x-a\r\nX-A: 1\r\nCookie: a=1; b=2\r\n" + END,
    POST + LENGTH_2 + END + b"hi",
    POST + b"TE: trailers\r\n" + CHUNKED + END + b"5;x=y\r\nhello\r\n3\r\n...\r\n0\r\nX-Sum: 1\r\n\r\n",
    b"POST /a?b HTTP/1.0\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc",
    b"GET http://h/%20?q HTTP/1.1\r\nHost: h\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
]
SIGNS = [b"\r", b"\n", b"\r\n", b"\0", b" ", b"\t", b":", b",", b";", b"+", b"0", b"x", b"\xff", b"\x0b", b"\x7f", b'"']
PARTS = [
    *SIGNS,
    CHUNKED,
    LENGTH_2,
    b"Content-Length: 0\r\n",
    b"Transfer-Encoding: identity\r\n",
    b"chunked",
    b"\r\n\r\n",
]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A valid request with one to three changes."""
    data = draw(st.sampled_from(VALID))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        removed = draw(st.integers(0, 3))
        data = data[:at] + draw(st.one_of(st.sampled_from(PARTS), st.binary(max_size=2))) + data[at + removed :]
    return data


@settings(max_examples=1500, deadline=None)
@given(mutated())
@example(POST + b"Content-Length: 0\r\n" + CHUNKED + END + b"0\r\n\r\n")
@example(GET + b"X: a\r\n\tb\r\n" + END)
def test_what_passes_means_what_a_strict_reader_finds(data: bytes) -> None:
    try:
        passed = by_the_engine(data)
    except FramingError:
        event("refused")
        return
    if passed is None:
        event("not whole")
        return
    read, sent_on = passed
    if any(byte > 0x7F for byte in read.target):
        event("a target that h11 refuses")
        return
    event("passed")
    (wanted,), (sent,) = by_h11(data, 1), by_h11(sent_on)
    assert read == wanted
    named = {name.strip().lower() for key, value in wanted.fields if key == b"connection" for name in value.split(b",")}
    dropped = (HOP | named) - {b"host", b"content-length", b"transfer-encoding"}
    if b"host" not in dict(wanted.fields):
        dropped.add(b"host")  # HTTP/1.0 needs none
    assert (sent.method, sent.target, sent.body, sent.trailers) == (read.method, read.target, read.body, read.trailers)
    assert without(sent, dropped) == without(wanted, dropped)


def without(read: Read, names: set[bytes]) -> Fields:
    return [pair for pair in read.fields if pair[0] not in names]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(VALID), st.data())
def test_what_is_cut_short_is_no_request(data: bytes, choice: st.DataObject) -> None:
    cut = data[: choice.draw(st.integers(0, len(data) - 1))]
    assert by_the_engine(cut) is None


def test_the_second_reader_reads() -> None:
    for data in VALID:
        assert len(by_h11(data)) == 1
    assert len(by_h11(VALID[0] + VALID[2])) == 2
    with pytest.raises(h11.RemoteProtocolError):
        by_h11(POST + b"Transfer-Encoding: xchunked\r\n" + END)
