"""Events as proxies send them, and stores as runs of any size leave them."""

import hashlib
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import orjson
from rollcall_collector.contract.exchange import DispatchBegun, DispatchEnded, Event, Tag
from rollcall_collector.contract.policy import Policy
from rollcall_collector.store import open_database
from rollcall_collector.store.applying import apply_events
from rollcall_collector.store.schema import metadata
from rollcall_collector.store.writing import Session, put_expected, put_session
from sqlalchemy.schema import CreateTable

from .load.agents import AGENT
from .peers.rollcall import RUN, SESSION
from .place import cache, scratch

T0 = 1_700_000_000.0
LIFE = 5
"""Events of one rollout: its beginning, three failed calls, its end."""


def life(name: str, task: int, failed_calls: int = 3) -> list[Event]:
    """All that is told of one rollout; some of its model calls are answered with 500."""
    begun = DispatchBegun(
        dispatch=name,
        session=SESSION,
        run=RUN,
        benchmark=AGENT,
        rollout=f"{task}-0",
        server=AGENT,
        started_at=T0,
        agent=AGENT,
        task_index=task,
        rollout_index=0,
        identity={"_ng_task_index": task, "_ng_rollout_index": 0, "agent_ref": {"name": AGENT}},
    )
    ended = DispatchEnded(name, "result", T0 + 100, T0 + 101, 200, model_calls=failed_calls + 1)
    return [begun, *(tag(name, number) for number in range(failed_calls)), ended]


def tag(dispatch: str, number: int) -> Tag:
    """A model call of a dispatch that was answered with 500."""
    return Tag(
        exchange=f"x-{dispatch}.{number}",
        call=f"c-{dispatch}.{number}",
        server="policy_model",
        kind="model",
        role="model",
        method="POST",
        path="/v1/responses",
        what="http_status",
        started_at=T0 + 10,
        ended_at=T0 + 20,
        depth=1,
        owner_by="header",
        dispatch=dispatch,
        status=500,
        excerpt='{"error":"this call fails on purpose"}' * 5,
    )


def batches(sender: str, rollouts: range, together: int = 100) -> Iterator[bytes]:
    """The bodies of `POST /v1/events` that tell these rollouts' lives, `together` of them in each."""
    first = 1
    for start in range(0, len(rollouts), together):
        part = rollouts[start : start + together]
        events = [event for task in part for event in life(f"d-{sender}.{task}", task)]
        yield orjson.dumps({"sender": sender, "first": first, "events": events})
        first += len(events)


def store(rollouts: int) -> Path:
    """A copy, to be written to, of a database that holds one run of so many rollouts; made once for each schema."""
    named = hashlib.sha256("".join(str(CreateTable(table)) for table in metadata.sorted_tables).encode()).hexdigest()
    kept = cache() / f"store-{rollouts}-{named[:12]}.sqlite3"
    if not kept.exists():
        made = scratch("store") / "store.sqlite3"
        fill(made, rollouts)
        made.rename(kept)
    return Path(shutil.copy(kept, scratch("store") / "store.sqlite3"))


def fill(path: Path, rollouts: int) -> None:
    """A database with one run of so many rollouts, a tenth of which failed.

    The collector's own code makes one rollout that went well and one that failed; SQL copies their rows, whatever
    columns they have, under other numbers.
    """
    engine = open_database(f"sqlite:///{path}")
    with engine.begin() as connection:
        put_session(connection, Session(SESSION, RUN, "fresh", output="/bench/rollouts.jsonl"), T0)
        put_expected(connection, RUN, "bench", "sha256:0", [(AGENT, task, 0, None) for task in (0, 1)], T0)
        lives = [*life("d-good-0", 0, failed_calls=0), *life("d-poor-1", 1)]
        apply_events(connection, "bench", 1, lives, Policy())
    engine.dispose()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("BEGIN")
        for table in ("rollouts", "dispatches", "tags"):
            _multiply(connection, table, rollouts)
        connection.execute(_COUNTED)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode=DELETE")  # all of it lies in the one file


def _multiply(connection: sqlite3.Connection, table: str, rollouts: int) -> None:
    """Copy the rows of rollouts 0 and 1 under the numbers 2 and on."""
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    picked = ", ".join(_copied(name) for name in columns)
    column = "rollout" if table != "tags" else "dispatch"
    good, poor = ("0-0", "1-0") if table != "tags" else ("d-good-0", "d-poor-1")
    connection.execute(
        f"WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?) "
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {picked} FROM n JOIN "
        f"(SELECT * FROM {table} WHERE {column} IN ('{good}', '{poor}')) AS old "
        f"ON old.{column} = CASE WHEN n.i % 10 = 0 THEN '{poor}' ELSE '{good}' END",
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


def _copied(column: str) -> str:
    """A column of the copy: names of the dispatch and numbers of the rollout are made new wherever they stand."""
    if column in _NUMBERED:
        return _NUMBERED[column]
    text = f"old.{column}"
    pairs: Sequence[tuple[str, str]] = (
        ("d-good-0", "'d-good-' || n.i"),
        ("d-poor-1", "'d-poor-' || n.i"),
        ('"0-0"', "'\"' || n.i || '-0\"'"),
        ('"1-0"', "'\"' || n.i || '-0\"'"),
    )
    for was, becomes in pairs:
        text = f"replace({text}, '{was}', {becomes})"
    return f"CASE WHEN typeof(old.{column}) = 'text' THEN {text} ELSE old.{column} END"
