"""Writes that a crash leaves either undone or done: each one is on disk when its function returns.

Of an error, too, nothing half is left: a file that was being added to has its old length again, and a temporary is
gone. A kill can leave a temporary (`.NAME.rollcall-PID.tmp`) or a torn last line; `clear` and `lines.repair_tail` see
to those. Whoever writes holds the run's lock.
"""

import errno
import glob
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from .errors import ResultsError, telling
from .files import opened, to_read

READ = 64 * 1024
"""Bytes that are read at once."""


def piece(path: Path, start: int, end: int) -> Iterator[bytes]:
    """The bytes of a file from `start` to before `end`, in small portions."""
    with telling(path, "cannot be read"), to_read(path) as file:
        file.seek(start)
        while start < end and (chunk := file.read(min(READ, end - start))):
            yield chunk
            start += len(chunk)


def write_beside(path: Path, chunks: Iterable[bytes], like: os.stat_result | None = None) -> Path:
    """A temporary beside `path` that holds the chunks, with the mode and, where this user may, the owner of `like`."""
    temporary = path.with_name(f".{path.name}.rollcall-{os.getpid()}.tmp")
    discard(temporary)  # Of a killed process that had this one's id.
    with telling(temporary, "cannot be written"):
        handle = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if like is None else 0o600
        )
        try:
            if like is not None:
                _liken(handle, like)
            _write(handle, chunks)
            os.fsync(handle)
        except BaseException:
            discard(temporary)
            raise
        finally:
            os.close(handle)
    return temporary


def replace(temporary: Path, path: Path) -> None:
    """Put the temporary in the place of `path`; it is gone if that cannot be done."""
    with telling(path, "cannot be replaced"):
        try:
            os.replace(temporary, path)
        except BaseException:
            discard(temporary)
            raise
    sync_folder(path.parent)


def append(path: Path, chunks: Iterable[bytes]) -> None:
    """Add to the end of a file, which is made where there is none."""
    with telling(path, "cannot be added to"):
        path = Path(os.path.realpath(path))
        is_new = not path.exists()
        handle = opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            _append(handle, chunks)
        except BaseException:
            if is_new:
                discard(path)
            raise
        finally:
            os.close(handle)
    sync_folder(path.parent)


def cut(path: Path, size: int) -> None:
    """Shorten a file to `size` bytes."""
    with telling(path, "cannot be shortened"):
        handle = opened(path, os.O_WRONLY)
        try:
            os.ftruncate(handle, size)
            os.fsync(handle)
        finally:
            os.close(handle)


def discard(path: Path) -> None:
    """Remove a file; one that cannot be removed now is removed by the next move's `clear`."""
    with suppress(OSError):
        os.unlink(path)


def clear(path: Path) -> int:
    """Remove the temporaries that killed moves have left beside `path`; how many there were."""
    name = glob.escape(path.name)
    patterns = (f".{name}.rollcall-*.tmp", f".{name}.torn-*.rollcall-*.tmp")
    left = [temporary for pattern in patterns for temporary in sorted(path.parent.glob(pattern))]
    for temporary in left:
        with telling(temporary, "left by a move that was killed, cannot be removed"):
            os.unlink(temporary)
    return len(left)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable; some network file systems cannot, and need not (EINVAL)."""
    with telling(folder, "cannot be made durable"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
        finally:
            os.close(handle)


def check_replaceable(path: Path) -> os.stat_result:
    """Refuse what a rename would break or overrule: other names of the file, and its write protection."""
    with telling(path, "cannot be looked at"):
        found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise ResultsError(f"{path}: not a regular file, so it cannot be replaced; give the path of the run's output")
    if found.st_nlink > 1:
        cure = "make it a file of its own (cp -p it and mv the copy over it) and run this again"
        raise ResultsError(f"{path}: has {found.st_nlink} names (hard links), which would come apart; {cure}")
    check_writable(path)
    return found


def check_writable(path: Path) -> None:
    """Refuse a file without any write bit, for the superuser too, and one that this user may not write."""
    if path.exists() and not (path.stat().st_mode & 0o222 and os.access(path, os.W_OK)):
        raise ResultsError(f"{path}: is write-protected; allow writing (chmod u+w) and run this again")


def _append(handle: int, chunks: Iterable[bytes]) -> None:
    before = os.fstat(handle).st_size
    written = [0]
    try:
        _write(handle, chunks, written)
        os.fsync(handle)
    except BaseException:
        # Only what was written here is taken back: a length that is not explained by it is somebody else's writing.
        with suppress(OSError):
            if os.fstat(handle).st_size == before + written[0]:
                os.ftruncate(handle, before)
                os.fsync(handle)
        raise


def _write(handle: int, chunks: Iterable[bytes], written: list[int] | None = None) -> None:
    for chunk in chunks:
        rest = memoryview(chunk)
        while rest:
            count = os.write(handle, rest)
            rest = rest[count:]
            if written is not None:
                written[0] += count


def _liken(handle: int, like: os.stat_result) -> None:
    own = os.fstat(handle)
    if (own.st_uid, own.st_gid) != (like.st_uid, like.st_gid):
        with suppress(PermissionError):
            os.fchown(handle, like.st_uid, like.st_gid)
    os.fchmod(handle, stat.S_IMODE(like.st_mode))
