"""Opening the files of a run: regular ones alone. A pipe would never answer, and some devices never end."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from .errors import ResultsError

LONGEST_LINE = 512 * 1024 * 1024
"""Bytes of a line: as many as a request's body may have, by which a row would come."""

WHOLE = 64 * 1024 * 1024
"""Bytes of a file that is read as a whole."""

_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def opened(path: Path, flags: int, mode: int = 0o666) -> int:
    """A handle of a regular file. Raises OSError; ResultsError where something else stands there."""
    handle = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, mode)
    kind = stat.S_IFMT(os.fstat(handle).st_mode)
    if kind == stat.S_IFREG:
        return handle
    os.close(handle)
    raise ResultsError(f"{path}: is {_KINDS.get(kind, 'something else')}, and no file; put the file there")


def to_read(path: Path, buffering: int = 0) -> BinaryIO:
    """The file, open. Raises as `opened`."""
    return open(opened(path, os.O_RDONLY), "rb", buffering=buffering)


def read(path: Path) -> bytes:
    """All of a small file. Raises as `opened`, and ResultsError where it is not small."""
    with to_read(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > WHOLE:
            raise ResultsError(f"{path}: has {size} bytes, at most {WHOLE} are read; put it back from a copy")
        return file.read()
