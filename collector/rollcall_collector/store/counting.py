"""The counts of a run's benchmarks, and whether their metrics are released."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, case, func, literal, select

from ..contract.gate import NO_TOLERANCE, Counts, Tolerance, coverage_metrics, why_withheld, withheld_metrics
from .hearing import Moment, has_ended
from .schema import REBUILT, benchmarks, counts, dispatches, rollouts, sessions
from .totals import STATES

CURRENT = and_(
    rollouts.c.run == dispatches.c.run,
    rollouts.c.benchmark == dispatches.c.benchmark,
    rollouts.c.rollout == dispatches.c.rollout,
    rollouts.c.dispatch == dispatches.c.dispatch,
)
"""Whether a dispatch is its rollout's last, whose verdict is the rollout's."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark of a run: its counts, where it is sent, and why its metrics are withheld (`` when released).

    `facts` are numbers of rollouts by what else is known of them: a name, and a detail or "" (`totals.added_by`).
    """

    name: str
    agent: str | None
    environment_server: str | None
    server: str | None
    counts: Counts
    facts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    reason: str = ""
    tolerance: Tolerance = NO_TOLERANCE

    def fact(self, name: str) -> int:
        """How many rollouts this is true of."""
        return self.facts.get((name, ""), 0)

    def details(self, name: str) -> dict[str, int]:
        """The numbers of a fact by its detail."""
        return {detail: number for (known, detail), number in self.facts.items() if known == name}

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


def current_rollouts(run: str, at: Moment, *which: ColumnElement[bool]) -> Select[Any]:
    """Each rollout that these conditions hold for, with its state as of now: one that runs for a session that has ended
    is missing."""
    state = case((and_(rollouts.c.state == "running", has_ended(at)), literal("missing")), else_=rollouts.c.state)
    columns: list[Any] = [column for column in rollouts.c if column.name != "state"]
    return select(*columns, state.label("state")).select_from(WITH_SESSION).where(rollouts.c.run == run, *which)


WITH_SESSION = rollouts.outerjoin(
    dispatches, and_(rollouts.c.state == "running", rollouts.c.dispatch == dispatches.c.dispatch)
).outerjoin(sessions, sessions.c.session == dispatches.c.session)
"""Rollouts, those that run with their session."""


def counted_benchmarks(connection: Connection, run: str, at: Moment, server: str | None = None) -> list[Benchmark]:
    """The benchmarks of a run, those sent to `server` where one is named; their numbers are read in one statement."""
    labels = _labels(connection, run, server)
    numbers: dict[str, dict[tuple[str, str], int]] = {name: {} for name in labels}
    for benchmark, name, detail, number in connection.execute(_counted(run, at)):
        if benchmark in numbers:
            numbers[benchmark][name, detail] = numbers[benchmark].get((name, detail), 0) + number
    return [_benchmark(name, numbers[name], labels[name]) for name in sorted(labels)]


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
    classes, missing = counted.get("classes") or (), bool(counted.get("missing"))
    return {each.name: Tolerance(max_failure_rate, _covered(each, classes), missing) for each in benchmarks}


def _counted_as_zero(connection: Connection, run: str) -> dict[str, Any]:
    own = (sessions.c.run == run, sessions.c.mode != REBUILT)
    asked = select(sessions.c.counted_as_zero).where(*own).order_by(sessions.c.started_at.desc())
    return connection.execute(asked.limit(1)).scalar() or {}


def covered_classes(connection: Connection, run: str) -> tuple[str, ...]:
    """The failure classes that the last session of a run counts as zero."""
    return tuple(_counted_as_zero(connection, run).get("classes") or ())


def _covered(benchmark: Benchmark, classes: Sequence[str]) -> int:
    return sum(number for name, number in benchmark.details("class").items() if name in classes)


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


def _counted(run: str, at: Moment) -> Any:
    """(benchmark, name, detail, number) of a run; rollouts that run for a session that has ended are missing."""
    running = and_(counts.c.name == "running", sessions.c.session == counts.c.detail)
    gone = and_(counts.c.name == "running", has_ended(at))
    name = case((gone, literal("missing")), else_=counts.c.name)
    detail = case((counts.c.name == "running", literal("")), else_=counts.c.detail)
    asked = select(counts.c.benchmark, name, detail, counts.c.number).select_from(counts.outerjoin(sessions, running))
    return asked.where(counts.c.run == run, counts.c.number != 0)


def _labels(connection: Connection, run: str, server: str | None) -> dict[str, list[str | None]]:
    """Agent, environment server and server of each benchmark."""
    names = (benchmarks.c.agent, benchmarks.c.environment_server, benchmarks.c.server)
    labels = [func.max(name) for name in names]
    asked = select(benchmarks.c.benchmark, *labels).where(benchmarks.c.run == run).group_by(benchmarks.c.benchmark)
    if server is not None:
        there = select(benchmarks.c.benchmark).where(benchmarks.c.run == run, benchmarks.c.server == server)
        asked = asked.where(benchmarks.c.benchmark.in_(there))
    return {name: [label or None for label in found] for name, *found in connection.execute(asked)}


def _benchmark(name: str, numbers: Mapping[tuple[str, str], int], labels: list[str | None]) -> Benchmark:
    agent, environment, server = labels
    if environment is None and server != agent:
        environment = server  # nemo_gym 0.7: an environment server in front that the rows do not name
    states = Counts(**{state: numbers.get((state, ""), 0) for state in STATES})
    return Benchmark(name, agent, environment, server, states, numbers)
