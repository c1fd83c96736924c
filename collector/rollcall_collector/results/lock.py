"""The lock of a run: one process at a time may change its files.

An advisory lock (flock(2)) on `<stem>_rollcall.lock`, which says in JSON who holds it. The system releases it when its
holder ends, however that comes about; children that were forked while it was held hold it with their parent. Who
releases it removes the file; who has locked a file looks whether it is still the one that others will find.
"""

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from . import files
from .errors import ResultsError, telling
from .names import lock_path

_TRIES, _PAUSE = 5, 0.05
"""`held_by` shares the lock for a moment, which must not look like a holder: tries, and seconds between them."""


class Held(Exception):
    """Another process has the lock; `about` is what it says of itself, empty where it has not said it yet."""

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        super().__init__(f"{path}: held by {_who(about)}; wait for its end, or end it, and run this again")
        self.about = about


class Lock:
    """A lock that is held until `release`, the end of the `with` block, or the end of the process."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self._handle: int | None = handle
        self._holder = os.getpid()

    @property
    def is_held(self) -> bool:
        return self._handle is not None

    def release(self) -> None:
        """Give the lock back; a second time does nothing, and a forked child leaves its parent's lock alone."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        try:
            if os.getpid() == self._holder:
                with suppress(OSError):  # What is left behind says nothing: it counts only while it is locked.
                    os.ftruncate(handle, 0)
                    if _is_still(self.path, handle):
                        self.path.unlink()
                fcntl.flock(handle, fcntl.LOCK_UN)
        finally:
            os.close(handle)

    def __enter__(self) -> "Lock":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def hold(output: Path, about: Mapping[str, Any]) -> Lock:
    """Take the run's lock and write `about` (the session, say) with this process's pid and host into it.

    Raises `Held` where another process has it, `ResultsError` where the file cannot be made, written or locked.
    """
    path = lock_path(output)
    for _ in range(_TRIES):
        lock = _try(path)
        if lock is not None:
            return _with_about(lock, {"pid": os.getpid(), "host": socket.gethostname()} | dict(about))
        time.sleep(_PAUSE)
    raise Held(path, _about(path))


def held_by(output: Path) -> dict[str, Any] | None:
    """What the holder of the run's lock says of itself, or None where nobody holds it."""
    path = lock_path(output)
    with telling(path, "cannot be looked at"):
        try:
            handle = files.opened(path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            return None if _flock(handle, fcntl.LOCK_SH) else _about(path)
        finally:
            os.close(handle)


@contextmanager
def holding(output: Path, lock: Lock | None) -> Iterator[Lock]:
    """The caller's own lock, which stays held, or one that is taken for the length of the block."""
    if lock is None:
        with hold(output, {}) as taken:
            yield taken
        return
    if not lock.is_held or lock.path != lock_path(output):
        raise ValueError(f"lock: {lock.path} is not held, or not the lock of {output}; pass the one of this output")
    yield lock


def _try(path: Path) -> Lock | None:
    with telling(path, "cannot be locked"):
        handle = files.opened(path, os.O_RDWR | os.O_CREAT)
        try:
            if _flock(handle, fcntl.LOCK_EX) and _is_still(path, handle):
                lock, handle = Lock(path, handle), -1
                return lock
            return None
        finally:
            if handle >= 0:
                os.close(handle)


def _flock(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(path: Path, handle: int) -> bool:
    """Whether the file that was locked is the one that others will find."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def _with_about(lock: Lock, about: dict[str, Any]) -> Lock:
    text = json.dumps(about).encode()
    try:
        with telling(lock.path, "cannot be written"):
            handle = lock._handle
            assert handle is not None
            os.ftruncate(handle, 0)
            if os.pwrite(handle, text, 0) != len(text):
                raise ResultsError(f"{lock.path}: could be written only in part; make room there and run this again")
    except BaseException:
        lock.release()
        raise
    return lock


def _about(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(files.read(path))
    except (OSError, ValueError, RecursionError, ResultsError):
        return {}
    return found if isinstance(found, dict) else {}


def _who(about: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in about.items()) or "a process that has not said who it is"
