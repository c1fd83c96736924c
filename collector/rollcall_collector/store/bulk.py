"""Many rows in one statement: on SQLite one that is run for each row, on PostgreSQL one that is given them all.

The same could be said with SQLAlchemy's own insert and update; but for each row it then looks up and converts each
value by name, which costs several times what the database needs for the row (measured: half of a batch's time). And a
statement for each row costs PostgreSQL, and its driver, more than the row: it gets the rows as one JSON value.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import orjson
from sqlalchemy import Connection, LargeBinary, Table

from .dialect import is_postgresql
from .schema import Json, Text

Row = Mapping[str, Any]
Column = list[Any]
"""The values of some rows in one column."""


def insert_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows that have the same columns."""
    if rows:
        _insert(connection, table, rows)


def insert_new_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> int:
    """Of rows that have the same columns, insert those whose keys are not there yet; how many these are."""
    return _insert(connection, table, rows, " ON CONFLICT DO NOTHING") if rows else 0


def replace_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows that have the same columns, each in the place of the one with its key."""
    if rows:
        quoted, keys = _quote(connection), [each.name for each in table.primary_key]
        changes = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in rows[0] if name not in keys)
        _insert(connection, table, rows, _over(connection, table, changes))


def add_rows(connection: Connection, table: Table, rows: Sequence[Row], numbers: Sequence[str]) -> None:
    """Insert rows that have the same columns, or add these numbers of theirs to those of the row with the key."""
    if rows:
        changes = ", ".join(f"{name} = {table.name}.{name} + excluded.{name}" for name in numbers)
        _insert(connection, table, rows, _over(connection, table, changes))


def _over(connection: Connection, table: Table, changes: str) -> str:
    keys = ", ".join(_quote(connection)(each.name) for each in table.primary_key)
    return f" ON CONFLICT ({keys}) DO UPDATE SET {changes}"


def update_rows(connection: Connection, table: Table, key: str, rows: Sequence[Row]) -> None:
    """Set the columns that these rows have, which are the same for all, in the rows with their keys."""
    if rows:
        names, mark = [name for name in rows[0] if name != key], _mark(connection)
        quoted = {name: _quote(connection)(name) for name in rows[0]}
        ones = ", ".join(f"{quoted[name]} = {mark}" for name in names)
        each = f"UPDATE {table.name} SET {ones} WHERE {quoted[key]} = {mark}"
        news = ", ".join(f"{quoted[name]} = new.{quoted[name]}" for name in names)
        together = (
            f"UPDATE {table.name} SET {news} FROM {_new(table)} WHERE {table.name}.{quoted[key]} = new.{quoted[key]}"
        )
        _run(connection, table, (each, together), [*names, key], rows)


def _insert(connection: Connection, table: Table, rows: Sequence[Row], over: str = "") -> int:
    names = list(rows[0])
    listed, marks = ", ".join(map(_quote(connection), names)), ", ".join([_mark(connection)] * len(names))
    into = f"INSERT INTO {table.name} ({listed})"
    each, together = f"{into} VALUES ({marks}){over}", f"{into} SELECT {listed} FROM {_new(table)}{over}"
    return _run(connection, table, (each, together), names, rows)


def _new(table: Table) -> str:
    return f"json_populate_recordset(NULL::{table.name}, %s::json) AS new"


def _run(
    connection: Connection, table: Table, statements: tuple[str, str], names: Sequence[str], rows: Sequence[Row]
) -> int:
    """Run the statement for each row, or the one for all of them; how many rows have changed."""
    each, together = statements
    if is_postgresql(connection) and (given := _as_one(table, names, rows)) is not None:
        return connection.exec_driver_sql(together, (given,)).rowcount
    columns = [_FORMS.get(type(table.c[name].type), list)(list(map(itemgetter(name), rows))) for name in names]
    return connection.exec_driver_sql(each, list(zip(*columns, strict=True))).rowcount


def _as_one(table: Table, names: Sequence[str], rows: Sequence[Row]) -> str | None:
    """The rows as one JSON value. None where one has what PostgreSQL takes only in JSON that it leaves as it is: a NUL,
    or half of a surrogate pair, for which `as_json` has to go the slow way."""
    columns = [_FORMS_IN_JSON.get(type(table.c[name].type), list)(list(map(itemgetter(name), rows))) for name in names]
    try:
        given = orjson.dumps([dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)])
    except TypeError:
        return None
    return None if rb"\u0000" in given else given.decode()


def _quote(connection: Connection) -> Callable[[str], str]:
    return connection.dialect.identifier_preparer.quote


def _mark(connection: Connection) -> str:
    return "?" if connection.dialect.paramstyle == "qmark" else "%s"


def as_json(value: Any) -> str | None:
    """JSON for a column. What a run's files hold may have integers beyond 64 bits, which only the slow way takes."""
    if value is None:
        return None
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return json.dumps(value)


def _plain(column: Column) -> Column:
    if "\0" not in "".join(filter(None, column)):
        return column
    return [value.replace("\0", "\ufffd") if value is not None and "\0" in value else value for value in column]


def _in_json(column: Column) -> Column:
    try:
        return [None if value is None else orjson.dumps(value).decode() for value in column]
    except TypeError:
        return [as_json(value) for value in column]


def _as_hex(column: Column) -> Column:
    return [None if value is None else f"\\x{value.hex()}" for value in column]


_FORMS: dict[type, Callable[[Column], Column]] = {Json: _in_json, Text: _plain}
_FORMS_IN_JSON: dict[type, Callable[[Column], Column]] = {LargeBinary: _as_hex, Text: _plain}
"""How a column is given, for all rows at once: a call for each value would cost more than what it does."""
