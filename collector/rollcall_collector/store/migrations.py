"""Bringing the schema of an older program up to date.

A numbered list of functions and not a migration tool: the steps are few, each runs once in the one transaction that
opens the database, and most of each is not DDL but reading what an older program has stored with the rules of this
one. Where several programs start at once, one of them migrates and the others wait for it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson
from sqlalchemy import Connection, Table, insert, inspect, select, text, update
from sqlalchemy.schema import CreateColumn, CreateIndex

from . import dialect, tagging
from .bulk import replace_rows
from .schema import (
    SCHEMA_VERSION,
    benchmarks,
    counts,
    dispatches,
    early,
    metadata,
    notes,
    notices,
    proxies,
    rollouts,
    runs,
    schema_version,
    sessions,
    spans,
    tags,
)
from .totals import CALLS, Difference, added_by
from .working import NO_CAUSE, cause_columns, placed_wrongly, portions

Row = Mapping[Any, Any]


class NewerSchemaError(Exception):
    """The database was written by a newer program."""


def bring_up_to_date(connection: Connection) -> None:
    """Make the tables where there are none, or migrate them. Raises NewerSchemaError."""
    dialect.alone(connection)
    schema_version.create(connection, checkfirst=True)
    found = connection.execute(select(schema_version.c.version)).scalar()
    if found is None:
        metadata.create_all(connection)
        connection.execute(insert(schema_version).values(version=SCHEMA_VERSION))
    elif found > SCHEMA_VERSION:
        raise NewerSchemaError(
            f"has schema version {found}, this program knows {SCHEMA_VERSION}; "
            "use the newer gym-rollcall, or another database"
        )
    for version in range(found or SCHEMA_VERSION, SCHEMA_VERSION):
        _STEPS[version](connection)
        connection.execute(update(schema_version).values(version=version + 1))


def _to_2(connection: Connection) -> None:
    """Policies, places of rows and what a verdict says more; what an older program judged keeps its verdict."""
    _add(connection, runs, ("policy",))
    _add(connection, sessions, ("counted_as_zero", "reverifies"))
    later = ("failure_class", "terminal", "tools_alone", "pardoned", "response", "placed", "healed_by")
    _add(connection, dispatches, later)
    connection.execute(text("ALTER TABLE tags ADD COLUMN outlived_at FLOAT"))
    places = (
        "CASE state WHEN 'succeeded' THEN 'results' WHEN 'failed' THEN 'failures' WHEN 'omitted' THEN 'nowhere' END"
    )
    connection.execute(text(f"UPDATE dispatches SET placed = {places}"))
    failed = select(dispatches.c.dispatch, dispatches.c.row).where(dispatches.c.state == "failed")
    for dispatch, row in connection.execute(failed).all():
        named = {"failure_class": (row or {}).get("_ng_failure_class")}
        connection.execute(update(dispatches).where(dispatches.c.dispatch == dispatch).values(named))


def _to_3(connection: Connection) -> None:
    """What is told of a dispatch before its begin is kept."""
    early.create(connection)


def _to_4(connection: Connection) -> None:
    """Counts and causes beside the rollouts, folded tags, and rows in the wrong file found by an index."""
    _add(connection, runs, ("collector_policy", "pruned_at", "lost"))
    _add(connection, dispatches, ("misplaced", "provisional"))
    _add(connection, rollouts, ("counted", *NO_CAUSE))
    _add(connection, early, ("received_at",))
    for table in (counts, benchmarks, notes, notices, spans, proxies):
        table.create(connection)
    connection.execute(text("DROP INDEX rollouts_state"))
    for index in dispatches.indexes | rollouts.indexes:
        if index.name not in ("dispatches_rollout", "rollouts_rollout"):
            connection.execute(CreateIndex(index))
    _fold_tags(connection)
    _find_misplaced(connection)
    _count(connection)


def _fold_tags(connection: Connection) -> None:
    for index in ("tags_dispatch", "tags_claimed", "tags_unattributed"):
        connection.execute(text(f"DROP INDEX {index}"))
    connection.execute(text("ALTER TABLE tags RENAME TO tags_before"))
    tags.create(connection)
    came = text("SELECT * FROM tags_before ORDER BY ended_at")
    for some in portions(connection.execute(came).mappings()):
        tagging.write(connection, [("tag", _tag_row(row)) for row in some])
    connection.execute(text("DROP TABLE tags_before"))


def _tag_row(row: Row) -> dict[str, Any]:
    known = tagging.tag_of(orjson.loads(row["tag"]))
    made = tagging.tag_row(known, row["dispatch"] is not None, None)
    kept = {name: row[name] for name in ("recovered_at", "outlived_at", "dispatch")}
    return made | kept | {"claimed": row["dispatch"] or row["claimed"] or ""}


def _find_misplaced(connection: Connection) -> None:
    asked = select(dispatches.c.dispatch, dispatches.c.state, dispatches.c.placed, dispatches.c.healed_by)
    for row in connection.execute(asked).mappings().all():
        if placed_wrongly(row):
            here = dispatches.c.dispatch == row["dispatch"]
            connection.execute(update(dispatches).where(here).values(misplaced=True))


def _count(connection: Connection) -> None:
    totals = Difference()
    current = rollouts.outerjoin(dispatches, dispatches.c.dispatch == rollouts.c.dispatch)
    facts = [each for each in dispatches.c if each.name in _FACTS]
    asked = select(*(each.label(f"r_{each.name}") for each in rollouts.c), *facts).select_from(current)
    for some in portions(connection.execute(asked).mappings().all()):
        replace_rows(connection, rollouts, [_counted(row, totals) for row in some])
    _place_benchmarks(connection)
    made_calls = select(dispatches.c.run, dispatches.c.benchmark).where(dispatches.c.model_calls > 0).distinct()
    for run, benchmark in connection.execute(made_calls):
        totals.add(run, benchmark, CALLS, 1)
    totals.write(connection)


_FACTS = (
    "session",
    "masked",
    "unscored",
    "empty_output",
    "not_inspected",
    "misplaced",
    "provisional",
    "model_calls",
    "pardoned",
    "tools_alone",
    "failure_class",
    "root_cause",
)


def _counted(row: Row, totals: Difference) -> dict[str, Any]:
    values = {each.name: row[f"r_{each.name}"] for each in rollouts.c}
    counted = added_by(values["state"], row)
    totals.change((values["run"], values["benchmark"], values["rollout"]), {}, counted)
    cause = cause_columns(row["root_cause"], row["failure_class"]) if values["state"] == "failed" else NO_CAUSE
    return values | {"counted": counted} | cause


def _place_benchmarks(connection: Connection) -> None:
    columns = [each.name for each in benchmarks.c]
    asked = select(*(rollouts.c[name] for name in columns)).distinct()
    rows = [{name: value or "" for name, value in row.items()} for row in connection.execute(asked).mappings()]
    if rows:
        connection.execute(insert(benchmarks), rows)


def _add(connection: Connection, table: Table, names: Iterable[str]) -> None:
    """Add columns; one that must have a value gets false, or nothing counted."""
    there = {column["name"] for column in inspect(connection).get_columns(table.name)}
    for name in names:
        if name not in there:
            definition = str(CreateColumn(table.c[name]).compile(dialect=connection.dialect))
            default = "" if table.c[name].nullable else (" DEFAULT '{}'" if name == "counted" else " DEFAULT false")
            connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {definition}{default}"))


_STEPS: dict[int, Callable[[Connection], None]] = {1: _to_2, 2: _to_3, 3: _to_4}
"""By the version that a step begins with."""
