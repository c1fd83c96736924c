"""What is not known of a run: failed calls without an owner, and servers whose calls were never seen.

An unattributed failure withholds the benchmarks whose servers can reach the called one by the references of Gym's
config, until a later session has run without one or a person has accepted it. What a rebuild could not know withholds
until a person has accepted it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, and_, exists, func, not_, or_, select

from ..contract.policy import Policy
from ..contract.wording import plural
from .counting import CURRENT, Benchmark
from .hearing import Moment, has_ended
from .schema import REBUILT, RUNNING, dispatches, notes, runs, sessions, tags, topology, watched

STALLED_S = 600.0
"""Seconds after which an open rollout shows as stalled."""


def doubts_about(
    connection: Connection, run: str, benchmarks: Sequence[Benchmark], policy: Policy
) -> dict[str, list[str]]:
    """Why a benchmark may not be what its counts say; benchmark to reasons."""
    columns = (runs.c.expected_source, runs.c.asked_at, runs.c.lost)
    found = connection.execute(select(*columns).where(runs.c.run == run)).one()
    general = []
    if found.expected_source is None and found.asked_at is None:
        general.append("expected is what was seen so far")
    unowned = unattributed(connection, run) if policy.unattributed == "withhold" else {}
    reach = _reachable(connection) if unowned else {}
    lost = found.lost or {}
    return {
        each.name: [*general, *_unowned_at(each, unowned, reach), *_own_doubts(each), *lost.get(each.name, ())]
        for each in benchmarks
    }


def _own_doubts(benchmark: Benchmark) -> Iterator[str]:
    if unread := benchmark.fact("not_inspected"):
        yield f"{plural(unread, 'answer')} not inspected"
    if misplaced := benchmark.fact("misplaced"):
        rows = plural(misplaced, "row of the results lies", "rows of the results lie")
        yield f"{rows} in the failures file: rollcall divert"


def unattributed(connection: Connection, run: str) -> dict[str, int]:
    """Failed calls without an owner during the run's last session that nobody has accepted; server to number.

    What was taken from files is no session that a call could have come in.
    """
    last = connection.execute(
        select(sessions.c.started_at, sessions.c.ended_at, runs.c.accepted_at)
        .join(runs, runs.c.run == sessions.c.run)
        .where(sessions.c.run == run, sessions.c.mode != REBUILT)
        .order_by(sessions.c.started_at.desc())
        .limit(1)
    ).first()
    if last is None:
        return {}
    here = (tags.c.dispatch.is_(None), not_(tags.c.blameless), _during(last.started_at, last.ended_at))
    asked = select(tags.c.server, func.sum(tags.c.count)).where(*here).group_by(tags.c.server)
    if last.accepted_at is not None:
        asked = asked.where(func.coalesce(tags.c.received_at, tags.c.last_at) >= last.accepted_at)
    return {str(server): int(count) for server, count in connection.execute(asked)}


def _during(start: float, end: float | None) -> Any:
    """Within a session by the proxy's clock or by the collector's: of two clocks that differ, the one that doubts."""
    clocks = (tags.c.last_at, tags.c.received_at)
    return or_(*(and_(clock >= start, *(() if end is None else (clock <= end,))) for clock in clocks))


def _unowned_at(benchmark: Benchmark, unowned: dict[str, int], reach: dict[str, set[str]]) -> list[str]:
    servers = {benchmark.server or "", benchmark.agent or "", benchmark.environment_server or ""} - {""}
    known = [server for server in servers if server in reach]
    return [
        f"{plural(count, 'unattributed failure')} at {server}"
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


def stalled(connection: Connection, run: str, at: Moment) -> int:
    """Rollouts that have been open for longer than STALLED_S, for a session that is alive."""
    own_session = dispatches.join(sessions, sessions.c.session == dispatches.c.session)
    asked = (
        select(func.count()).select_from(own_session).where(dispatches.c.run == run, RUNNING, exists().where(CURRENT))
    )
    long = dispatches.c.started_at < at.now - STALLED_S
    return int(connection.execute(asked.where(long, not_(has_ended(at)))).scalar_one())


def warnings_about(connection: Connection, run: str, benchmarks: Sequence[Benchmark]) -> list[str]:
    """What must not be mistaken for health."""
    made = {row["server"]: row["made"] for row in servers_watched(connection, run)}
    found = [
        f"{each.agent or each.name}: its inner calls were never seen (outer hop only); its failures are not all known"
        for each in benchmarks
        if each.server is not None and not made.get(each.agent or each.name)
    ]
    facts = [text for each in benchmarks for text in _hidden(each)]
    alone = [text for each in benchmarks for text in _tools_alone(each)]
    return [*_notes(connection), *alone, *found, *facts]


def _hidden(benchmark: Benchmark) -> Iterator[str]:
    """What successes may hide, and calls that did not end well and are no failure."""
    if (silent := benchmark.fact("silent")) and benchmark.fact("calling"):
        yield f"{benchmark.name}: {plural(silent, 'rollout')} without any model call"
    for fact, text in _FACTS:
        if number := benchmark.fact(fact):
            yield f"{benchmark.name}: {plural(number, 'rollout')} {text}"
    for rule, calls in sorted(benchmark.details("pardoned").items()):
        yield f"{benchmark.name}: {plural(calls, 'failed call is', 'failed calls are')} no failure by {rule}"


_FACTS = (
    ("masked", "masked, which Gym leaves out of the metrics"),
    ("unscored", "left unscored on purpose"),
    ("empty_output", "with an empty output and reward 0"),
    ("provisional", "judged by a proxy alone while the collector could not be asked (provisional)"),
)


def _tools_alone(benchmark: Benchmark) -> Iterator[str]:
    """Many benchmarks show a tool's error to the model on purpose; so this is said first, with its cure."""
    if count := benchmark.fact("tools_alone"):
        failed = f"{plural(count, 'rollout')} failed"
        yield (
            f"{benchmark.name}: {failed} for error statuses of tools alone (tool_errors: failure). "
            "Where the model is meant to see these, put them back without a new model call: "
            "rollcall divert --reapply --tool-errors model_visible_4xx --output RESULTS"
        )


def _notes(connection: Connection) -> list[str]:
    return list(connection.execute(select(notes.c.note).order_by(notes.c.at)).scalars())
