"""What SQLite and PostgreSQL say differently: inserting over what is there, and whose turn it is.

SQLite has one writer at a time, so nothing is locked there. On PostgreSQL transactions of several collectors run at
once (READ COMMITTED), and each takes its locks in one order, so that none waits for another in a circle:

1. that all events share, or that a change of whole runs has alone (`share`, `alone`);
2. the row of the sender, so that its events take effect in order whichever collector they come to;
3. the dispatches of the events, known or not (`lock_dispatches`), then the rows of their rollouts (`working`);
4. rows of totals, in the order of their keys, as the last thing before the commit.

Locks of dispatches are advisory: a row that is not there yet cannot be locked, and a tag and the begin of its dispatch
may come to two collectors at once. There is one for all dispatches of a proxy, which begins them and tells nearly all
of what they do; one for each would be as many as a batch has dispatches, of which the server has room for some
thousand. Where a circle arises all the same, PostgreSQL ends one of the two and the writer repeats it.
"""

import functools
import operator
import zlib
from collections.abc import Iterable
from typing import Any, Self

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Connection,
    LargeBinary,
    Select,
    Table,
    bindparam,
    cast,
    func,
    literal_column,
    select,
    text,
    true,
)
from sqlalchemy import Text as AnyText
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator

from .schema import JSON

_STRIPES = 256
_SPACE = 0x526F6C6C
"""The first key of Rollcall's advisory locks, so that they meet nobody else's in the database."""

_WHOLE, _DISPATCHES, _BENCHMARKS = 0, 1, 1 + _STRIPES

_SHARED = text("SELECT pg_advisory_xact_lock_shared(:space, :key)")
_ALONE = text("SELECT pg_advisory_xact_lock(:space, :key)")
_EACH = text("SELECT pg_advisory_xact_lock(:space, key) FROM unnest(CAST(:wanted AS integer[])) AS key")


def insert(connection: Connection, table: Table) -> Any:
    """An insert that knows `on_conflict_do_update` and `on_conflict_do_nothing`."""
    return postgresql.insert(table) if is_postgresql(connection) else sqlite.insert(table)


class _Ids(TypeDecorator[list[str]]):
    """A list of ids as one parameter: an array on PostgreSQL, a JSON array on SQLite, which has no other."""

    impl = AnyText
    cache_ok = True

    def load_dialect_impl(self, dialect: Any) -> Any:
        return dialect.type_descriptor(postgresql.ARRAY(AnyText) if dialect.name == "postgresql" else JSON)


class _Among(FunctionElement[bool]):
    """Whether the first is one of the second."""

    type = Boolean()
    inherit_cache = True

    def self_group(self, against: Any = None) -> Self:
        """A condition as it is: SQLAlchemy would write `= 1` behind it for SQLite, which then uses no index."""
        return self


@compiles(_Among, "sqlite")
def _among_in_sqlite(element: _Among, compiler: Any, **options: Any) -> str:
    column, ids = (compiler.process(each, **options) for each in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({ids}))"


@compiles(_Among, "postgresql")
def _among_in_postgresql(element: _Among, compiler: Any, **options: Any) -> str:
    column, ids = (compiler.process(each, **options) for each in element.clauses)
    return f"{column} = ANY ({ids})"


def among(column: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether a column is one of the parameter `some`, a list of ids.

    A question with it is made once. One with `in_` is made, and turned into text, for each list, which takes SQLAlchemy
    ten times what the database takes to answer (measured). For one of several columns see `Each`.
    """
    return _Among(column, _SOME)


_SOME = bindparam("some", type_=_Ids)
_WANTED = func.unnest(_SOME).table_valued("value").render_derived(name="wanted")


class Each:
    """A question about rows with one of the ids `some` in a column, and with other conditions that leave many.

    PostgreSQL is asked for each id by itself. Of a run that its statistics do not know yet it expects a row or two, so
    that it would go through all of the run instead (measured: more than all other work on a batch together).
    """

    def __init__(self, asked: Select[Any], column: ColumnElement[str]) -> None:
        one = asked.where(column == _WANTED.c.value).correlate(_WANTED).offset(0).lateral()
        self._one_by_one = select(one).select_from(_WANTED.join(one, true()))
        self._together = asked.where(among(column))

    def asked(self, connection: Connection) -> Select[Any]:
        """In the words of this database. Rows that are locked are so in the order of the ids."""
        return self._one_by_one if is_postgresql(connection) else self._together


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
    _lock(connection, _DISPATCHES, (name.rpartition(".")[0] or name for name in dispatches))


def lock_benchmark(connection: Connection, run: str, benchmark: str) -> None:
    """Have it to oneself whether a benchmark's dispatches have made model calls."""
    _lock(connection, _BENCHMARKS, [f"{run}\n{benchmark}"])


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
