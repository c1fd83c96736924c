"""What is asked of the store. Each answer is read in one transaction, the counts of a run in one statement."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, and_, case, func, literal, or_, select, union_all

from ..contract.gate import Counts, exit_status, why_withheld, withheld_metrics
from .schema import dispatches, rollouts, runs, sessions, tags

SESSION_SILENCE_S = 30.0
"""Seconds without a heartbeat after which a session has ended."""

_ROLLOUT = ("benchmark", "task_index", "rollout_index", "stage_index", "attempt", "state", "dispatch")


class UnknownRunError(LookupError):
    """No run, or no rollout of it, has this id."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark of a run: its counts, and why its metrics are withheld (`` when they are released)."""

    name: str
    agent: str | None
    environment_server: str | None
    counts: Counts
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """The benchmark as the status and the gate show it."""
        return {
            "benchmark": self.name,
            "agent": self.agent,
            "environment_server": self.environment_server,
            **self.counts.as_dict(),
            "complete": self.counts.complete,
            "metrics": "withheld" if self.reason else "released",
            "reason": self.reason,
            "withheld_metrics": withheld_metrics(self.counts, self.reason) if self.reason else None,
        }


class Reader:
    """Answers questions about runs. Its methods block: call them outside of the event loop."""

    def __init__(self, engine: Engine, policy: Mapping[str, Any]) -> None:
        self._engine = engine
        self._policy = dict(policy)

    def ping(self) -> None:
        """Raise what the database raises when it cannot be read."""
        with self._engine.connect() as connection:
            connection.execute(select(func.count()).select_from(sessions).limit(1))

    def run_of(self, session: str) -> str:
        """The run of a session. Raises UnknownRunError."""
        with self._engine.connect() as connection:
            found = connection.execute(select(sessions.c.run).where(sessions.c.session == session)).scalar()
        if found is None:
            raise UnknownRunError(f"no session has the id {session}")
        return str(found)

    def runs(self, now: float, launch: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """The newest runs first; those of one launch where it is named."""
        newest = func.max(sessions.c.started_at)
        asked = select(sessions.c.run).group_by(sessions.c.run).order_by(newest.desc()).limit(limit)
        if launch is not None:
            asked = asked.where(sessions.c.launch == launch)
        with self._engine.connect() as connection:
            names = connection.execute(asked).scalars().all()
            return [_status(connection, name, now, self._policy) for name in names]

    def status(self, run: str, now: float) -> dict[str, Any]:
        """The status of a run; `latest` names the newest. Raises UnknownRunError."""
        with self._engine.connect() as connection:
            return _status(connection, _resolve(connection, run), now, self._policy)

    def gate(self, run: str, now: float, server: str | None = None) -> dict[str, Any]:
        """Which benchmarks' metrics are released; only those sent to `server` where one is named."""
        with self._engine.connect() as connection:
            name = _resolve(connection, run)
            benchmarks, doubts = _benchmarks(connection, name, now, server)
            return _gate(name, benchmarks, doubts)

    def rollouts(
        self, run: str, state: str | None, benchmark: str | None, limit: int, after: int, now: float
    ) -> list[dict[str, Any]]:
        """Rollouts of a run in order of benchmark and index, `limit` of them from number `after` on."""
        with self._engine.connect() as connection:
            name = _resolve(connection, run)
            current = _current_rollouts(name, now).subquery()
            asked = select(current, dispatches.c.root_cause).outerjoin_from(
                current, dispatches, dispatches.c.dispatch == current.c.dispatch
            )
            if state:
                asked = asked.where(current.c.state == state)
            if benchmark:
                asked = asked.where(current.c.benchmark == benchmark)
            order = (current.c.benchmark, current.c.task_index, current.c.rollout_index, current.c.rollout)
            rows = connection.execute(asked.order_by(*order).limit(limit).offset(after)).all()
            return [_rollout(row) for row in rows]

    def rollout(self, run: str, rollout: str, now: float, benchmark: str | None = None) -> dict[str, Any]:
        """One rollout with its dispatches and their tags. Raises UnknownRunError."""
        with self._engine.connect() as connection:
            name = _resolve(connection, run)
            current = _current_rollouts(name, now).subquery()
            asked = select(current, dispatches.c.root_cause).outerjoin_from(
                current, dispatches, dispatches.c.dispatch == current.c.dispatch
            )
            asked = asked.where(current.c.rollout == rollout)
            if benchmark:
                asked = asked.where(current.c.benchmark == benchmark)
            found = connection.execute(asked).first()
            if found is None:
                raise UnknownRunError(f"run {name} has no rollout {rollout}")
            return _rollout(found) | {"dispatches": _dispatches(connection, name, found.benchmark, rollout)}

    def failures(self, run: str) -> Iterator[dict[str, Any]]:
        """The failure rows of a run, one for each failed attempt, in order of time."""
        asked = select(dispatches.c.row).where(dispatches.c.state == "failed").order_by(dispatches.c.ended_at)
        with self._engine.connect() as connection:
            name = _resolve(connection, run)
            for row in connection.execution_options(yield_per=100).execute(asked.where(dispatches.c.run == name)):
                yield row.row


def _resolve(connection: Connection, run: str) -> str:
    asked = select(sessions.c.run).order_by(sessions.c.started_at.desc()).limit(1)
    if run != "latest":
        asked = select(runs.c.run).where(runs.c.run == run)
    found = connection.execute(asked).scalar()
    if found is None:
        raise UnknownRunError("no run has been seen yet" if run == "latest" else f"no run has the id {run}")
    return str(found)


def _ended(now: float) -> Any:
    silent = and_(sessions.c.attached, sessions.c.heartbeat_at < now - SESSION_SILENCE_S)
    return or_(sessions.c.ended_at.is_not(None), silent)


def _current_rollouts(run: str, now: float) -> Any:
    """Each rollout with its state as of now: one that runs for a session that has ended is missing."""
    state = case((and_(rollouts.c.state == "running", _ended(now)), literal("missing")), else_=rollouts.c.state)
    columns = [column for column in rollouts.c if column.name != "state"]
    running = and_(rollouts.c.state == "running", rollouts.c.dispatch == dispatches.c.dispatch)
    joined = rollouts.outerjoin(dispatches, running).outerjoin(sessions, sessions.c.session == dispatches.c.session)
    return select(*columns, state.label("state")).select_from(joined).where(rollouts.c.run == run)


def _counted(run: str, now: float, server: str | None) -> Any:
    """(benchmark, state, count, agent, environment server, server) of a run, in one statement."""
    labels = (func.min(rollouts.c.agent), func.min(rollouts.c.environment_server), func.min(rollouts.c.server))
    here = [rollouts.c.run == run] if server is None else [rollouts.c.run == run, _benchmark_is_at(run, server)]
    settled = select(rollouts.c.benchmark, rollouts.c.state, func.count(), *labels)
    settled = settled.where(*here, rollouts.c.state != "running").group_by(rollouts.c.benchmark, rollouts.c.state)
    state = case((_ended(now), "missing"), else_="running")
    running = select(rollouts.c.benchmark, state, func.count(), *labels).select_from(
        rollouts.join(dispatches, dispatches.c.dispatch == rollouts.c.dispatch).join(
            sessions, sessions.c.session == dispatches.c.session
        )
    )
    running = running.where(*here, rollouts.c.state == "running").group_by(rollouts.c.benchmark, state)
    return union_all(settled, running)


def _benchmark_is_at(run: str, server: str) -> Any:
    there = select(rollouts.c.benchmark).where(rollouts.c.run == run, rollouts.c.server == server)
    return rollouts.c.benchmark.in_(there)


def _benchmarks(
    connection: Connection, run: str, now: float, server: str | None = None
) -> tuple[list[Benchmark], list[str]]:
    doubts = _doubts(connection, run)
    counts: dict[str, Counts] = {}
    labels: dict[str, tuple[str | None, str | None, str | None]] = {}
    for name, state, count, *seen in connection.execute(_counted(run, now, server)):
        counts[name] = counts.get(name, Counts()) + Counts(**{state: count})
        labels[name] = tuple(new or old for new, old in zip(seen, labels.get(name, (None,) * 3), strict=True))  # type: ignore[assignment]  # three labels
    return [_benchmark(name, counts[name], labels[name], doubts) for name in sorted(counts)], doubts


def _benchmark(
    name: str, counts: Counts, labels: tuple[str | None, str | None, str | None], doubts: list[str]
) -> Benchmark:
    agent, environment, server = labels
    if environment is None and server != agent:
        environment = server  # nemo_gym 0.7: an environment server in front that the rows do not name
    return Benchmark(name, agent, environment, counts, why_withheld(counts, doubts))


def _doubts(connection: Connection, run: str) -> list[str]:
    """What is not known of a run and so withholds every benchmark of it."""
    found = connection.execute(select(runs.c.expected_source, runs.c.asked_at).where(runs.c.run == run)).one()
    doubts = []
    if found.expected_source is None and found.asked_at is None:
        doubts.append("expected is what was seen so far")
    if unattributed := _unattributed(connection, run):
        doubts.append(f"{unattributed} unattributed failures")
    return doubts


def _unattributed(connection: Connection, run: str) -> int:
    """Failed calls without an owner during the run's last session."""
    last = connection.execute(
        select(sessions.c.started_at, sessions.c.ended_at)
        .where(sessions.c.run == run)
        .order_by(sessions.c.started_at.desc())
        .limit(1)
    ).first()
    if last is None:
        return 0
    failed = tags.c.tag["what"].as_string() != "cancelled"
    during = [tags.c.dispatch.is_(None), failed, tags.c.ended_at >= last.started_at]
    if last.ended_at is not None:
        during.append(tags.c.ended_at <= last.ended_at)
    return int(connection.execute(select(func.count()).select_from(tags).where(*during)).scalar_one())


def _gate(run: str, benchmarks: list[Benchmark], doubts: list[str]) -> dict[str, Any]:
    released = [(benchmark.counts, not benchmark.reason) for benchmark in benchmarks]
    return {
        "run": run,
        "complete": bool(benchmarks) and all(ok for _, ok in released),
        "exit_status": int(exit_status(released)),
        "reasons": doubts,
        "benchmarks": [benchmark.as_dict() for benchmark in benchmarks],
    }


def _status(connection: Connection, run: str, now: float, policy: Mapping[str, Any]) -> dict[str, Any]:
    benchmarks, doubts = _benchmarks(connection, run, now)
    last = connection.execute(
        select(sessions, _ended(now).label("has_ended"))
        .where(sessions.c.run == run)
        .order_by(sessions.c.started_at.desc())
        .limit(1)
    ).first()
    about = connection.execute(select(runs).where(runs.c.run == run)).one()
    number = connection.execute(select(func.count()).select_from(sessions).where(sessions.c.run == run)).scalar()
    totals = sum((benchmark.counts for benchmark in benchmarks), Counts())
    return _gate(run, benchmarks, doubts) | {
        "state": "ended" if last is None or last.has_ended else "running",
        "output": about.output,
        "mode": last.mode if last else None,
        "gym": last.gym if last else None,
        "started_at": about.created_at,
        "sessions": number,
        "expected_source": "materialized_inputs" if about.expected_source else "so_far",
        "totals": totals.as_dict(),
        "unattributed": _unattributed(connection, run),
        "policy": dict(policy),
    }


def _rollout(row: Any) -> dict[str, Any]:
    return {"id": row.rollout, **{name: getattr(row, name) for name in _ROLLOUT}, "root_cause": row.root_cause}


def _dispatches(connection: Connection, run: str, benchmark: str, rollout: str) -> list[dict[str, Any]]:
    owner = (dispatches.c.run == run, dispatches.c.benchmark == benchmark, dispatches.c.rollout == rollout)
    found = connection.execute(select(dispatches).where(*owner).order_by(dispatches.c.started_at)).all()
    return [_dispatch(connection, row) for row in found]


def _dispatch(connection: Connection, row: Any) -> dict[str, Any]:
    kept = connection.execute(
        select(tags.c.tag, tags.c.recovered).where(tags.c.dispatch == row.dispatch).order_by(tags.c.ended_at)
    ).all()
    names = ("dispatch", "session", "state", "attempt", "started_at", "ended_at", "root_cause")
    shown = [
        {key: value for key, value in tag.tag.items() if key not in ("event", "dispatch")}
        | {"recovered": tag.recovered}
        for tag in kept
    ]
    return {name: getattr(row, name) for name in names} | {"tags": shown}
