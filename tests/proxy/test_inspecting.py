"""The reading of a copy: whatever goes wrong in it, the answer passes and does not count as clean."""

import gzip
import itertools
import tracemalloc
import zlib
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.inspection import Finding, Inspector, inspector_for
from rollcall_collector.contract.policy import Policy
from rollcall_collector.contract.rules import Rule, Rules, load_rules
from rollcall_proxy import wire
from rollcall_proxy.answers import Said
from rollcall_proxy.departing import Departure
from rollcall_proxy.encoding import Decoder, UnreadableError
from rollcall_proxy.exchange import head_from, taken_in
from rollcall_proxy.inspecting import About, FailedStatus, GoodStatus, reading_of
from rollcall_proxy.upstream import Upstream, Window
from rollcall_proxy.users_rules import Asked

BODIES = st.binary(max_size=300)
CUTS = st.lists(st.integers(0, 400), max_size=6)
CODED = {
    "": lambda body: body,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "deflate, gzip": lambda body: gzip.compress(zlib.compress(body)),
}


def cut(body: bytes, places: list[int]) -> list[bytes]:
    """The body in pieces; some may be empty."""
    marks = [0, *sorted(place for place in places if place < len(body)), len(body)]
    return [body[start:stop] for start, stop in itertools.pairwise(marks)]


@given(body=BODIES, cuts=CUTS, coding=st.sampled_from(sorted(CODED)))
def test_a_coded_body_is_read_however_it_is_cut(body: bytes, cuts: list[int], coding: str) -> None:
    """And is whole at its end, and not before."""
    coded, decoder = CODED[coding](body), Decoder(coding)
    assert b"".join(plain for piece in cut(coded, cuts) for plain in decoder.feed(piece)) == body
    assert decoder.whole
    if coding and len(coded) > 1:
        half = Decoder(coding)
        assert list(half.feed(coded[:-1])) is not None
        assert not half.whole


@given(first=BODIES, second=BODIES)
def test_several_gzip_members_are_one_body(first: bytes, second: bytes) -> None:
    """RFC 1952 2.2."""
    members = gzip.compress(first) + gzip.compress(second)
    assert b"".join(Decoder("gzip").feed(members)) == first + second


def test_a_small_piece_that_holds_much_is_decoded_bit_by_bit() -> None:
    """No more than 1 MiB at once."""
    sizes = [len(plain) for plain in Decoder("gzip").feed(gzip.compress(bytes(5 * 2**20)))]
    assert (max(sizes), sum(sizes)) == (2**20, 5 * 2**20)


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, br", "nonsense"])
def test_a_coding_that_nobody_knows_is_refused(coding: str) -> None:
    """It cannot be read, and never passes for the plain text."""
    with pytest.raises(UnreadableError, match="content coding"):
        Decoder(coding)


class Broken:
    """An inspector with a fault in its reading, or at its end."""

    inspected = True

    def __init__(self, at_the_end: bool) -> None:
        self._at_the_end = at_the_end

    def feed(self, piece: bytes) -> Finding | None:
        return None if self._at_the_end else self._fail()

    def end(self) -> Finding | None:
        return self._fail()

    def _fail(self) -> Finding | None:
        raise ZeroDivisionError("a fault")


def reading(inspector: Inspector | None, coding: str = "", rules: Rules | None = None) -> GoodStatus:
    rules = rules or Rules()
    return GoodStatus(About(200, coding, False, Asked(rules.rules)), inspector)


@pytest.mark.parametrize("at_the_end", [False, True])
def test_a_fault_in_the_reading_is_said_and_counts_as_not_inspected(
    at_the_end: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """One line in the log; no finding, and no exception for who passes the answer on."""
    copy = reading(Broken(at_the_end))
    assert [copy.feed(b"a"), copy.feed(b"b"), copy.end()] == [None, None, None]
    assert copy.unread
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_fault_in_reading_a_failed_answer_is_said_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Its status alone says that it failed."""
    copy = FailedStatus(About(500, "", False, Asked((Faulty("faulty", "failure", pattern="x"),))))
    assert copy.feed(b"body") is None
    bad = copy.end()
    assert bad is not None
    assert (bad.what, bad.status, bytes(bad.body), bad.rules) == ("http_status", 500, b"body", ())
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@pytest.mark.parametrize(("status", "what"), [(500, "http_status"), (200, None)])
def test_a_fault_before_the_reading_leaves_the_status_its_say(status: int, what: str | None) -> None:
    """A policy that cannot be asked: a failed answer has failed, a good one is not inspected."""
    asks = wire.RequestHead(b"POST", b"/v1/responses", [])
    server = Upstream("m", "model", "http://127.0.0.1:9", None, Window(1.0), Departure("", 1.0))
    exchange = taken_in("x-1", server, asks, head_from(asks), None, "model")
    copy = reading_of(exchange, Said(wire.AnswerHead(status, b"", []), "POST"), cast(Policy, None), 1000)
    copy.feed(b"body")
    bad = copy.end()
    assert ((bad and bad.what), copy.unread) == (what, what is None)


class Faulty(Rule):
    """A rule with a fault in its reading."""

    def matches_body(self, body: bytes) -> bool:
        raise ZeroDivisionError("a fault")


def test_what_no_rule_and_no_inspector_reads_needs_no_reading() -> None:
    """An unknown coding of an answer in which nothing could say that it failed."""
    copy = reading(None, "br")
    assert (copy.feed(b"x"), copy.end(), copy.unread) == (None, None, False)


def test_a_rule_that_needs_the_body_cannot_be_asked_about_an_unknown_coding() -> None:
    """So the answer is not inspected."""
    rules = load_rules('[[rule]]\nname = "r"\neffect = "failure"\npattern = "x"\n', "rules.toml")
    copy = reading(None, "br", rules)
    assert (copy.feed(b"x"), copy.end(), copy.unread) == (None, None, True)


def test_decoding_ends_where_the_reading_ends() -> None:
    """Of 1 GiB in 5 MB of gzip no more is decoded than the limit and one piece."""
    inspector = inspector_for(
        role="verify", kind="resources", method="POST", path="/verify", content_type="application/json", limit=100
    )
    copy = reading(inspector, "gzip")
    bomb = gzip.compress(bytes(2**25), 1) * 32
    tracemalloc.start()
    assert [copy.feed(bomb), copy.end(), copy.unread] == [None, None, True]
    assert tracemalloc.get_traced_memory()[1] < 2**23
    tracemalloc.stop()
