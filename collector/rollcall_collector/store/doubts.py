"""What is not known of a run: failed calls without an owner, and servers whose calls were never seen.

An unattributed failure withholds the benchmarks whose servers can reach the called one by the references of Gym's
config, until a later session has run without one or a person has accepted it.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sqlalchemy import JSON, Connection, func, not_, select

from ..contract.policy import Policy
from .counting import Benchmark, has_ended
from .placing import misplaced
from .schema import dispatches, rollouts, runs, sessions, tags, topology, watched

STALLED_S = 600.0
"""Seconds after which an open rollout shows as stalled."""


def doubts_about(
    connection: Connection, run: str, benchmarks: Sequence[Benchmark], policy: Policy
) -> dict[str, list[str]]:
    """Why a benchmark may not be what its counts say; benchmark to reasons."""
    found = connection.execute(select(runs.c.expected_source, runs.c.asked_at).where(runs.c.run == run)).one()
    general = []
    if found.expected_source is None and found.asked_at is None:
        general.append("expected is what was seen so far")
    unowned = unattributed(connection, run) if policy.unattributed == "withhold" else {}
    reach = _reachable(connection) if unowned else {}
    unread = select(dispatches.c.benchmark, func.count()).where(*_current(run), dispatches.c.not_inspected)
    found_unread = {name: [f"{count} answers not inspected"] for name, count in _counts(connection, unread)}
    wrong_file = {
        name: [f"{count} rows of the results lie in the failures file: rollcall divert"]
        for name, count in misplaced(connection, run).items()
    }
    return {
        each.name: [
            *general,
            *_unowned_at(each, unowned, reach),
            *found_unread.get(each.name, []),
            *wrong_file.get(each.name, []),
        ]
        for each in benchmarks
    }


def unattributed(connection: Connection, run: str) -> dict[str, int]:
    """Failed calls without an owner during the run's last session that nobody has accepted; server to number."""
    last = connection.execute(
        select(sessions.c.started_at, sessions.c.ended_at, runs.c.accepted_at)
        .join(runs, runs.c.run == sessions.c.run)
        .where(sessions.c.run == run)
        .order_by(sessions.c.started_at.desc())
        .limit(1)
    ).first()
    if last is None:
        return {}
    what, role = tags.c.tag["what"].as_string(), tags.c.tag["role"].as_string()
    counted = (tags.c.dispatch.is_(None), what != "cancelled", role != "aggregate_metrics")
    during = [*counted, tags.c.ended_at >= max(last.started_at, last.accepted_at or 0)]
    if last.ended_at is not None:
        during.append(tags.c.ended_at <= last.ended_at)
    asked = select(tags.c.server, func.count()).where(*during).group_by(tags.c.server)
    return {str(server): int(count) for server, count in connection.execute(asked)}


def _unowned_at(benchmark: Benchmark, unowned: dict[str, int], reach: dict[str, set[str]]) -> list[str]:
    servers = {benchmark.server or "", benchmark.agent or "", benchmark.environment_server or ""} - {""}
    known = [server for server in servers if server in reach]
    return [
        f"{count} unattributed failures at {server}"
        for server, count in sorted(unowned.items())
        if not known or server in servers or any(server in reach[name] for name in known)
    ]


def _reachable(connection: Connection) -> dict[str, set[str]]:
    """Each server of the config to all that it can call, directly or by way of others."""
    direct: dict[str, set[str]] = {}
    for server, other in connection.execute(select(topology.c.server, topology.c.refers_to)):
        direct.setdefault(server, set()).add(other)
    return {server: _closure(server, direct) for server in direct}


def _closure(server: str, direct: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [server]
    while waiting:
        new = direct.get(waiting.pop(), set()) - seen
        seen |= new
        waiting += new
    return seen


def servers_watched(connection: Connection, run: str) -> list[dict[str, Any]]:
    """For each server: exchanges seen, how many had an owner, and owned calls that it made itself."""
    names = ("server", "kind", "exchanges", "owned", "made")
    asked = select(*(watched.c[name] for name in names)).where(watched.c.run == run).order_by(watched.c.server)
    return [dict(zip(names, row, strict=True)) for row in connection.execute(asked)]


def stalled(connection: Connection, run: str, now: float) -> int:
    """Rollouts that have been open for longer than STALLED_S, for a session that is alive."""
    open_ones = rollouts.join(dispatches, dispatches.c.dispatch == rollouts.c.dispatch).join(
        sessions, sessions.c.session == dispatches.c.session
    )
    asked = select(func.count()).select_from(open_ones)
    running = (rollouts.c.run == run, rollouts.c.state == "running", not_(has_ended(now)))
    return int(connection.execute(asked.where(*running, dispatches.c.started_at < now - STALLED_S)).scalar_one())


def warnings_about(connection: Connection, run: str, benchmarks: Sequence[Benchmark]) -> list[str]:
    """What must not be mistaken for health."""
    made = {row["server"]: row["made"] for row in servers_watched(connection, run)}
    found = [
        f"{each.agent or each.name}: its inner calls were never seen (outer hop only); its failures are not all known"
        for each in benchmarks
        if each.server is not None and not made.get(each.agent or each.name)
    ]
    silent = select(dispatches.c.benchmark, func.count()).where(*_current(run), dispatches.c.model_calls == 0)
    counts = dict(_counts(connection, silent))
    calling = set(
        connection.execute(
            select(dispatches.c.benchmark).where(*_current(run), dispatches.c.model_calls > 0).distinct()
        ).scalars()
    )
    found += [f"{name}: {count} rollouts without any model call" for name, count in counts.items() if name in calling]
    for column, text in (
        (dispatches.c.masked, "masked, which Gym leaves out of the metrics"),
        (dispatches.c.unscored, "left unscored on purpose"),
        (dispatches.c.empty_output, "with an empty output and reward 0"),
    ):
        asked = select(dispatches.c.benchmark, func.count()).where(*_current(run), column)
        found += [f"{name}: {count} rollouts {text}" for name, count in _counts(connection, asked)]
    return [*_tools_alone(connection, run), *found, *_pardoned(connection, run)]


def _tools_alone(connection: Connection, run: str) -> list[str]:
    """Many benchmarks show a tool's error to the model on purpose; so this is said first, with its cure."""
    last = select(rollouts.c.dispatch).where(rollouts.c.run == run, rollouts.c.state == "failed")
    alone = (dispatches.c.run == run, dispatches.c.dispatch.in_(last), dispatches.c.tools_alone)
    asked = select(dispatches.c.benchmark, func.count()).where(*alone)
    return [
        f"{name}: {count} rollouts failed for error statuses of tools alone (tool_errors: failure). Where the model is "
        "meant to see these, put them back without a new model call: "
        "rollcall divert --reapply --tool-errors model_visible_4xx --output RESULTS"
        for name, count in _counts(connection, asked)
    ]


def _pardoned(connection: Connection, run: str) -> list[str]:
    """Calls that did not end well and are no failure, by the rule that says so."""
    asked = select(dispatches.c.benchmark, dispatches.c.pardoned).where(
        *_current(run), dispatches.c.pardoned.is_not(None), dispatches.c.pardoned != JSON.NULL
    )
    calls: Counter[tuple[str, str]] = Counter()
    for name, pardoned in connection.execute(asked):
        calls.update({(name, rule): count for rule, count in (pardoned or {}).items()})
    return [f"{name}: {count} failed calls are no failure by {rule}" for (name, rule), count in sorted(calls.items())]


def _current(run: str) -> tuple[Any, ...]:
    """Dispatches that ended with success and are their rollout's last."""
    last = select(rollouts.c.dispatch).where(rollouts.c.run == run)
    return (dispatches.c.run == run, dispatches.c.state == "succeeded", dispatches.c.dispatch.in_(last))


def _counts(connection: Connection, asked: Any) -> list[tuple[str, int]]:
    return [(name, count) for name, count in connection.execute(asked.group_by(dispatches.c.benchmark))]
