"""The jobs of dispatchers and people: sessions, expected rollouts, what is accepted. Each takes a connection inside a
transaction."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy import Connection, func, null, select, update

from ..contract.exchange import FilePath, Id, Name, Whole
from ..contract.identity import rollout_id
from ..contract.policy import Policy
from .dialect import alone, insert
from .schema import benchmarks, rollouts, runs, sessions
from .totals import MISSING, Difference
from .working import portions

Index = Whole
Expected = tuple[str, Index, Index, Index | None]
"""(benchmark, task index, rollout index, stage index)"""


MOST_RUNS = 100_000
"""Runs of a store at the most."""


class UnknownSessionError(Exception):
    """A heartbeat of a session that was never put."""


class SessionConflictError(Exception):
    """A session that belongs to another run."""


class TooManyRunsError(Exception):
    """A new run in a store that has as many as it may have."""


class InputsChangedError(Exception):
    """The materialized inputs of a run are not those that it began with; the text has both digests."""


@dataclass(frozen=True, slots=True)
class CountedAsZero:
    """What the user counts as zero by Gym's options (nemo_gym 0.6 and later): failure classes, and missing rollouts."""

    classes: Annotated[tuple[Name, ...], Field(max_length=1000)] = ()
    missing: bool = False


@dataclass(frozen=True, slots=True)
class Session:
    """One dispatcher process of a run."""

    session: Id
    run: Id
    mode: Name
    output: FilePath | None = None
    launch: Name | None = None
    gym: Name | None = None
    host: Name | None = None
    pid: Whole | None = None
    attached: bool = True
    counted_as_zero: CountedAsZero | None = None
    reverifies: Id | None = None


def put_session(connection: Connection, session: Session, now: float, policy: Policy | None = None) -> None:
    """Take in a session and its run; to put it again changes nothing but the heartbeat.

    Of a session known from its first dispatch only, this is what it says of itself. Raises SessionConflictError and
    TooManyRunsError.
    """
    found = connection.execute(
        select(sessions.c.attached, sessions.c.run).where(sessions.c.session == session.session)
    ).first()
    known = found is not None and found.attached
    if found is not None and found.run != session.run:
        raise SessionConflictError(f"session {session.session} belongs to run {found.run}, not to {session.run}")
    pruned = select(runs.c.pruned_at).where(runs.c.run == session.run)
    if connection.execute(pruned).scalar() is not None:
        raise SessionConflictError(f"run {session.run} is being removed; wait for that, or start afresh")
    changes: dict[str, Any] = {"output": session.output} | ({} if known else {"asked_at": None})
    changes |= {} if policy is None else {"collector_policy": policy.as_dict()}
    if found is None:
        _has_room(connection, session.run)
    run = insert(connection, runs).values({"run": session.run, "created_at": now} | changes)
    connection.execute(run.on_conflict_do_update(index_elements=["run"], set_=changes))
    row = asdict(session) | {"heartbeat_at": now}
    del row["output"]
    connection.execute(
        insert(connection, sessions)
        .values(row | {"started_at": now})
        .on_conflict_do_update(index_elements=["session"], set_={"heartbeat_at": now} if known else row)
    )


def _has_room(connection: Connection, run: str) -> None:
    if connection.execute(select(runs.c.run).where(runs.c.run == run)).first() is not None:
        return
    if (connection.execute(select(func.count()).select_from(runs)).scalar() or 0) >= MOST_RUNS:
        raise TooManyRunsError(f"there are {MOST_RUNS} runs; remove old ones with rollcall prune")


def heartbeat(connection: Connection, session: str, ended: bool, now: float) -> None:
    """Note that a session lives, or has ended. Raises UnknownSessionError."""
    changes = {"heartbeat_at": now, "ended_at": now if ended else None}
    if connection.execute(update(sessions).where(sessions.c.session == session).values(changes)).rowcount == 0:
        raise UnknownSessionError(session)


def put_expected(
    connection: Connection, run: str, source: str, digest: str, expected: Iterable[Expected], now: float
) -> int:
    """Register the rollouts of the materialized inputs; those known already keep their state. Returns how many.

    Raises InputsChangedError where the run began with other inputs.
    """
    alone(connection)
    _same_inputs(connection, run, digest)
    before, number = _numbers(connection, run), 0
    for some in portions(expected):
        rows = [_expected_row(run, item) for item in some]
        connection.execute(insert(connection, rollouts).on_conflict_do_nothing(), rows)
        know_benchmarks(connection, rows)
        number += len(rows)
    added = Difference()
    for benchmark, after in _numbers(connection, run).items():
        added.add(run, benchmark, "missing", after - before.get(benchmark, 0))
    changes = {"expected_source": source, "expected_digest": digest}
    connection.execute(
        insert(connection, runs)
        .values(run=run, created_at=now, **changes)
        .on_conflict_do_update(index_elements=["run"], set_=changes)
    )
    added.write(connection)
    return number


def _numbers(connection: Connection, run: str) -> dict[str, int]:
    """Each benchmark's number of rollouts."""
    asked = select(rollouts.c.benchmark, func.count().label("number")).where(rollouts.c.run == run)
    return {row.benchmark: row.number for row in connection.execute(asked.group_by(rollouts.c.benchmark))}


def know_benchmarks(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """The benchmarks of these rollouts, and where they are sent as far as that is known."""
    columns = [each.name for each in benchmarks.c]
    named = sorted({tuple(row.get(name) or "" for name in columns) for row in rows})
    known = [dict(zip(columns, each, strict=True)) for each in named]
    connection.execute(insert(connection, benchmarks).on_conflict_do_nothing(), known)


def _same_inputs(connection: Connection, run: str, digest: str) -> None:
    known = connection.execute(select(runs.c.expected_digest).where(runs.c.run == run)).scalar()
    if known is not None and known != digest:
        raise InputsChangedError(
            f"the materialized inputs of run {run} have changed: it began with {known}, this session has {digest}; "
            "put the old file back, or start afresh without --resume"
        )


def _expected_row(run: str, item: Expected) -> dict[str, Any]:
    benchmark, task, rollout, stage = item
    environment, _, agent = benchmark.rpartition(":")
    return {
        "run": run,
        "benchmark": benchmark,
        "rollout": rollout_id(task, rollout, stage),
        "task_index": task,
        "rollout_index": rollout,
        "stage_index": stage,
        "agent": agent,
        "environment_server": environment or None,
        "state": "missing",
        "attempt": 0,
        "counted": MISSING,
    }


def accept_unattributed(connection: Connection, run: str, reason: str, now: float) -> bool:
    """Note that a person accepts a run's unattributed failures so far; whether there is such a run."""
    changes = {"accepted_at": now, "accepted_reason": reason}
    return bool(connection.execute(update(runs).where(runs.c.run == run).values(changes)).rowcount)


def accept_rebuilt(connection: Connection, run: str, reason: str) -> bool:
    """Note that a person accepts what a rebuild of a run could not know; whether there is such a run."""
    before = connection.execute(select(runs.c.accepted_reason).where(runs.c.run == run)).scalar()
    changes = {"lost": null(), "accepted_reason": f"{before}; {reason}" if before else reason}
    return bool(connection.execute(update(runs).where(runs.c.run == run).values(changes)).rowcount)


def note_asked(connection: Connection, run: str, now: float) -> None:
    """Note that a dispatcher asks for metrics: it will dispatch nothing more in this session."""
    connection.execute(update(runs).where(runs.c.run == run).values(asked_at=now))
