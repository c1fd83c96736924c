"""The disk space that removed rows leave in a SQLite file, and giving it back. PostgreSQL sees to its own (autovacuum).

SQLite uses free pages again for what comes, and gives them back to the disk by VACUUM alone, which writes the file anew
(https://www.sqlite.org/lang_vacuum.html): it needs as much room again for a moment, and everybody else to wait.
"""

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, text

from .database import file_of, said

WORTHWHILE = 0.25
"""The share of free pages from which on a file is written anew although nothing was removed just now."""


@dataclass(frozen=True, slots=True)
class Space:
    """Bytes of the file before and after, how many of them are free, and why these were not given back."""

    before: int
    after: int
    free: int = 0
    trouble: str = ""


def give_back(engine: Engine, *, removed: bool) -> Space | None:
    """Give what is free back to the disk; None where there is nothing to give. Raises nothing of the database's own."""
    path = file_of(engine.url) if engine.dialect.name == "sqlite" else None
    if path is None:
        return None
    with engine.connect() as connection:
        pages, free = (_pragma(connection, name) for name in ("page_count", "freelist_count"))
        size = _pragma(connection, "page_size")
    if not free or (not removed and free < WORTHWHILE * pages):
        return None
    try:
        _vacuum(engine)
    except sqlite3.Error as error:
        return Space(_bytes(path), _bytes(path), free * size, said(error))
    return Space(pages * size, _bytes(path))


def _vacuum(engine: Engine) -> None:
    with engine.connect() as connection:
        driver = connection.connection.driver_connection  # SQLAlchemy would begin a transaction, in which there is none
        assert driver is not None
        driver.execute("VACUUM")
        driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _pragma(connection: Connection, name: str) -> int:
    return int(connection.execute(text(f"PRAGMA {name}")).scalar_one())


def _bytes(path: Path) -> int:
    return path.stat().st_size
