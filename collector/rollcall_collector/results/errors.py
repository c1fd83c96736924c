"""What is said when a result file cannot be read or changed: which file, what was tried, why not, and the cure."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ROOM = "make room there and run this again"
_RIGHTS = "make the file and its folder writable for this user and run this again"

CURES = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: "raise the limit on the size of files and run this again",
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EROFS: "mount its file system writable and run this again",
    errno.ENOENT: "check the path of the output",
    errno.ENOTDIR: "check the path of the output",
    errno.ENOLCK: "keep the output on a file system with locks (flock)",
    errno.ENOTSUP: "keep the output on a file system with locks (flock)",
}


class ResultsError(Exception):
    """A result file could not be read or changed; the text names it, the cause and the cure. No row is lost."""


@contextmanager
def telling(path: Path, tried: str) -> Iterator[None]:
    """Translate the system's error into one that says what was tried with which file; the cause is kept."""
    try:
        yield
    except OSError as error:
        cure = CURES.get(error.errno or 0, "see to the cause and run this again")
        raise ResultsError(f"{path}: {tried}: {error.strerror or error}; {cure}") from error
