"""The lines of a result file, one at a time, and the repair of a last one that a crash has torn.

A line is kept byte by byte, whatever it holds. A row is a line that is one JSON object by the letter of RFC 8259,
in UTF-8, with unique names and finite numbers. Every other line, blank ones aside, is unreadable: it is counted, and
never moved, changed or left out.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from . import durable, files
from .durable import READ
from .errors import ResultsError, telling

Key = tuple[int, int, int | None]
"""Task index, rollout index, and stage index where the row has one."""


class Line(NamedTuple):
    """A line with its end; `number` counts from 1, `start` is its offset in bytes."""

    number: int
    start: int
    raw: bytes

    @property
    def end(self) -> int:
        return self.start + len(self.raw)


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a file: where its last line begins, the file's size, and whether that line has its newline.

    `unended` is a whole line that only lacks it; `torn` is one that is not whole JSON, or ends in NUL bytes, as some
    file systems leave them after a loss of power.
    """

    start: int
    size: int
    state: Literal["ended", "unended", "torn"]


def lines(path: Path, end: int | None = None) -> Iterator[Line]:
    """The lines that begin before `end`, without a bound all; none where there is no file. Raises `ResultsError`."""
    with telling(path, "cannot be read"), suppress(FileNotFoundError), files.to_read(path, READ) as file:
        start, number = 0, 1
        while (end is None or start < end) and (raw := file.readline(files.LONGEST_LINE)):
            if len(raw) == files.LONGEST_LINE and raw[-1:] != b"\n":
                long = f"line {number} has more than {files.LONGEST_LINE} bytes"
                raise ResultsError(f"{path}: {long}; take it out and run this again")
            yield Line(number, start, raw)
            start, number = start + len(raw), number + 1


def rows(path: Path) -> Iterator[tuple[int, bytes, dict[str, Any] | None]]:
    """Each line's number, bytes and row; the row is None for a blank line and for an unreadable one."""
    for line in lines(path):
        yield line.number, line.raw, parse(line.raw)


def parse(raw: bytes) -> dict[str, Any] | None:
    """The row that a line is, or None. Nesting too deep for Python's reader makes a line unreadable."""
    try:
        row = _STRICT.decode(str(raw, "utf-8"))
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def key_of(row: Mapping[str, Any]) -> Key | None:
    """Which rollout a row speaks of; None where it does not say so with whole numbers."""
    task, rollout = _index(row.get("_ng_task_index")), _index(row.get("_ng_rollout_index"))
    return None if task is None or rollout is None else (task, rollout, _index(row.get("stage_index")))


def tail_of(path: Path) -> Tail | None:
    """How a file ends, by a look at its end only; None where there is no file or nothing in it."""
    with telling(path, "cannot be read"), suppress(FileNotFoundError), files.to_read(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            return None
        last = os.pread(file.fileno(), 1, size - 1)
        if last == b"\n":
            return Tail(size, size, "ended")
        start = _last_line(file.fileno(), size)
        whole = last != b"\0" and size - start < files.LONGEST_LINE
        whole = whole and _is_whole(b"".join(durable.piece(path, start, size)))
        return Tail(start, size, "unended" if whole else "torn")
    return None


def repair_tail(path: Path) -> Path | None:
    """Give a whole last line its newline; move a torn one into `<name>.torn-N` beside, and return that file's path.

    The caller holds the run's lock, and nobody has the file open to write. A crash on the way loses nothing: the torn
    bytes are in the other file, on disk, before this one is cut. Raises `ResultsError`.
    """
    tail = tail_of(path)
    if tail is None or tail.state == "ended":
        return None
    durable.check_writable(path)
    if tail.state == "unended":
        durable.append(path, [b"\n"])
        return None
    kept = _keep(path, tail)
    durable.cut(path, tail.start)
    return kept


def _keep(path: Path, tail: Tail) -> Path:
    number = 1
    while (found := path.with_name(f"{path.name}.torn-{number}")).exists():
        if _holds(found, path, tail):
            return found  # A repair that was stopped before the cut has made it.
        number += 1
    temporary = durable.write_beside(found, durable.piece(path, tail.start, tail.size))
    durable.replace(temporary, found)
    return found


def _holds(kept: Path, path: Path, tail: Tail) -> bool:
    size = tail.size - tail.start
    if kept.stat().st_size != size:
        return False
    pieces = zip(durable.piece(kept, 0, size), durable.piece(path, tail.start, tail.size), strict=True)
    return all(one == other for one, other in pieces)


def _last_line(handle: int, size: int) -> int:
    while size > 0:
        start = max(0, size - READ)
        newline = os.pread(handle, size - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        size = start
    return 0


def _is_whole(raw: bytes) -> bool:
    """A blank line is whole. NaN and double names do not tear a line: only its end is at question here."""
    if raw.isspace():
        return True
    try:
        json.loads(str(raw, "utf-8"))
    except (ValueError, RecursionError):
        return False
    return True


def _index(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number too large")
    return number


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_refuse)
