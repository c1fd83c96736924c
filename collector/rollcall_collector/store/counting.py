"""The counts of a run's benchmarks, and whether their metrics are released."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, case, func, literal, or_, select, union_all

from ..contract.gate import Counts, why_withheld, withheld_metrics
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


def with_reasons(benchmarks: Sequence[Benchmark], doubts: Mapping[str, Sequence[str]]) -> list[Benchmark]:
    """The benchmarks with what withholds their metrics: their counts, and what is not known of them."""
    return [
        Benchmark(
            each.name,
            each.agent,
            each.environment_server,
            each.server,
            each.counts,
            why_withheld(each.counts, doubts.get(each.name, ())),
        )
        for each in benchmarks
    ]


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
