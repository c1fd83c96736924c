"""Databases as runs of any size leave them.

The collector's own code makes a rollout that went well and one that failed; SQL copies their rows, whatever columns
they have, under other numbers. So a million rollouts take a minute and not an hour.
"""

import hashlib
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from rollcall_collector.contract.policy import Policy
from rollcall_collector.store import open_database
from rollcall_collector.store.applying import apply_events
from rollcall_collector.store.schema import metadata
from rollcall_collector.store.writing import Session, heartbeat, put_expected, put_session
from sqlalchemy import Boolean, Table
from sqlalchemy.schema import CreateTable

from .events import T0, life, spans
from .load.agents import AGENT
from .peers.rollcall import RUN, SESSION
from .place import cache, scratch

FAILED = 10
"""One rollout of so many has failed."""
CALLS = 8
"""Calls of a rollout that are kept for people."""
_TABLES = ("rollouts", "dispatches", "tags", "spans")


def run_named(number: int) -> str:
    """The id of the run with this number."""
    return RUN if number == 0 else f"{RUN}-{number}"


def store(rollouts: int, runs: int = 1) -> Path:
    """A copy, to be written to, of a database that holds so many rollouts in all; made once for each schema."""
    tables = "".join(str(CreateTable(table)) for table in metadata.sorted_tables)
    named = hashlib.sha256(f"{tables} {runs} {CALLS}".encode()).hexdigest()
    kept = cache() / f"store-{rollouts}-{named[:12]}.sqlite3"
    if not kept.exists():
        made = scratch("store") / "store.sqlite3"
        fill(made, rollouts, runs)
        made.rename(kept)
    return Path(shutil.copy(kept, scratch("store") / "store.sqlite3"))


def fill(path: Path, rollouts: int, runs: int = 1) -> None:
    """A database with so many rollouts in all, shared evenly among runs; a tenth of them failed."""
    engine = open_database(f"sqlite:///{path}")
    for number in range(runs):
        run, session = run_named(number), SESSION if number == 0 else f"{SESSION}-{number}"
        with engine.begin() as connection:
            put_session(connection, Session(session, run, "fresh", output=f"/bench/{run}.jsonl"), T0 - number)
            put_expected(connection, run, "bench", "sha256:0", [(AGENT, task, 0, None) for task in (0, 1)], T0)
            good, poor = _names(number)
            lives = [*life(good, 0, 0, run, session), spans(good, CALLS)]
            lives += [*life(poor, 1, 3, run, session), spans(poor, CALLS)]
            apply_events(connection, f"bench-{number}", 1, lives, Policy())
            heartbeat(connection, session, ended=number > 0, now=T0)
    engine.dispose()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("BEGIN")
        for number in range(runs):
            for table in _TABLES:
                _multiply(connection, table, rollouts // runs, number)
        connection.execute(_COUNTED)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode=DELETE")  # all of it lies in the one file


@contextmanager
def on_postgresql(path: Path, url: str) -> Iterator[str]:
    """The URL of a copy of such a database in a schema of its own of a PostgreSQL database, which is removed again."""
    own = f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{_SCHEMA}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {_SCHEMA} CASCADE")
        connection.execute(f"CREATE SCHEMA {_SCHEMA}")
        try:
            open_database(own).dispose()
            connection.execute(f"SET search_path TO {_SCHEMA}")
            with closing(sqlite3.connect(path)) as source:
                for table in metadata.sorted_tables:
                    _carry_over(source, connection, table)
            connection.execute("ANALYZE")
            yield own
        finally:
            connection.execute(f"DROP SCHEMA IF EXISTS {_SCHEMA} CASCADE")


_SCHEMA = "rollcall_bench"


def bytes_on_postgresql(url: str) -> int:
    """What the tables of `on_postgresql` take on the server's disk, their indexes included."""
    asked = f"SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relnamespace = '{_SCHEMA}'::regnamespace"
    with psycopg.connect(url) as connection:
        row = connection.execute(f"{asked} AND relkind = 'r'").fetchone()  # type: ignore[arg-type]  # no user's text
    assert row is not None
    return int(row[0])


def _carry_over(source: sqlite3.Connection, target: "psycopg.Connection[Any]", table: Table) -> None:
    names = [column.name for column in table.c]
    truths = [at for at, column in enumerate(table.c) if isinstance(column.type, Boolean)]
    listed = ", ".join(f'"{name}"' for name in names)
    if table.name == "schema_version":
        return
    with target.cursor().copy(f"COPY {table.name} ({listed}) FROM STDIN") as into:  # type: ignore[arg-type]
        for row in source.execute(f"SELECT {listed} FROM {table.name}"):
            values = list(row)
            for at in truths:
                values[at] = None if values[at] is None else bool(values[at])
            into.write_row(values)


def _names(number: int) -> tuple[str, str]:
    """The dispatches of a run that are copied: one that went well, and one that failed."""
    mark = f"{number}-" if number else ""
    return f"d-{mark}good-0", f"d-{mark}poor-1"


def _multiply(connection: sqlite3.Connection, table: str, rollouts: int, number: int) -> None:
    """Copy the rows of a run's rollouts 0 and 1 under the numbers 2 and on."""
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    columns = [name for name in columns if (table, name) != ("spans", "number")]
    good, poor = _names(number)
    picked = ", ".join(_copied(name, good, poor) for name in columns)
    connection.execute(
        f"WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?) "
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {picked} FROM n JOIN "
        f"(SELECT * FROM {table} WHERE dispatch IN ('{good}', '{poor}')) AS old "
        f"ON old.dispatch = CASE WHEN n.i % {FAILED} = 0 THEN '{poor}' ELSE '{good}' END",
        (rollouts,),
    )


_COUNTED = """
    INSERT OR REPLACE INTO counts (run, benchmark, name, detail, number)
    SELECT run, benchmark, substr(key, 1, instr(key || ':', ':') - 1), substr(key, instr(key || ':', ':') + 1),
        sum(value)
    FROM rollouts, json_each(rollouts.counted) GROUP BY run, benchmark, key
"""
"""The totals of all rollouts, from what each says that it adds to them."""

_NUMBERED: dict[str, str] = {"task_index": "n.i", "rollout": "n.i || '-0'"}


def _copied(column: str, good: str, poor: str) -> str:
    """A column of the copy: names of the dispatch and numbers of the rollout are made new wherever they stand."""
    if column in _NUMBERED:
        return _NUMBERED[column]
    text = f"old.{column}"
    pairs: Sequence[tuple[str, str]] = (
        (good, f"'{good[:-1]}' || n.i"),
        (poor, f"'{poor[:-1]}' || n.i"),
        ('"0-0"', "'\"' || n.i || '-0\"'"),
        ('"1-0"', "'\"' || n.i || '-0\"'"),
    )
    for was, becomes in pairs:
        text = f"replace({text}, '{was}', {becomes})"
    return f"CASE WHEN typeof(old.{column}) = 'text' THEN {text} ELSE old.{column} END"
