"""Events on disk while the collector is away: one file a sender, appended to, taken back in order and in portions.

Each line is a batch `{"sender", "first", "events"}` as it goes to the collector, on disk before `append` returns.
A sender's file is locked while its process lives, so that a later process delivers only what a dead one has left.

How far the file has been delivered stands beside it (`<sender>.sent`), so that it is not sent from its beginning again.
That is a help and no record: it is believed only where the batch that it names stands at its place, and a batch that
is sent twice has one effect.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from rollcall_collector.private import make_folder


@dataclass(frozen=True, slots=True)
class Line:
    """A batch in the spool: its text, its first number, its events, and where its line ends in the file."""

    batch: bytes
    first: int
    events: list[Any]
    end: int


class Spool:
    """The spool of one sender. `depth`: batches that have not been delivered."""

    def __init__(self, folder: Path, sender: str) -> None:
        try:
            make_folder(folder)
            self.path, self._sent_path = folder / f"{sender}.jsonl", folder / f"{sender}.sent"
            self._file = self.path.open("a+b", buffering=0)  # what the disk refused must not be written later
        except OSError as error:
            raise OSError(error.errno, f"the spool {folder} cannot be written: {error.strerror}; set spool") from error
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._sent = self._sent_so_far()
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

    def portion(self, size: int) -> list[Line]:
        """The next batches that wait, in order: one, and more while they are no longer than `size` bytes together."""
        found: list[Line] = []
        for line in self._lines():
            size -= len(line.batch)
            if found and size < 0:
                break
            found.append(line)
        return found

    def delivered(self, lines: list[Line]) -> None:
        """These, the next that waited, have been delivered."""
        self.depth -= len(lines)
        if self.depth <= 0:
            self.clear()
            return
        self._sent = lines[-1].end
        with suppress(OSError):  # a help and no record
            self._sent_path.write_text(f"{self._sent} {lines[-1].first + len(lines[-1].events)}\n")

    def clear(self) -> None:
        """Nothing waits any more."""
        self._sent_path.unlink(missing_ok=True)
        self._file.truncate(0)
        os.fsync(self._file.fileno())
        self._sent = self.depth = 0

    def close(self) -> None:
        """Unlock the file; remove it where nothing waits in it."""
        if self.depth == 0:
            self.path.unlink(missing_ok=True)
            self._sent_path.unlink(missing_ok=True)
        self._file.close()

    def _lines(self) -> Iterator[Line]:
        """What has not been delivered. A line torn by a crash was never promised to anybody."""
        with self.path.open("rb") as file:
            file.seek(self._sent)
            end = self._sent
            for text in file:
                end += len(text)
                if text.endswith(b"\n") and (batch := _batch(text)) is not None:
                    yield Line(text.rstrip(b"\n"), batch["first"], batch["events"], end)

    def _sent_so_far(self) -> int:
        """How far an earlier process has delivered the file; 0 where that cannot be believed."""
        with suppress(OSError, ValueError):
            sent, first = map(int, self._sent_path.read_text().split())
            with self.path.open("rb") as file:
                file.seek(max(0, sent - 1))
                before, following = file.read(1), _batch(file.readline())
            if before == b"\n" and following is not None and following["first"] == first:
                return sent
        return 0


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


def _batch(text: bytes) -> dict[str, Any] | None:
    """The batch in a line, None where it is none."""
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    is_batch = isinstance(value, dict) and isinstance(value.get("first"), int) and isinstance(value.get("events"), list)
    return value if is_batch else None
