"""What SQLite and PostgreSQL say differently: inserting over what is there, and whose turn it is.

SQLite has one writer at a time, so nothing is locked there. On PostgreSQL transactions of several collectors run at
once (READ COMMITTED), and each takes its locks in one order, so that none waits for another in a circle:

1. that all events share, or that a change of whole runs has alone (`share`, `alone`);
2. the row of the sender, so that its events take effect in order whichever collector they come to;
3. the dispatches of the events, known or not (`lock_dispatches`), then their rollouts (`lock_rollouts`);
4. rows of totals, in the order of their keys, as the last thing before the commit.

Locks of 1 and 3 are advisory, in 256 stripes: a row that is not there yet cannot be locked, and a tag and the begin of
its dispatch may come to two collectors at once. Where a circle arises all the same, PostgreSQL ends one of the two and
the writer repeats it.
"""

import functools
import operator
import zlib
from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    LargeBinary,
    Table,
    bindparam,
    cast,
    func,
    literal_column,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from .schema import JSON

_STRIPES = 256
_SPACE = 0x526F6C6C
"""The first key of Rollcall's advisory locks, so that they meet nobody else's in the database."""

_WHOLE, _DISPATCHES, _ROLLOUTS = 0, 1, 1 + _STRIPES

_SHARED = text("SELECT pg_advisory_xact_lock_shared(:space, :key)")
_ALONE = text("SELECT pg_advisory_xact_lock(:space, :key)")
_EACH = text("SELECT pg_advisory_xact_lock(:space, key) FROM unnest(CAST(:wanted AS integer[])) AS key")


def insert(connection: Connection, table: Table) -> Any:
    """An insert that knows `on_conflict_do_update` and `on_conflict_do_nothing`."""
    return postgresql.insert(table) if is_postgresql(connection) else sqlite.insert(table)


class _Each(FunctionElement[str]):
    """The texts of a JSON array, as rows with the column `value`."""

    inherit_cache = True


@compiles(_Each, "sqlite")
def _each_in_sqlite(element: _Each, compiler: Any, **options: Any) -> str:
    return f"json_each{compiler.process(element.clause_expr, **options)}"


@compiles(_Each, "postgresql")
def _each_in_postgresql(element: _Each, compiler: Any, **options: Any) -> str:
    return f"json_array_elements_text{compiler.process(element.clause_expr, **options)}"


def among(column: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether a column is one of the parameter `some`, a list of ids.

    A question with it is made once. One with `in_` is made, and turned into text, for each list, which takes SQLAlchemy
    ten times what the database takes to answer (measured).
    """
    each = _Each(bindparam("some", type_=JSON)).table_valued("value")
    return column.in_(select(each.c.value))


def is_postgresql(connection: Connection) -> bool:
    return connection.dialect.name == "postgresql"


def share(connection: Connection) -> None:
    """Work on dispatches beside others that do, but not beside a change of whole runs."""
    if is_postgresql(connection):
        connection.execute(_SHARED, {"space": _SPACE, "key": _WHOLE})


def alone(connection: Connection) -> None:
    """Change whole runs while nobody else changes any."""
    if is_postgresql(connection):
        connection.execute(_ALONE, {"space": _SPACE, "key": _WHOLE})


def lock_dispatches(connection: Connection, dispatches: Iterable[str]) -> None:
    """Have these dispatches to oneself until the transaction's end, whether they are known or not."""
    _lock(connection, _DISPATCHES, dispatches)


def lock_rollouts(connection: Connection, rollouts: Iterable[tuple[str, str, str]]) -> None:
    """Have these rollouts (run, benchmark, id) to oneself until the transaction's end."""
    _lock(connection, _ROLLOUTS, ("\n".join(key) for key in rollouts))


def _lock(connection: Connection, base: int, names: Iterable[str]) -> None:
    if is_postgresql(connection):
        wanted = sorted({base + zlib.crc32(name.encode()) % _STRIPES for name in names})
        if wanted:
            connection.execute(_EACH, {"space": _SPACE, "wanted": wanted})


def bytes_of(connection: Connection, table: Table) -> ColumnElement[int]:
    """The bytes that a row of a table holds: as PostgreSQL stores it, or on SQLite the sum of its values."""
    if is_postgresql(connection):
        return func.pg_column_size(literal_column(f"{table.name}.*"))
    values = (func.coalesce(func.length(cast(column, LargeBinary)), 0) for column in table.c)
    return functools.reduce(operator.add, values)
