"""The counts of a run's benchmarks, and whether their metrics are released."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, and_, case, func, literal, or_, select, union_all

from ..contract.gate import NO_TOLERANCE, Counts, Tolerance, coverage_metrics, why_withheld, withheld_metrics
from .schema import dispatches, rollouts, sessions

SESSION_SILENCE_S = 30.0
"""Seconds without a heartbeat after which a session has ended."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark of a run: its counts, where it is sent, and why its metrics are withheld (`` when released)."""

    name: str
    agent: str | None
    environment_server: str | None
    server: str | None
    counts: Counts
    reason: str = ""
    tolerance: Tolerance = NO_TOLERANCE

    @property
    def coverage(self) -> dict[str, Any] | None:
        """What is added to metrics that are released although not all of the benchmark has succeeded."""
        if self.reason or self.counts.complete:
            return None
        return coverage_metrics(self.counts, self.tolerance.covered)

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
            "coverage_metrics": self.coverage,
        }


def has_ended(now: float) -> Any:
    """Whether a session has ended: it said so, or has been silent for too long."""
    silent = and_(sessions.c.attached, sessions.c.heartbeat_at < now - SESSION_SILENCE_S)
    return or_(sessions.c.ended_at.is_not(None), silent)


def current_rollouts(run: str, now: float) -> Any:
    """Each rollout with its state as of now: one that runs for a session that has ended is missing."""
    state = case((and_(rollouts.c.state == "running", has_ended(now)), literal("missing")), else_=rollouts.c.state)
    columns = [column for column in rollouts.c if column.name != "state"]
    running = and_(rollouts.c.state == "running", rollouts.c.dispatch == dispatches.c.dispatch)
    joined = rollouts.outerjoin(dispatches, running).outerjoin(sessions, sessions.c.session == dispatches.c.session)
    return select(*columns, state.label("state")).select_from(joined).where(rollouts.c.run == run)


def counted_benchmarks(connection: Connection, run: str, now: float, server: str | None = None) -> list[Benchmark]:
    """The benchmarks of a run, those sent to `server` where one is named, read in one statement."""
    counts: dict[str, Counts] = {}
    labels: dict[str, list[str | None]] = {}
    for name, state, count, *seen in connection.execute(_counted(run, now, server)):
        counts[name] = counts.get(name, Counts()) + Counts(**{state: count})
        labels[name] = [new or old for new, old in zip(seen, labels.get(name, [None] * 3), strict=True)]
    return [_benchmark(name, counts[name], labels[name]) for name in sorted(counts)]


def with_reasons(
    benchmarks: Sequence[Benchmark], doubts: Mapping[str, Sequence[str]], tolerances: Mapping[str, Tolerance]
) -> list[Benchmark]:
    """The benchmarks with what withholds their metrics: their counts, and what is not known of them."""
    return [_with_reason(each, doubts.get(each.name, ()), tolerances[each.name]) for each in benchmarks]


def _with_reason(benchmark: Benchmark, doubts: Sequence[str], tolerance: Tolerance) -> Benchmark:
    reason = why_withheld(benchmark.counts, doubts, tolerance)
    return replace(benchmark, reason=reason, tolerance=tolerance)


def tolerances(
    connection: Connection, run: str, benchmarks: Sequence[Benchmark], max_failure_rate: float
) -> dict[str, Tolerance]:
    """What does not withhold each benchmark, by the policy and by what the last session counts as zero."""
    counted = _counted_as_zero(connection, run)
    covered = _covered(connection, run, counted.get("classes") or ())
    missing = bool(counted.get("missing"))
    return {each.name: Tolerance(max_failure_rate, covered.get(each.name, 0), missing) for each in benchmarks}


def _counted_as_zero(connection: Connection, run: str) -> dict[str, Any]:
    asked = select(sessions.c.counted_as_zero).where(sessions.c.run == run).order_by(sessions.c.started_at.desc())
    return connection.execute(asked.limit(1)).scalar() or {}


def covered_classes(connection: Connection, run: str) -> tuple[str, ...]:
    """The failure classes that the last session of a run counts as zero."""
    return tuple(_counted_as_zero(connection, run).get("classes") or ())


def _covered(connection: Connection, run: str, classes: Sequence[str]) -> dict[str, int]:
    if not classes:
        return {}
    failed = rollouts.join(dispatches, dispatches.c.dispatch == rollouts.c.dispatch)
    asked = select(rollouts.c.benchmark, func.count()).select_from(failed)
    here = (rollouts.c.run == run, rollouts.c.state == "failed", dispatches.c.failure_class.in_(classes))
    found = connection.execute(asked.where(*here).group_by(rollouts.c.benchmark))
    return {str(name): int(count) for name, count in found}


def left_out(connection: Connection, run: str, benchmarks: Sequence[Benchmark]) -> list[list[Any]]:
    """The rollouts whose rows must not be aggregated: failed ones of benchmarks released all the same, but for those
    that the user counts as zero. (task index, rollout index, stage index)"""
    names = [each.name for each in benchmarks if each.coverage is not None and each.counts.failed]
    if not names:
        return []
    failed = rollouts.join(dispatches, dispatches.c.dispatch == rollouts.c.dispatch)
    columns = (rollouts.c.task_index, rollouts.c.rollout_index, rollouts.c.stage_index)
    uncovered = func.coalesce(dispatches.c.failure_class, "").not_in(covered_classes(connection, run))
    here = (rollouts.c.run == run, rollouts.c.state == "failed", rollouts.c.benchmark.in_(names), uncovered)
    return [list(row) for row in connection.execute(select(*columns).select_from(failed).where(*here))]


def _counted(run: str, now: float, server: str | None) -> Any:
    """(benchmark, state, count, agent, environment server, server) of a run."""
    labels = (func.min(rollouts.c.agent), func.min(rollouts.c.environment_server), func.min(rollouts.c.server))
    here = [rollouts.c.run == run] if server is None else [rollouts.c.run == run, _is_at(run, server)]
    settled = select(rollouts.c.benchmark, rollouts.c.state, func.count(), *labels)
    settled = settled.where(*here, rollouts.c.state != "running").group_by(rollouts.c.benchmark, rollouts.c.state)
    state = case((has_ended(now), "missing"), else_="running")
    running = select(rollouts.c.benchmark, state, func.count(), *labels).select_from(
        rollouts.join(dispatches, dispatches.c.dispatch == rollouts.c.dispatch).join(
            sessions, sessions.c.session == dispatches.c.session
        )
    )
    running = running.where(*here, rollouts.c.state == "running").group_by(rollouts.c.benchmark, state)
    return union_all(settled, running)


def _is_at(run: str, server: str) -> Any:
    there = select(rollouts.c.benchmark).where(rollouts.c.run == run, rollouts.c.server == server)
    return rollouts.c.benchmark.in_(there)


def _benchmark(name: str, counts: Counts, labels: list[str | None]) -> Benchmark:
    agent, environment, server = labels
    if environment is None and server != agent:
        environment = server  # nemo_gym 0.7: an environment server in front that the rows do not name
    return Benchmark(name, agent, environment, server, counts)
