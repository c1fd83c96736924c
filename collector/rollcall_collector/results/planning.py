"""A move that has been thought out and not yet made: which lines leave a file, and what the other one gets.

A plan is made by reading each file once, line by line. What is held meanwhile is, for the rows asked for alone, where
they are and a digest of each; their bytes are read again when they are written.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from . import durable
from .errors import ResultsError, telling
from .lines import Line, lines, parse, tail_of
from .report import Tally
from .written import dump

Progress = Callable[[int, int], None]
"""Told now and then how many bytes of how many have been read."""

TOO_DEEP = "it is nested too deep to be written again"

_STEP = 16 * 1024 * 1024


class Span(NamedTuple):
    """Where a line is, and the digest of its row."""

    start: int
    end: int
    digest: bytes = b""


class Arrival(NamedTuple):
    """Rows to add to the other file, made of the rows at `spans` when they are written."""

    spans: tuple[Span, ...]
    make: Callable[[list[dict[str, Any]]], Iterable[dict[str, Any]]]


@dataclass(slots=True)
class Plan:
    """A move: the lines that leave `source`, what `target` gets, and how `source` looked before it was read."""

    source: Path
    target: Path
    seen: tuple[int, ...] | None
    leaving: list[Span] = field(default_factory=list)
    arriving: list[Arrival] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)

    def added(self) -> Iterator[bytes]:
        """The lines that `target` gets; one arrival's rows are in memory at a time."""
        for arrival in self.arriving:
            yield from map(dump, arrival.make([row_at(self.source, span) for span in arrival.spans]))

    def staying(self) -> Iterator[bytes]:
        """Every other byte of `source`, in its order."""
        start, end = 0, self.source.stat().st_size
        for span in sorted(self.leaving):
            yield from durable.piece(self.source, start, span.start)
            start = span.end
        yield from durable.piece(self.source, start, end)

    def check_unchanged(self) -> None:
        """Refuse to go on where somebody has written to `source` since it was read."""
        if state_of(self.source) != self.seen:
            raise _changed(self.source)


def state_of(path: Path) -> tuple[int, ...] | None:
    """What tells one state of a file from another; None where there is no file."""
    with telling(path, "cannot be looked at"):
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def read(
    path: Path, tally: Tally | None = None, on_progress: Progress | None = None
) -> Iterator[tuple[Line, dict[str, Any]]]:
    """The rows of a file but for a torn last line, which is not one yet; counts the unreadable lines."""
    tail = tail_of(path)
    if tail is None:
        return
    told, end = 0, tail.start if tail.state == "torn" else tail.size
    for line in lines(path, end):
        row = parse(line.raw)
        if row is not None:
            yield line, row
        elif tally and not line.raw.isspace():
            tally.unreadable += 1
        if on_progress and (line.end - told >= _STEP or line.end == end):
            told = line.end
            on_progress(told, end)


def row_at(path: Path, span: Span) -> dict[str, Any]:
    """The row that was found at a span."""
    row = parse(b"".join(durable.piece(path, span.start, span.end)))
    if row is None:
        raise _changed(path)
    return row


def _changed(path: Path) -> ResultsError:
    cure = "end what writes to it (its run may still be on) and run this again"
    return ResultsError(f"{path}: was written to while its rows were being moved; {cure}")
