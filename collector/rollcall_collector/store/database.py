"""Opening the database: the engine, its transactions and the schema's version.

`sqlite:///path` for one machine; `postgresql://…` for any number of collectors that share it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from ..hiding import hidden
from ..private import make_file, make_folder
from . import damage
from .bulk import as_json
from .migrations import NewerSchemaError, bring_up_to_date

CONNECTIONS = 8
"""Connections to the database at the most, busy and idle, where nothing else is set."""

_WAIT_S = 30
"""Seconds to wait for a connection, and for SQLite's one writer's turn."""


class DatabaseError(Exception):
    """The database cannot be used; the text names it, the cause and the cure."""


def open_database(url: str, connections: int = CONNECTIONS) -> Engine:
    """Open the database and make sure of its schema. Raises DatabaseError.

    A damaged SQLite file is set aside and a new one begun (`damage`); a schema of an older program is migrated, by one
    program where several start at once.
    """
    parsed, shown = _parsed(url)
    if parsed.get_backend_name() == "postgresql":
        return _opened(shown, lambda: _postgresql(parsed, connections))
    path = file_of(parsed)
    if path is None:
        return _opened(shown, lambda: _sqlite(parsed, connections))
    _make_folder(path.parent, shown)
    with damage.looking_at(path):
        make_file(path)
        return _opened(shown, lambda: _sqlite(parsed, connections), path)


def exists(url: str) -> bool:
    """Whether opening the database would not make a new one. Raises DatabaseError for what is no URL of one."""
    parsed, _ = _parsed(url)
    path = None if parsed.get_backend_name() == "postgresql" else file_of(parsed)
    return path is None or path.exists()


def writing(engine: Engine) -> Engine:
    """The engine for transactions that write: on SQLite each waits for its turn among all processes before it reads.

    With SQLite's plain BEGIN a transaction that read first and writes then fails at once, whatever the busy timeout,
    when another process has written in between (https://www.sqlite.org/isolation.html, SQLITE_BUSY_SNAPSHOT).
    """
    return engine.execution_options(rollcall_begin="BEGIN IMMEDIATE")


def _parsed(url: str) -> tuple[URL, str]:
    """The URL, and how it is shown."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        cure = "write sqlite:////absolute/path or postgresql://USER@HOST/NAME"
        raise DatabaseError(f"database {hidden(url)!r}: not a database URL; {cure}") from error
    name, shown = parsed.get_backend_name(), hidden(parsed.render_as_string(hide_password=True))
    if name not in ("sqlite", "postgresql", "postgres"):
        raise DatabaseError(
            f"database {shown!r}: {name} is not supported; use sqlite:///path or postgresql://USER@HOST/NAME"
        )
    return (parsed if name == "sqlite" else parsed.set(drivername="postgresql+psycopg")), shown


def file_of(url: URL) -> Path | None:
    """The file of a SQLite database; None for one in memory."""
    return Path(url.database) if url.database and url.database != ":memory:" else None


def _opened(shown: str, make: Callable[[], Engine], path: Path | None = None) -> Engine:
    try:
        engine = make()
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        raise DatabaseError(f"database {shown!r}: {error}; pip install 'gym-rollcall[postgresql]'") from error
    try:
        return _ready(engine)
    except DBAPIError as error:
        engine.dispose()
        if path is None or not damage.is_damage(error) or not damage.was_ours(path):
            raise _unusable(shown, error) from error
    except (SQLAlchemyError, NewerSchemaError) as error:
        engine.dispose()
        raise _unusable(shown, error) from error
    note = damage.set_aside(path)
    engine = _opened(shown, make)
    with engine.begin() as connection:
        damage.tell(connection, note)
    return engine


def _ready(engine: Engine) -> Engine:
    with writing(engine).begin() as connection:
        bring_up_to_date(connection)
    with engine.connect() as connection:
        damage.look_at_tables(connection)
    return engine


def _unusable(shown: str, error: Exception) -> DatabaseError:
    if isinstance(error, NewerSchemaError):
        return DatabaseError(f"database {shown!r} {error}")
    return DatabaseError(f"database {shown!r} cannot be used: {said(error)}")


def said(error: BaseException) -> str:
    """What the database itself said, in one line, and what to do about it where that is known."""
    cause = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
    cure = next((cure for words, cure in _CURES if words in cause), "")
    return f"{cause}; {cure}" if cure else cause


_CURES = (
    ("database is locked", f"another process has held it for {_WAIT_S} s: find it with fuser, or wait"),
    ("readonly database", "make the file and its folder writable for this user"),
    ("read-only", "let this user write to it"),
    ("disk is full", "make room on its disk"),
    ("disk I/O error", "see to its disk; the system's log says more"),
    ("No space left", "make room on the server's disk"),
    ("malformed", "restart the collector: it sets a damaged file aside"),
    ("file is not a database", "give the path of Rollcall's database, or move the file away"),
    ("Connection refused", "start the server, or correct the URL"),
)


def _sqlite(url: URL, connections: int) -> Engine:
    engine = create_engine(
        url,
        connect_args={"timeout": _WAIT_S},
        json_serializer=as_json,
        json_deserializer=orjson.loads,
        **(_pool(connections) if file_of(url) else {}),
    )
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def _postgresql(url: URL, connections: int) -> Engine:
    # A collector that hangs inside a transaction must not stop the others; a commit is one on disk whatever the
    # server's default is.
    options = "-c idle_in_transaction_session_timeout=60000 -c synchronous_commit=on"
    if "options" in url.query:
        options = f"{url.query['options']} {options}"
    return create_engine(
        url.update_query_dict({"options": options}),
        connect_args={"connect_timeout": 10, "application_name": "rollcall"},
        isolation_level="READ COMMITTED",
        json_serializer=as_json,
        json_deserializer=orjson.loads,
        pool_pre_ping=True,
        **_pool(connections),
    )


def _pool(connections: int) -> dict[str, Any]:
    return {"pool_size": connections, "max_overflow": 0, "pool_timeout": _WAIT_S}


def _make_folder(folder: Path, shown: str) -> None:
    try:
        make_folder(folder)
    except OSError as error:
        raise DatabaseError(f"database {shown!r}: cannot make the folder {folder}: {error}") from error


_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "cache_size=-32768", "wal_autocheckpoint=8192")
"""A commit is one on disk; the log goes into the database once it has 32 MiB, since a batch alone may have one."""


def _on_connect(connection: Any, _: Any) -> None:
    # pysqlite begins transactions by itself, and late; with isolation_level None SQLAlchemy's own BEGIN rules.
    connection.isolation_level = None
    for pragma in (*_PRAGMAS, f"busy_timeout={_WAIT_S * 1000}"):
        connection.execute(f"PRAGMA {pragma}")


def _on_begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("rollcall_begin", "BEGIN"))
