"""`Skimmer`: a long text reads as it would read whole, as far as anything of it is wanted."""

import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.json_skimming import KEPT, Skimmer, Wanted
from rollcall_collector.contract.json_text import JsonText, read_json

WANTED: Wanted = {"status": None, "error": None, "choices": {"finish_reason": None}}

_names = st.sampled_from(["status", "error", "choices", "finish_reason", "other", 'a"b', "\\", "ü"])
_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.sampled_from('ab"\\[]{},:\n\u00e9 '))
_values = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_names, inner, max_size=4), max_leaves=20
)
_texts = st.builds(
    lambda value, indent, ascii_: json.dumps(value, indent=indent, ensure_ascii=ascii_).encode(),
    _values | st.dictionaries(_names, _values),
    st.sampled_from([None, 1]),
    st.booleans(),
)


def skimmed(pieces: Iterable[bytes], wanted: Wanted = WANTED) -> JsonText:
    skimmer = Skimmer(wanted)
    for piece in pieces:
        skimmer.feed(piece)
    return skimmer.end()


def cut(text: bytes, size: int) -> list[bytes]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def of(value: object, wanted: Wanted | None) -> object:
    """What is wanted of a value."""
    if wanted is None:
        return value
    if isinstance(value, dict):
        return {name: of(value[name], wanted[name]) for name in value if name in wanted}
    if isinstance(value, list):
        return [kept for each in value if (kept := of(each, wanted))]
    return None


@given(_texts, st.integers(1, 40))
def test_what_is_wanted_of_a_text_is_what_the_whole_text_says(text: bytes, size: int) -> None:
    found = skimmed(cut(text, size))
    assert found.state == "whole"
    assert repr(found.value) == repr(of(read_json(text).value, WANTED))


@given(_texts, st.integers(1, 40), st.data())
def test_a_text_that_ends_too_early_reads_as_it_does_whole(text: bytes, size: int, data: st.DataObject) -> None:
    text = text[: data.draw(st.integers(0, len(text)))]
    assert skimmed(cut(text, size)).state == read_json(text).state


@given(st.lists(st.binary(max_size=20) | st.sampled_from([b"{", b"}", b"[", b"]", b'"', b"\\", b'{"error":', b","])))
def test_no_bytes_make_it_raise(pieces: list[bytes]) -> None:
    assert skimmed(pieces).state in ("whole", "cut", "empty", "not_json")


@pytest.mark.parametrize(
    "text",
    [b"x", b"{} {}", b"{,}", b'{"a" 1}', b"{1:2}", b"[1 2]", b'{"a":[}]}', b'{"a":{"b":[1,2}]}', b"[tru]", b'{"a":1,}'],
)
def test_what_is_no_json_near_the_top_is_seen(text: bytes) -> None:
    assert skimmed(cut(text, 3)).state == read_json(text).state == "not_json"


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert skimmed([b"\xef", b'\xbb\xbf{"status":1}']).value == {"status": 1}


def test_a_wanted_value_that_is_long_is_there_and_not_held() -> None:
    text = json.dumps({"error": ["x" * KEPT], "status": "failed"}).encode()
    assert skimmed(cut(text, 1000)).value == {"error": {}, "status": "failed"}


def test_nothing_wanted_is_nothing_kept() -> None:
    assert skimmed([b'{"status":1}'], {}) == JsonText("whole", None)
