"""Judging dispatches: at their end, when something more of them becomes known, and again under another policy."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, exists, or_, select, update

from ..contract.exchange import DispatchBegun
from ..contract.policy import Policy, policy_from
from ..contract.row import failure_row, root_cause_of
from ..contract.verdict import Kept, Verdict, judge
from . import dialect
from .schema import counts, dispatches, rollouts, runs, tags
from .tagging import Told, kept_tags
from .totals import CALLS
from .working import JUDGED, Dispatch, Working, portions

Changed = dict[str, Any]
"""A rollout whose verdict has changed: `id`, `benchmark`, `from`, `to`."""

PLACES = {"succeeded": "results", "failed": "failures", "omitted": "nowhere"}
"""Which file gets the row of a dispatch whose outermost `/run` was answered in accordance with a state."""


def policy_of_run(connection: Connection, run: str, default: Policy) -> Policy:
    """The policy that a run was judged again under, else the collector's."""
    return policies_of(connection, {run}, default)[run]


def policies_of(connection: Connection, names: Iterable[str], default: Policy) -> dict[str, Policy]:
    """The policy of each of these runs."""
    found = dict.fromkeys(names, default)
    for row in connection.execute(_POLICIES, {"some": sorted(found)}) if found else ():
        found[row.run] = policy_from(row.policy)
    return found


_POLICIES = select(runs.c.run, runs.c.policy).where(dialect.among(runs.c.run), runs.c.policy.is_not(None))


def judge_due(work: Working, policies: Mapping[str, Policy], told: Told | None = None) -> None:
    """Give the verdict on each dispatch that waits for one, from all that is known of it."""
    due = work.due()
    kept = kept_tags(work.connection, [each.values["dispatch"] for each in due], told or Told())
    shown = {run: policy.as_dict() for run, policy in policies.items()}
    made_calls = _made_calls(work)
    for each in due:
        each.due = False
        run = each.values["run"]
        if each.values["ended"] is not None:
            _judge(each, kept[each.values["dispatch"]], (policies[run], shown[run]), made_calls)


def _judge(
    dispatch: Dispatch,
    kept: list[Kept],
    under: tuple[Policy, dict[str, Any]],
    made_calls: Callable[[DispatchBegun], bool],
) -> None:
    values, (policy, shown) = dispatch.values, under
    begun, ended = dispatch.begun(), dispatch.ended()
    swallowed = policy.swallowed(ended, begun.agent, lambda: made_calls(begun))
    verdict = judge(ended, kept, policy, swallowed)
    if values["healed_by"] is not None:
        verdict = Verdict("succeeded", pardoned=verdict.pardoned)
    elif values["placed"] == "nowhere" and verdict.state == "succeeded":
        verdict = Verdict("omitted")  # its answer was withheld and no row keeps it: it has to run again
    elif values["placed"] in ("results", "failures") and verdict.state == "omitted":
        verdict = judge(ended, _ordinary(kept), policy)  # there is a row, and it must count
    row = None
    if verdict.state == "failed":
        row = failure_row(begun, ended, verdict, shown, values["response"])
    dispatch.set(**_columns(begun, verdict, row))
    if values["placed"] is None:
        dispatch.set(placed=PLACES[verdict.state])


def _ordinary(kept: Sequence[Kept]) -> list[Kept]:
    """The same without what a shutdown explains."""
    return [replace(each, tag=replace(each.tag, shutdown=False)) for each in kept]


def _columns(begun: DispatchBegun, verdict: Verdict, row: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "state": verdict.state,
        "root_cause": root_cause_of(begun, verdict) if verdict.state != "succeeded" else None,
        "failure_class": row and row.get("_ng_failure_class"),
        "terminal": bool(row and row.get("_ng_failure_terminal")),
        "tools_alone": verdict.tools_alone,
        "pardoned": dict(verdict.pardoned) or None,
        "row": row,
    }


def _made_calls(work: Working) -> Callable[[DispatchBegun], bool]:
    """Whether a dispatch of a benchmark made a model call; asked of the database only where it matters."""
    known: dict[tuple[str, str], bool] = {}

    def asked(begun: DispatchBegun) -> bool:
        key = begun.run, begun.benchmark
        if key not in known:
            inside = any(each.key[:2] == key and each.values["model_calls"] for each in work.found.values())
            known[key] = inside or has_calls(work.connection, *key)
        return known[key]

    return asked


def has_calls(connection: Connection, run: str, benchmark: str) -> bool:
    """Whether a dispatch of this benchmark has ended after model calls. What is done for the answer's sake is done
    before anybody else asks."""
    dialect.lock_benchmark(connection, run, benchmark)
    here = (counts.c.run == run, counts.c.benchmark == benchmark, counts.c.name == CALLS)
    return bool(connection.execute(select(counts.c.number).where(*here)).scalar())


def reapply(connection: Connection, run: str, policy: Policy) -> list[Changed]:
    """Judge all dispatches of a run again under a policy, which from now on is the run's own."""
    dialect.alone(connection)
    connection.execute(update(runs).where(runs.c.run == run).values(policy=policy.as_dict()))
    changed: list[Changed] = []
    judged = connection.execute(_judged(run)).scalars().all()
    for some in portions(judged):
        changed += _judged_again(connection, some, run, policy)
    return sorted(changed, key=lambda each: (each["benchmark"], each["id"]))


def _judged_again(connection: Connection, some: list[str], run: str, policy: Policy) -> list[Changed]:
    work = Working(connection)
    work.read(some)
    before = {name: each.values["state"] for name, each in work.found.items()}
    for each in work.found.values():
        each.due = True
    judge_due(work, {run: policy})
    work.write()
    work.totals.write(connection)
    differ = [each for name, each in work.found.items() if each.values["state"] != before[name]]
    asked = select(rollouts.c.dispatch).where(rollouts.c.run == run)
    asked = asked.where(rollouts.c.rollout.in_([each.key[2] for each in differ]))
    current = set(connection.execute(asked).scalars()) if differ else set()
    return [
        {"benchmark": each.key[1], "id": each.key[2], "from": before[name], "to": each.values["state"]}
        for name, each in work.found.items()
        if name in current and each.values["state"] != before[name]
    ]


def _judged(run: str) -> Any:
    """The dispatches of a run whose verdict a policy can change."""
    tagged = exists().where(tags.c.claimed == dispatches.c.dispatch, tags.c.dispatch.is_not(None))
    bent = or_(dispatches.c.state == "failed", dispatches.c.model_calls == 0, dispatches.c.empty_output, tagged)
    judged = dispatches.c.state.in_(JUDGED)
    return select(dispatches.c.dispatch).where(dispatches.c.run == run, judged, bent)
