"""Events on disk while the collector is away: one file a sender, appended to, taken back in order.

Each line is a batch `{"sender", "first", "events"}` as it goes to the collector, on disk before `append` returns.
A sender's file is locked while its process lives, so that a later process delivers only what a dead one has left.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson


class Spool:
    """The spool of one sender."""

    def __init__(self, folder: Path, sender: str) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.path = folder / f"{sender}.jsonl"
            self._file = self.path.open("a+b", buffering=0)  # what the disk refused must not be written later
        except OSError as error:
            raise OSError(error.errno, f"the spool {folder} cannot be written: {error.strerror}; set spool") from error
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.depth = sum(1 for _ in self._lines())

    def append(self, batch: bytes) -> None:
        """Keep a batch. Raises OSError when the disk does not take it; then nothing of it is kept."""
        if os.fstat(self._file.fileno()).st_nlink == 0:
            raise OSError(errno.ENOENT, f"{self.path} has been removed")
        end, rest = self._file.seek(0, os.SEEK_END), batch + b"\n"
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(end)
            raise
        self.depth += 1

    def batches(self) -> list[bytes]:
        """What waits, in order."""
        return list(self._lines())

    def clear(self) -> None:
        """All has been delivered."""
        self._file.truncate(0)
        os.fsync(self._file.fileno())
        self.depth = 0

    def close(self) -> None:
        """Unlock the file; remove it where nothing waits in it."""
        if self.depth == 0:
            self.path.unlink(missing_ok=True)
        self._file.close()

    def _lines(self) -> Iterator[bytes]:
        self._file.seek(0)
        for line in self._file.read().splitlines(keepends=True):
            if line.endswith(b"\n") and _is_json(line):  # a line torn by a crash was never promised to anybody
                yield line.rstrip(b"\n")


def left_behind(folder: Path, own: str) -> list[Spool]:
    """The spools of senders whose processes have died, oldest first, locked for this process."""
    if not folder.is_dir():
        return []
    found = [path for path in folder.glob("*.jsonl") if path.stem != own]
    spools = (_taken(folder, path) for path in sorted(found, key=lambda path: path.stat().st_mtime))
    return [spool for spool in spools if spool is not None]


def _taken(folder: Path, path: Path) -> Spool | None:
    try:
        return Spool(folder, path.stem)
    except OSError:
        return None  # its process lives


def _is_json(line: bytes) -> bool:
    try:
        value: Any = orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return isinstance(value, dict)
