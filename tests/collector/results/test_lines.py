"""Lines keep their bytes, and only what is a row is read as one."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from result_files import write
from rollcall_collector.results.lines import key_of, lines, parse, rows

UNREADABLE = {
    "half a row": b'{"a": 1',
    "two rows": b'{"a": 1}{"a": 2}',
    "invalid UTF-8": b'{"a": "\xff"}',
    "half a surrogate in UTF-8": b'{"a": "\xed\xa0\x80"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"a": 1}',
    "NaN": b'{"a": NaN}',
    "infinity": b'{"a": -Infinity}',
    "a number too large": b'{"a": 1e999}',
    "a number too long": b'{"a": ' + b"1" * 5000 + b"}",
    "a name twice": b'{"a": 1, "a": 1}',
    "a name twice inside": b'{"b": [{"a": 1, "a": 2}]}',
    "nesting": b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "NUL": b"\0" * 100,
    "no object": b"[1]",
}


@pytest.mark.parametrize("raw", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_an_unreadable_line_is_yielded_with_its_bytes_and_the_rows_around_it_are_read(output: Path, raw: bytes) -> None:
    """It is None as a row, and hides nothing."""
    write(output, {"n": 1}, raw + b"\r\n", {"n": 3})
    assert list(rows(output)) == [(1, b'{"n":1}\n', {"n": 1}), (2, raw + b"\r\n", None), (3, b'{"n":3}\n', {"n": 3})]


def test_blank_lines_carriage_returns_and_a_missing_end_are_kept(output: Path) -> None:
    """A line is its bytes."""
    write(output, b'\n{"a": 1}\r\n  \n{"a": 2}')
    assert list(rows(output)) == [
        (1, b"\n", None),
        (2, b'{"a": 1}\r\n', {"a": 1}),
        (3, b"  \n", None),
        (4, b'{"a": 2}', {"a": 2}),
    ]


def test_a_line_longer_than_what_is_read_at_once_is_one_line(output: Path) -> None:
    """Three megabytes in one row."""
    row = {"text": "x" * 3_000_000}
    write(output, row, {"n": 2})
    assert [found for _, _, found in rows(output)] == [row, {"n": 2}]


def test_a_file_that_is_not_there_has_no_lines(output: Path) -> None:
    """And none is made."""
    assert list(rows(output)) == []
    assert not output.exists()


@given(content=st.lists(st.sampled_from([b"\n", b"\r", b"\0", b"{}", b'{"a":1}', b"\xff", b"[", b" "])).map(b"".join))
def test_lines_put_together_are_the_file(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    """Whatever the file holds; and each line begins where it says."""
    path = tmp_path_factory.mktemp("lines") / "x.jsonl"
    path.write_bytes(content)
    found = list(lines(path))
    assert b"".join(line.raw for line in found) == content
    assert all(content[line.start : line.end] == line.raw for line in found)


@given(row=st.dictionaries(st.text(), st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5)))
def test_every_json_object_is_a_row(row: dict[str, Any]) -> None:
    """As Gym's writer and as Python's would write it."""
    assert parse(json.dumps(row).encode()) == row


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ({"_ng_task_index": 3, "_ng_rollout_index": 0}, (3, 0, None)),
        ({"_ng_task_index": 3, "_ng_rollout_index": 0, "stage_index": 2}, (3, 0, 2)),
        ({"_ng_task_index": 3, "_ng_rollout_index": 0, "stage_index": "final"}, (3, 0, None)),
        ({"_ng_task_index": 3}, None),
        ({"_ng_task_index": True, "_ng_rollout_index": 0}, None),
        ({"_ng_task_index": "3", "_ng_rollout_index": 0}, None),
        ({"_ng_task_index": 3.0, "_ng_rollout_index": 0}, None),
        ({"_ng_task_index": -1, "_ng_rollout_index": 0}, None),
    ],
)
def test_the_key_of_a_row_is_made_of_whole_numbers_only(row: dict[str, Any], key: object) -> None:
    """A truth value is none."""
    assert key_of(row) == key
