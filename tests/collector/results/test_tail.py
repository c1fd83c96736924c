"""The last line of a file after a crash: a torn one is kept beside, a whole one gets its newline."""

from pathlib import Path

import pytest
from result_files import names, write
from rollcall_collector.results.errors import ResultsError
from rollcall_collector.results.lines import repair_tail

GOOD = b'{"a":1}\r\n\nnot a row\n'
TORN = {
    "half a row": b'{"a": 1, "b": "\xe2\x82',
    "NUL bytes": b"\0" * 5000,
    "NUL bytes after a row": b'{"a": 1}' + b"\0" * 5000,
    "a row and a half": b'{"a": 1}{"a"',
    "long": b'{"a": "' + b"x" * 300_000,
    "deep": b"[" * 200_000,
}


@pytest.mark.parametrize("torn", TORN.values(), ids=TORN.keys())
@pytest.mark.parametrize("before", [b"", GOOD], ids=["alone", "after others"])
def test_a_torn_last_line_is_moved_whole_into_a_file_beside(output: Path, before: bytes, torn: bytes) -> None:
    """What was before it keeps its bytes; a second repair finds nothing."""
    write(output, before, torn)
    kept = repair_tail(output)
    assert kept == output.with_name("rollouts.jsonl.torn-1")
    assert (output.read_bytes(), kept.read_bytes()) == (before, torn)
    assert repair_tail(output) is None


@pytest.mark.parametrize("last", [b'{"a":2}', b'{"a":2}\r', b'{"a":NaN}', b'{"a":1,"a":1}', b"  ", b"7"])
def test_a_whole_last_line_gets_its_newline(output: Path, last: bytes) -> None:
    """Nothing is moved."""
    write(output, GOOD, last)
    assert repair_tail(output) is None
    assert output.read_bytes() == GOOD + last + b"\n"
    assert names(output) == ["rollouts.jsonl"]


@pytest.mark.parametrize("content", [b"", GOOD, b'{"torn\n{"a":1}\n', b"\0\0\n"])
def test_a_file_that_ends_with_a_newline_is_not_touched(output: Path, content: bytes) -> None:
    """Also where lines before the last one are unreadable: those are for people to look at."""
    write(output, content)
    before = output.stat().st_mtime_ns
    assert repair_tail(output) is None
    assert (output.read_bytes(), output.stat().st_mtime_ns) == (content, before)


def test_a_file_that_is_not_there_needs_no_repair(output: Path) -> None:
    """And none is made."""
    assert repair_tail(output) is None
    assert names(output) == []


def test_each_torn_line_is_kept_in_a_file_of_its_own(output: Path) -> None:
    """One that is kept already, since the repair was stopped before the cut, is not kept twice."""
    kept = []
    for torn in (b'{"first', b'{"second', b'{"first'):
        write(output, GOOD, torn)
        kept.append(repair_tail(output))
    assert [path.name for path in kept if path] == [f"rollouts.jsonl.torn-{number}" for number in (1, 2, 1)]
    assert names(output) == ["rollouts.jsonl", "rollouts.jsonl.torn-1", "rollouts.jsonl.torn-2"]


def test_a_write_protected_file_is_refused_and_stays_as_it_is(output: Path) -> None:
    """The error says what to do."""
    content = write(output, GOOD, b'{"torn')
    output.chmod(0o444)
    with pytest.raises(ResultsError, match=r"rollouts.jsonl: is write-protected; allow writing"):
        repair_tail(output)
    assert output.read_bytes() == content
    assert names(output) == ["rollouts.jsonl"]
