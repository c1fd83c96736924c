"""What is asked of the store. Each answer is read in one transaction, the counts of a run in one statement."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, func, or_, select

from ..contract.gate import Counts, exit_status
from ..contract.policy import Policy
from ..contract.spans import marked
from ..contract.verdict import pardon
from .counting import (
    Benchmark,
    counted_benchmarks,
    current_rollouts,
    left_out,
    tolerances,
    with_reasons,
)
from .doubts import doubts_about, servers_watched, stalled, unattributed, warnings_about
from .grouping import By, groups
from .hearing import Moment, has_ended
from .judging import policy_of_run
from .listing import listed, with_cause
from .measuring import Measures, measures
from .placing import healed, moves
from .reporting import unreported
from .schema import FAILED, dispatches, rollouts, runs, sessions, tags
from .spanning import Found, spans_of
from .standing import standing
from .tagging import first_and_last
from .timing import timeline
from .totals import Key

_ROLLOUT = ("benchmark", "task_index", "rollout_index", "stage_index", "attempt", "state", "dispatch")

SPANS = 1000
"""Calls of a dispatch that are shown where nothing else is asked for."""

OF_OTHERS = ("aggregate", "reverify")
"""Modes of sessions that work on what other runs wrote: none of them is the latest run."""


class UnknownRunError(LookupError):
    """No run, or no rollout of it, has this id."""


class Reader:
    """Answers questions about runs. Its methods block: call them outside of the event loop.

    `since` is when the asker began to listen for heartbeats (see `hearing`); one that has no such time takes the
    last heartbeat of each session as it stands.
    """

    def __init__(self, engine: Engine, policy: Policy, since: float = float("-inf")) -> None:
        self._engine, self._policy = engine, policy
        self._since = since

    def at(self, now: float) -> Moment:
        """A time, as sessions are judged by it."""
        return Moment(now, self._since)

    def ping(self) -> None:
        """Raise what the database raises when it cannot be read."""
        with self._engine.connect() as connection:
            connection.execute(select(func.count()).select_from(sessions).limit(1))

    def measures(self, now: float) -> Measures:
        """Numbers for a scrape."""
        with self._engine.connect() as connection:
            return measures(connection, self.at(now))

    def run_of(self, session: str) -> str:
        """The run of a session. Raises UnknownRunError."""
        with self._engine.connect() as connection:
            found = connection.execute(select(sessions.c.run).where(sessions.c.session == session)).scalar()
        if found is None:
            raise UnknownRunError(f"no session has the id {session}")
        return str(found)

    def standing(self, line: str, since: float) -> list[dict[str, Any]]:
        """The calls that stand failed of dispatches that were open then, as far as a line of proxies has named them."""
        with self._engine.connect() as connection:
            return standing(connection, line, since)

    def runs(self, now: float, launch: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """The newest runs first; those of one launch where it is named."""
        newest = func.max(sessions.c.started_at)
        shown = sessions.join(runs, runs.c.run == sessions.c.run)
        asked = select(sessions.c.run).select_from(shown).where(runs.c.pruned_at.is_(None))
        asked = asked.group_by(sessions.c.run).order_by(newest.desc()).limit(limit)
        if launch is not None:
            asked = asked.where(sessions.c.launch == launch)
        with self._engine.connect() as connection:
            names = connection.execute(asked).scalars().all()
            return [_status(connection, name, self.at(now), self._policy) for name in names]

    def status(self, run: str, now: float) -> dict[str, Any]:
        """The status of a run; `latest` names the newest. Raises UnknownRunError."""
        with self._engine.connect() as connection:
            return _status(connection, _resolve(connection, run), self.at(now), self._policy)

    def gate(
        self,
        run: str,
        now: float,
        server: str | None = None,
        trouble: str | None = None,
        asked_at: float | None = None,
    ) -> dict[str, Any]:
        """Which benchmarks' metrics are released; only those sent to `server` where one is named.

        `trouble` is what the last write to the store met: what it did not take in may speak of any benchmark.
        `asked_at`: what proxies knew then must have been told (see `reporting`).
        """
        with self._engine.connect() as connection:
            name = _resolve(connection, run)
            policy = policy_of_run(connection, name, self._policy)
            general = [f"the store cannot be written: {trouble}"] if trouble else []
            general += [] if asked_at is None else unreported(connection, name, self.at(now), asked_at)
            benchmarks, doubts = _benchmarks(connection, name, self.at(now), policy, server, general)
            return _gate(name, benchmarks, doubts) | {
                "left_out": left_out(connection, name, benchmarks),
                "healed": healed(connection, name),
            }

    def unreported(self, run: str, now: float, asked_at: float) -> list[str]:
        """Why proxies may know more than they had told then. Raises UnknownRunError."""
        with self._engine.connect() as connection:
            return unreported(connection, _resolve(connection, run), self.at(now), asked_at)

    def resolve(self, run: str) -> str:
        """The run's id, of the newest where `latest` is asked for. Raises UnknownRunError."""
        with self._engine.connect() as connection:
            return _resolve(connection, run)

    def moves(self, run: str) -> dict[str, Any]:
        """Which rows of a run lie in the wrong file. Raises UnknownRunError."""
        with self._engine.connect() as connection:
            return moves(connection, _resolve(connection, run))

    def rollouts(
        self,
        run: str,
        state: str | None,
        benchmark: str | None,
        limit: int,
        after: int,
        now: float,
        *,
        cause: str | None = None,
        words: str | None = None,
    ) -> list[dict[str, Any]]:
        """Rollouts of a run in order of benchmark and index, `limit` of them from number `after` on.

        `cause` is a group's id; `words` are looked for in ids, benchmarks, classes and root causes.
        """
        with self._engine.connect() as connection:
            name = _resolve(connection, run)
            which = [rollouts.c.benchmark == benchmark] if benchmark else []
            if cause:
                which.append(rollouts.c.cause == cause)
            if words:
                which.append(or_(*(_contains(rollouts.c[name], words) for name in _SEARCHED)))
            rows = connection.execute(listed(name, self.at(now), state, which, (limit, after))).all()
            return [_rollout(row) for row in rows]

    def groups(self, run: str, by: By, limit: int) -> dict[str, Any]:
        """The failed rollouts of a run, grouped, the largest groups first. Raises UnknownRunError."""
        with self._engine.connect() as connection:
            name = _resolve(connection, run)
            return {"run": name, "group": by, **groups(connection, name, by, limit)}

    def timeline(self, run: str) -> dict[str, Any]:
        """When attempts of a run have failed. Raises UnknownRunError."""
        with self._engine.connect() as connection:
            name = _resolve(connection, run)
            return {"run": name, **timeline(connection, name)}

    def rollout(
        self, run: str, rollout: str, now: float, benchmark: str | None = None, spans: int = SPANS
    ) -> dict[str, Any]:
        """One rollout with its dispatches, their tags, and the first `spans` calls of each. Raises UnknownRunError.

        `benchmarks` names all that have a rollout of this id, of which the first is told unless one is asked for.
        """
        with self._engine.connect() as connection:
            name = _resolve(connection, run)
            asked = with_cause(current_rollouts(name, self.at(now), rollouts.c.rollout == rollout))
            there = sorted(connection.execute(asked).all(), key=lambda row: row.benchmark)
            found = next((row for row in there if benchmark in (None, row.benchmark)), None)
            if found is None:
                raise UnknownRunError(_no_rollout(connection, name, rollout, [row.benchmark for row in there]))
            policy = policy_of_run(connection, name, self._policy)
            told = _dispatches(connection, (name, found.benchmark, rollout), policy, spans)
            about = {"run": name, "benchmarks": [row.benchmark for row in there], "now": now}
            return _rollout(found) | about | {"dispatches": told}

    def failures(self, run: str) -> Iterator[dict[str, Any]]:
        """The failure rows of a run, one for each failed attempt, in order of time."""
        asked = select(dispatches.c.row).where(FAILED).order_by(dispatches.c.ended_at, dispatches.c.dispatch)
        with self._engine.connect() as connection:
            name = _resolve(connection, run)
            for row in connection.execution_options(yield_per=100).execute(asked.where(dispatches.c.run == name)):
                yield row.row


_SEARCHED = ("rollout", "benchmark", "cause_words")


def _contains(column: ColumnElement[str], words: str) -> ColumnElement[bool]:
    return func.lower(column).contains(words.lower(), autoescape=True)


def _resolve(connection: Connection, run: str) -> str:
    own = sessions.c.mode.not_in(OF_OTHERS)
    shown = sessions.join(runs, runs.c.run == sessions.c.run)
    asked = select(sessions.c.run).select_from(shown).where(own).order_by(sessions.c.started_at.desc()).limit(1)
    if run != "latest":
        asked = select(runs.c.run).where(runs.c.run == run)
    asked = asked.where(runs.c.pruned_at.is_(None))
    found = connection.execute(asked).scalar()
    if found is None:
        raise UnknownRunError("no run has been seen yet" if run == "latest" else f"no run has the id {run}")
    return str(found)


def _benchmarks(
    connection: Connection, run: str, at: Moment, policy: Policy, server: str | None = None, general: Sequence[str] = ()
) -> tuple[list[Benchmark], list[str]]:
    """The benchmarks with their reasons, and the reasons that are no counts."""
    counted = counted_benchmarks(connection, run, at, server)
    general = list(dict.fromkeys([*general, *unreported(connection, run, at)]))
    doubts = {name: [*general, *found] for name, found in doubts_about(connection, run, counted, policy).items()}
    allowed = tolerances(connection, run, counted, policy.max_failure_rate)
    return with_reasons(counted, doubts, allowed), sorted({doubt for each in doubts.values() for doubt in each})


def _gate(run: str, benchmarks: list[Benchmark], doubts: list[str]) -> dict[str, Any]:
    released = [(benchmark.counts, not benchmark.reason) for benchmark in benchmarks]
    return {
        "run": run,
        "complete": bool(benchmarks) and all(ok and counts.complete for counts, ok in released),
        "exit_status": int(exit_status(released)),
        "reasons": doubts,
        "benchmarks": [benchmark.as_dict() for benchmark in benchmarks],
    }


def _status(connection: Connection, run: str, at: Moment, default: Policy) -> dict[str, Any]:
    policy = policy_of_run(connection, run, default)
    benchmarks, doubts = _benchmarks(connection, run, at, policy)
    last = connection.execute(
        select(sessions, has_ended(at).label("has_ended"))
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
        "unattributed": sum(unattributed(connection, run).values()),
        "stalled": stalled(connection, run, at),
        "servers": servers_watched(connection, run),
        "warnings": warnings_about(connection, run, benchmarks),
        "accepted": about.accepted_reason,
        "policy": policy.as_dict(),
    }


def _rollout(row: Any) -> dict[str, Any]:
    return {"id": row.rollout, **{name: getattr(row, name) for name in _ROLLOUT}, "root_cause": row.root_cause} | {
        "cause": row.cause,
        "class": row.failure_class,
        "terminal": bool(row.terminal),
    }


def _no_rollout(connection: Connection, run: str, rollout: str, benchmarks: Sequence[str]) -> str:
    """What is said of a rollout that is not there: the benchmarks that have it, or the ids that come nearest."""
    if benchmarks:
        return f"run {run} has no rollout {rollout} of that benchmark; it has one of {', '.join(benchmarks)}"
    task = rollout.partition("-")[0]
    near = func.abs(rollouts.c.task_index - int(task[:9])) if task.isdecimal() else rollouts.c.task_index
    asked = select(rollouts.c.rollout).where(rollouts.c.run == run).group_by(rollouts.c.rollout)
    order = (func.min(near), func.min(rollouts.c.rollout_index), rollouts.c.rollout)
    nearest = connection.execute(asked.order_by(*order).limit(_NEAREST)).scalars().all()
    return f"run {run} has no rollout {rollout}" + (f"; the nearest are {', '.join(nearest)}" if nearest else "")


_NEAREST = 5


def _dispatches(connection: Connection, key: Key, policy: Policy, spans: int) -> list[dict[str, Any]]:
    run, benchmark, rollout = key
    owner = (dispatches.c.run == run, dispatches.c.benchmark == benchmark, dispatches.c.rollout == rollout)
    rows = connection.execute(
        select(dispatches).where(*owner).order_by(dispatches.c.started_at, dispatches.c.dispatch)
    ).all()
    found = spans_of(connection, [row.dispatch for row in rows]) if spans else {}
    return [_with_spans(_dispatch(connection, row, policy), found.get(row.dispatch, Found()), spans) for row in rows]


def _with_spans(dispatch: dict[str, Any], found: Found, limit: int) -> dict[str, Any]:
    """A dispatch with its first calls, how many there are, and how many were not kept."""
    shown = marked(found.calls, dispatch["tags"], dispatch["root_cause"])[:limit]
    return dispatch | {"spans": shown, "spans_known": len(found.calls), "spans_lost": found.lost}


def _dispatch(connection: Connection, row: Any, policy: Policy) -> dict[str, Any]:
    here = (tags.c.claimed == row.dispatch, tags.c.dispatch == row.dispatch)
    kept = connection.execute(select(tags).where(*here).order_by(tags.c.ended_at, tags.c.exchange)).all()
    names = ("dispatch", "session", "state", "attempt", "started_at", "ended_at", "root_cause")
    told = {name: getattr(row, name) for name in names}
    told |= {"class": row.failure_class, "provisional": bool(row.provisional), "trace": row.begun.get("trace")}
    ending = None if row.ended is None else row.ended.get("ending")
    return told | {"tags": [_tag(each, policy, ending) for each in kept]}


def _tag(record: Any, policy: Policy, ending: str | None) -> dict[str, Any]:
    """The first exchange of a record, how often it has repeated until when, and the rule by which it is no failure."""
    first = first_and_last(record)[0]
    shown = {key: value for key, value in asdict(first).items() if key not in ("event", "dispatch")}
    shown["pardoned"] = pardon(first, policy, ending)
    times = {"recovered": record.recovered_at is not None, "count": record.count, "last_at": record.last_at}
    return shown | times
