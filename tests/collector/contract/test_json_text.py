"""`read_json`: whole, cut, empty, or not JSON at all."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.json_text import read_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
TREES = st.lists(VALUES, max_size=4) | st.dictionaries(st.text(max_size=4), VALUES, max_size=4)


@given(TREES, st.data())
def test_every_cut_of_a_text_is_cut_or_empty(value: Any, data: st.DataObject) -> None:
    """However much of it has come, also in the middle of a character."""
    body = orjson.dumps(value)
    size = data.draw(st.integers(0, len(body) - 1))
    assert (read_json(body).state, read_json(body[:size]).state) == ("whole", "cut" if size else "empty")


@pytest.mark.parametrize(
    "text",
    [
        '"ab',
        '"a\\',
        '"\\u12',
        '"\\u001f',
        '["\\ud83d\\u',
        "tru",
        "[nul",
        "-",
        "[1.",
        "[2e",
        "[1.5e+",
        "[-Infin",
        "[NaN, Na",
        "[1, ",
    ],
)
def test_a_text_that_more_could_complete_is_cut(text: str) -> None:
    """In the middle of every kind of token."""
    found = read_json(text.encode())
    assert found.state == "cut"
    assert f"of {len(text)}" in found.problem


@pytest.mark.parametrize(
    "body",
    [b"{'a': 1", b"<html>", b'{"a": 1}}', b"[1,]", b'{"a" 1', b"\xff\xfe\x00", b'["\\x', b"[" * 5000, b"data: {"],
)
def test_other_texts_are_not_json_and_not_cut(body: bytes) -> None:
    """Nothing more could make them JSON, or it would not be worth asking."""
    assert read_json(body).state == "not_json"


@pytest.mark.parametrize("body", [b"", b" \n", b"\xef\xbb\xbf"])
def test_blanks_are_empty(body: bytes) -> None:
    """No text at all."""
    assert read_json(body).state == "empty"


@pytest.mark.parametrize(
    "body",
    [
        b"[NaN, -Infinity]",
        b'\xef\xbb\xbf["a"]',
        b'["a\nb"]',
        b'["\\ud800"]',
        b"[" + b"1" * 5000 + b"]",
        b'{"a":1,"a":2}',
    ],
)
def test_odd_json_is_whole(body: bytes) -> None:
    """The clients of model servers read it."""
    found = read_json(body)
    assert found.state == "whole"
    assert found.value


def test_utf_16_is_read() -> None:
    """RFC 8259 says UTF-8, older ones allowed more."""
    assert read_json('{"a": "é"}'.encode("utf-16")).value == {"a": "é"}


@given(st.binary(max_size=40))
def test_no_bytes_raise(body: bytes) -> None:
    """Whatever they are, they have a state."""
    assert read_json(body).state in ("whole", "cut", "empty", "not_json")
