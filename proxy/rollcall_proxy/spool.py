"""Events on disk while the collector is away: files of one sender, appended to, taken back in order and in portions.

Each line is a batch `{"sender", "first", "events"}` as it goes to the collector, on disk before `append` returns.
A sender's first file is locked while its process lives, so that a later process delivers only what a dead one has left.

What is delivered is released in segments: the first file (`<sender>.jsonl`) is followed by others
(`<sender>.<number>.seg`), each begun when the one before is full, and removed once it has been delivered; the first one
is emptied. So the disk holds what waits and less than a segment more, however slowly that is delivered.

How far the oldest segment has been delivered stands beside it (`<sender>.sent`), so that it is not sent from its
beginning again. That is a help and no record: it is believed only where the batch that it names stands at its place,
and a batch that is sent twice has one effect.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

import orjson
from rollcall_collector.private import make_folder

SEGMENT_BYTES = 16 * 1024 * 1024
"""Bytes from which on a segment is full."""


@dataclass(frozen=True, slots=True)
class Line:
    """A batch in the spool: its text, its first number, its events, its segment, and where its line ends in there."""

    batch: bytes
    first: int
    events: list[Any]
    segment: int
    end: int


class Spool:
    """The spool of one sender. `depth`: batches that have not been delivered."""

    def __init__(self, folder: Path, sender: str, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._folder, self._sender, self._full = folder, sender, segment_bytes
        try:
            make_folder(folder)
            self.path, self._sent_path = folder / f"{sender}.jsonl", folder / f"{sender}.sent"
            self._first = self.path.open("a+b", buffering=0)  # what the disk refused must not be written later
        except OSError as error:
            raise OSError(error.errno, f"the spool {folder} cannot be written: {error.strerror}; set spool") from error
        fcntl.flock(self._first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._segments = [0, *sorted(_number(path) for path in folder.glob(f"{sender}.[0-9]*.seg"))]
        self._file = self._opened(self._segments[-1])
        self._sent = self._sent_so_far()
        self.depth = sum(1 for _ in self._lines())

    def append(self, batch: bytes) -> None:
        """Keep a batch. Raises OSError when the disk does not take it; then nothing of it is kept."""
        if os.fstat(self._file.fileno()).st_nlink == 0:
            raise OSError(errno.ENOENT, f"{self._file.name} has been removed")
        if self._file.seek(0, os.SEEK_END) >= self._full:
            self._begin_segment()
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
        last = lines[-1]
        for number in [each for each in self._segments if each < last.segment]:
            self._release(number)
        if last.segment != self._segments[-1] and last.end == self._segment(last.segment).stat().st_size:
            self._sent_path.unlink(missing_ok=True)
            self._release(last.segment)
            self._sent = 0, 0
            return
        self._sent = last.segment, last.end
        with suppress(OSError):  # a help and no record
            self._sent_path.write_text(f"{last.end} {last.first + len(last.events)} {last.segment}\n")

    def clear(self) -> None:
        """Nothing waits any more."""
        self._sent_path.unlink(missing_ok=True)
        for number in list(self._segments):
            self._release(number)
        if self._file is not self._first:
            self._file.close()
        self._file, self._segments, self._sent, self.depth = self._first, [0], (0, 0), 0

    def close(self) -> None:
        """Unlock the files; remove them where nothing waits in them."""
        if self.depth == 0:
            self.clear()
            self.path.unlink(missing_ok=True)
        self._file.close()
        self._first.close()

    # Segments.

    def _segment(self, number: int) -> Path:
        return self._folder / f"{self._sender}.{number}.seg" if number else self.path

    def _opened(self, number: int) -> FileIO:
        return self._segment(number).open("a+b", buffering=0) if number else self._first

    def _begin_segment(self) -> None:
        number = self._segments[-1] + 1
        file = self._opened(number)
        try:
            _sync(self._folder)
        except OSError:
            file.close()
            raise
        if self._file is not self._first:
            self._file.close()
        self._file = file
        self._segments.append(number)

    def _release(self, number: int) -> None:
        """All of a segment has been delivered. The first one stays: it is what is locked."""
        if number:
            self._segment(number).unlink(missing_ok=True)
        else:
            self._first.truncate(0)
            os.fsync(self._first.fileno())
        self._segments.remove(number)

    def _lines(self) -> Iterator[Line]:
        """What has not been delivered. A line torn by a crash was never promised to anybody."""
        sent_in, sent = self._sent
        for number in list(self._segments):
            with suppress(FileNotFoundError), self._segment(number).open("rb") as file:
                end = file.seek(sent if number == sent_in else 0)
                for text in file:
                    end += len(text)
                    if text.endswith(b"\n") and (batch := _batch(text)) is not None:
                        yield Line(text.rstrip(b"\n"), batch["first"], batch["events"], number, end)

    def _sent_so_far(self) -> tuple[int, int]:
        """The segment of which an earlier process has delivered a part, and how far; 0 where it cannot be believed."""
        with suppress(OSError, ValueError):
            sent, first, number = map(int, [*self._sent_path.read_text().split(), "0"][:3])
            with self._segment(number).open("rb") as file:
                file.seek(max(0, sent - 1))
                before, following = file.read(1), _batch(file.readline())
            if before == b"\n" and following is not None and following["first"] == first:
                return number, sent
        return 0, 0


def left_behind(folder: Path, own: str) -> list[Spool]:
    """The spools of senders whose processes have died, oldest first, locked for this process."""
    if not folder.is_dir():
        return []
    files = [*folder.glob("*.jsonl"), *folder.glob("*.[0-9]*.seg")]
    oldest = {_sender(path): _age(path) for path in sorted(files, key=_age, reverse=True)}
    spools = (_taken(folder, sender) for sender in sorted(oldest, key=oldest.__getitem__) if sender != own)
    return [spool for spool in spools if spool is not None]


def _sender(path: Path) -> str:
    return path.stem if path.suffix == ".jsonl" else path.stem.rpartition(".")[0]


def _number(path: Path) -> int:
    return int(path.stem.rpartition(".")[2])


def _age(path: Path) -> float:
    return path.stat().st_mtime


def _sync(folder: Path) -> None:
    """Have the folder's names on disk."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _taken(folder: Path, sender: str) -> Spool | None:
    try:
        return Spool(folder, sender)
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
