"""Mutants of all conformance cases: what passes means to h11 what it means to the engine, however it is cut.

The engine may be stricter than h11, never laxer. ROLLCALL_FUZZ=1000000 reads so many, ROLLCALL_FUZZ_SEED=2 others.
"""

import re
from collections import Counter
from random import Random

import h11
import pytest
from rollcall_proxy.wire import FramingError
from rollcall_proxy.wire.body import Chunks
from wirestage.mutating import MUTANTS, SEED, answers, mutants, pieces, requests
from wirestage.second import (
    Read,
    answer_by_h11,
    answer_by_the_engine,
    by_h11,
    by_the_engine,
)
from wirestage.through import Wire

SPACED = re.compile(rb"[0-9A-Fa-f][ \t]+;")


def read_by_engine(data: bytes) -> tuple[Read, bytes] | str:
    try:
        return by_the_engine(data) or "not whole"
    except FramingError:
        return "refused"


def test_a_mutant_of_a_request_is_refused_or_means_what_h11_finds() -> None:
    seen: Counter[str] = Counter()
    for data in mutants(requests()):
        found = read_by_engine(data)
        if isinstance(found, str) or any(byte > 0x7F for byte in found[0].target):
            seen[found if isinstance(found, str) else "a target that h11 refuses"] += 1
            continue
        read, sent_on = found
        if SPACED.search(data):
            seen["a space before an extension, which h11 refuses"] += 1  # RFC 9112 7.1.1 does not
            data = sent_on
        (wanted,), (sent,) = by_h11(data, 1), by_h11(sent_on, 1)
        if data is not sent_on:
            assert read == wanted, data
        assert essence(sent) == essence(read), data
        assert not {name for name, _ in sent.fields} & {b"keep-alive", b"proxy-connection"}, data
        seen["passes"] += 1
    assert min(seen["passes"], seen["refused"], seen["not whole"]) > MUTANTS / 50, seen


def essence(read: Read) -> tuple[object, ...]:
    """What no hop changes."""
    return read.method, read.target, read.body, read.trailers, framing_fields(read)


def framing_fields(read: Read) -> list[tuple[bytes, bytes]]:
    return [pair for pair in read.fields if pair[0] in (b"content-length", b"transfer-encoding")]


@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
def test_a_mutant_of_an_answer_is_refused_or_means_what_h11_finds(method: bytes) -> None:
    seen: Counter[str] = Counter()
    for data in mutants(answers(), MUTANTS // 2):
        try:
            found = answer_by_the_engine(data, method)
        except FramingError:
            seen["refused"] += 1
            continue
        if found is None:
            seen["not whole"] += 1
            continue
        assert found == answer_by_h11(data, method), data
        seen["passes"] += 1
    assert min(seen["passes"], seen["refused"], seen["not whole"]) > MUTANTS / 100, seen


def test_a_mutant_means_the_same_however_it_is_cut() -> None:
    """Chunked bodies, of which the reader keeps what is not whole."""
    random = Random(SEED)
    bodies = [data.partition(b"\r\n\r\n")[2] for data in requests() + answers() if b"chunked" in data.lower()]
    for data in mutants([body for body in bodies if body]):
        assert chunked(data, [data]) == chunked(data, pieces(random, data)), data


def chunked(data: bytes, cut: list[bytes]) -> object:
    """What a reader of chunks makes of pieces; a body that is not whole may show less or more of itself."""
    reader, body, rest = Chunks(), b"", b""
    try:
        for piece in cut:
            if reader.done:
                rest += piece
            else:
                body += reader.feed(piece)
    except FramingError:
        return "refused"
    return (body, reader.trailers, reader.rest + rest) if reader.done else ("not whole", body)


async def test_a_connection_reads_mutants_as_the_parsers_do(wire: Wire) -> None:
    """What is refused is answered 400 and reaches nobody; what passes is what is sent on."""
    wire.handler = lambda exchange: exchange.answer(204, []) if exchange.request_whole else wire.pass_on(exchange)
    for data in mutants(requests(), min(MUTANTS // 20, 5000)):
        found = read_by_engine(data)
        if found == "not whole" or data.startswith(b"\r\n"):
            continue
        caller = await wire.caller(data)
        await caller.until(lambda caller=caller: b"\r\n\r\n" in caller.seen)
        assert caller.seen[9:12] == (b"400" if found == "refused" else b"204"), data
        await caller.close()
    assert wire.server.seen == b""


def test_h11_refuses_too() -> None:
    """It is no oracle if it lets everything pass."""
    refused = 0
    for data in mutants(requests(), 500):
        try:
            by_h11(data, 1)
        except h11.RemoteProtocolError:
            refused += 1
    assert refused > 100
