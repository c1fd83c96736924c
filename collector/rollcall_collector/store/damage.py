"""A damaged SQLite file: noticed, set aside and said; what was in it is rebuilt from the run's files.

Reading a large file through at every start would take minutes. So a start looks at the schema and at each table's
beginning; and where damage shows later, a mark beside the file has the next start read it through.
"""

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import Connection, Engine, insert, select, text
from sqlalchemy.exc import DBAPIError

from ..private import make_file
from .schema import metadata, notes

log = logging.getLogger(__name__)

_SIGNS = ("malformed", "file is not a database", "unsupported file format")
_HEADER = b"SQLite format 3\0"


def is_damage(error: BaseException) -> bool:
    """Whether SQLite says that its file is damaged."""
    return any(sign in str(getattr(error, "orig", "")) for sign in _SIGNS)


@contextmanager
def looking_at(path: Path) -> Iterator[None]:
    """Have the opening of a file to oneself, so that of several programs that start at once one sets it aside."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks: its files are for one program
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def look_at_tables(connection: Connection) -> None:
    """Read the beginning of each table, or all of a file that has shown damage. Raises what SQLite raises."""
    if connection.dialect.name != "sqlite":
        return
    for table in metadata.sorted_tables:
        connection.execute(select(table).limit(1)).first()
    suspect = _mark_of(connection.engine)
    if suspect is not None and suspect.exists():
        found = connection.execute(text("PRAGMA integrity_check(1)")).scalar()
        if found != "ok":
            raise DBAPIError("PRAGMA integrity_check", None, Exception(f"database disk image is malformed: {found}"))
        suspect.unlink()


Identity = tuple[int, int]


def identity(engine: Engine) -> Identity | None:
    """Which file it is that lies at the database's path; None where there is none."""
    path = _path_of(engine)
    try:
        found = None if path is None else os.stat(path)
    except FileNotFoundError:
        return None
    return None if found is None else (found.st_dev, found.st_ino)


def make_sure_of(engine: Engine, opened: Identity | None) -> None:
    """Raises DBAPIError where the file that was opened lies no longer at its path.

    SQLite writes on into a file that was removed or renamed, and what is confirmed then is gone with the process.
    """
    if opened is not None and identity(engine) != opened:
        cure = "put it back, or restart the collector, which begins a new one"
        text = f"the database {engine.url.database} was moved away or removed; {cure}"
        raise DBAPIError("COMMIT", None, Exception(text))


def mark(engine: Engine) -> None:
    """Damage has shown: the next start shall read the whole file."""
    found = _mark_of(engine)
    if found is not None:
        found.touch()


def _mark_of(engine: Engine) -> Path | None:
    path = _path_of(engine)
    return None if path is None else Path(f"{path}.suspect")


def _path_of(engine: Engine) -> str | None:
    name = engine.url.database if engine.dialect.name == "sqlite" else None
    return None if name in ("", ":memory:") else name


def was_ours(path: Path) -> bool:
    """Whether a file may be set aside: one that holds anything else than SQLite's is somebody's by mistake."""
    with open(path, "rb") as file:
        head = file.read(len(_HEADER))
    return head == _HEADER or not head.strip(b"\0") or Path(f"{path}-wal").exists()


def set_aside(path: Path) -> str:
    """Rename a damaged file, with its log, to `<name>.damaged-N`; what there is to say about it."""
    number = 1
    while (kept := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    for suffix in ("-wal", "-shm", ""):
        if (part := Path(f"{path}{suffix}")).exists():
            part.rename(f"{kept}{suffix}")
    make_file(path)
    Path(f"{path}.suspect").unlink(missing_ok=True)
    note = f"the database {path} was damaged: it lies in {kept}, and a new one was begun; rebuild runs from their files"
    log.error("%s", note)
    return note


def tell(connection: Connection, note: str) -> None:
    """Have each status say it."""
    connection.execute(insert(notes).values(at=time.time(), note=note))
