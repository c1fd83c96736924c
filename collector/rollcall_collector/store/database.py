"""Opening the database: the engine, its transactions and the schema's version."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, insert, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from .schema import SCHEMA_VERSION, metadata, schema_version


class DatabaseError(Exception):
    """The database cannot be used; the text names it, the cause and the cure."""


def open_database(url: str) -> Engine:
    """Open `sqlite:///path` and make sure of its schema. Raises DatabaseError."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise DatabaseError(
            f"database {url!r}: not a database URL ({error}); write sqlite:////absolute/path"
        ) from error
    if parsed.get_backend_name() != "sqlite":
        raise DatabaseError(f"database {url!r}: {parsed.get_backend_name()} is not supported; use sqlite:///path")
    if parsed.database and parsed.database != ":memory:":
        _make_folder(Path(parsed.database).parent, url)
    engine = create_engine(parsed, connect_args={"timeout": 30})
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    _translated(url, lambda: _ensure_schema(engine, url))
    return engine


def writing(engine: Engine) -> Engine:
    """The engine for transactions that write: each waits for its turn among all processes before it reads.

    With SQLite's plain BEGIN a transaction that read first and writes then fails at once, whatever the busy timeout,
    when another process has written in between (https://www.sqlite.org/isolation.html, SQLITE_BUSY_SNAPSHOT).
    """
    return engine.execution_options(rollcall_begin="BEGIN IMMEDIATE")


def _make_folder(folder: Path, url: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseError(f"database {url!r}: cannot make the folder {folder}: {error}") from error


def _on_connect(connection: Any, _: Any) -> None:
    # pysqlite begins transactions by itself, and late; with isolation_level None SQLAlchemy's own BEGIN rules.
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=30000"):
        connection.execute(f"PRAGMA {pragma}")


def _on_begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("rollcall_begin", "BEGIN"))


def _ensure_schema(engine: Engine, url: str) -> None:
    with writing(engine).begin() as connection:
        schema_version.create(connection, checkfirst=True)
        found = connection.execute(select(schema_version.c.version)).scalar()
        if found is None:
            metadata.create_all(connection)
            connection.execute(insert(schema_version).values(version=SCHEMA_VERSION))
        elif found != SCHEMA_VERSION:
            cure = "the newer gym-rollcall" if found > SCHEMA_VERSION else "the older gym-rollcall"
            raise DatabaseError(
                f"database {url!r} has schema version {found}, this program knows {SCHEMA_VERSION}; "
                f"use {cure}, or another database"
            )


def _translated(url: str, action: Callable[[], None]) -> None:
    try:
        action()
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        raise DatabaseError(f"database {url!r} cannot be used: {cause}") from error
