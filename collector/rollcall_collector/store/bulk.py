"""Many rows in one statement that the driver runs as often as there are rows.

The same could be said with SQLAlchemy's own insert and update; but for each row it then looks up and converts each
value by name, which costs several times what the database needs for the row (measured: half of a batch's time).
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy import Connection, Table

from .schema import Json, Text

Row = Mapping[str, Any]


def insert_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows that have the same columns."""
    if rows:
        _run(connection, table, _insert(connection, table, list(rows[0])), list(rows[0]), rows)


def replace_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows that have the same columns, each in the place of the one with its key."""
    if rows:
        names, quoted = list(rows[0]), _quote(connection)
        keys = [each.name for each in table.primary_key]
        changes = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in names if name not in keys)
        over = f" ON CONFLICT ({', '.join(map(quoted, keys))}) DO UPDATE SET {changes}"
        _run(connection, table, _insert(connection, table, names) + over, names, rows)


def update_rows(connection: Connection, table: Table, key: str, rows: Sequence[Row]) -> None:
    """Set the columns that these rows have, which are the same for all, in the rows with their keys."""
    if rows:
        quoted, mark = _quote(connection), _mark(connection)
        names = [name for name in rows[0] if name != key]
        changes = ", ".join(f"{quoted(name)} = {mark}" for name in names)
        _run(connection, table, f"UPDATE {table.name} SET {changes} WHERE {quoted(key)} = {mark}", [*names, key], rows)


def _insert(connection: Connection, table: Table, names: Sequence[str]) -> str:
    marks = ", ".join([_mark(connection)] * len(names))
    return f"INSERT INTO {table.name} ({', '.join(map(_quote(connection), names))}) VALUES ({marks})"


def _run(connection: Connection, table: Table, statement: str, names: Sequence[str], rows: Iterable[Row]) -> None:
    columns = [(name, _FORMS.get(type(table.c[name].type), _as_it_is)) for name in names]
    connection.exec_driver_sql(statement, [tuple([form(row[name]) for name, form in columns]) for row in rows])


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


def _plain(value: str | None) -> str | None:
    return value.replace("\0", "\ufffd") if value is not None and "\0" in value else value


def _as_it_is(value: Any) -> Any:
    return value


_FORMS: dict[type, Callable[[Any], Any]] = {Json: as_json, Text: _plain}
