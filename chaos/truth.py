"""What really happened, as those write it down to whom it happened.

Each process appends lines to a file of its own. A line is handed to the system whole and at once, so that no kill of a
process loses it; what the tests kill is processes and never the machine, so that nothing waits for the disk.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

Record = dict[str, Any]


class Truth:
    """This process's file in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        path = folder / f"{name}-{os.getpid()}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, kind: str, **what: Any) -> None:
        """Write one record down. `at` is the machine's monotonic clock, which all its processes share."""
        os.write(self._file, orjson.dumps({"is": kind, "at": time.monotonic(), **what}) + b"\n")


def records(folder: Path) -> Iterator[Record]:
    """All that was written down; a process that was killed may leave a torn last line."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield orjson.loads(line)


class Events:
    """Counts the records of some kinds while they are being written."""

    def __init__(self, folder: Path, *kinds: str) -> None:
        self._folder, self._marks = folder, [f'"is":"{kind}"'.encode() for kind in kinds]
        self._read: dict[Path, int] = {}
        self.seen = 0

    def count(self) -> int:
        """How many there are by now."""
        for path in self._folder.glob("*.jsonl"):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            self.seen += sum(whole.count(mark) for mark in self._marks)
        return self.seen
