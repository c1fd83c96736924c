"""Judging dispatches: at their end, when something more of them becomes known, and again under another policy."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, exists, or_, select, update

from ..contract.exchange import DispatchBegun, DispatchEnded, Tag
from ..contract.policy import Policy, policy_from
from ..contract.row import failure_row, root_cause_of
from ..contract.verdict import Kept, Verdict, judge
from .schema import dispatches, rollouts, runs, tags

Changed = dict[str, Any]
"""A rollout whose verdict has changed: `id`, `benchmark`, `from`, `to`."""


def policy_of_run(connection: Connection, run: str, default: Policy) -> Policy:
    """The policy that a run was judged again under, else the collector's."""
    own = connection.execute(select(runs.c.policy).where(runs.c.run == run)).scalar()
    return default if own is None else policy_from(own)


def policy_of(connection: Connection, dispatch: str, default: Policy) -> Policy:
    """The policy of a dispatch's run."""
    run = connection.execute(select(dispatches.c.run).where(dispatches.c.dispatch == dispatch)).scalar()
    return default if run is None else policy_of_run(connection, run, default)


JUDGED = ("succeeded", "failed", "omitted")
"""States of a dispatch that a verdict has given. One that was abandoned or forgotten is not judged again."""


def rejudge(connection: Connection, dispatch: str, default: Policy) -> None:
    """Give the verdict on a dispatch that has ended from all that is known of it."""
    names = ("begun", "ended", "response", "healed_by", "placed")
    columns = (*(dispatches.c[name] for name in names), runs.c.policy)
    joined = dispatches.outerjoin(runs, runs.c.run == dispatches.c.run)
    found = connection.execute(select(*columns).select_from(joined).where(dispatches.c.dispatch == dispatch)).first()
    if found is None or found.ended is None:
        return
    policy = default if found.policy is None else policy_from(found.policy)
    begun, ended = DispatchBegun(**found.begun), DispatchEnded(**found.ended)
    swallowed = policy.swallowed(ended, begun.agent, lambda: _others_made_calls(connection, begun))
    verdict = judge(ended, kept_tags(connection, dispatch), policy, swallowed)
    if found.healed_by is not None:
        verdict = Verdict("succeeded", pardoned=verdict.pardoned)
    elif found.placed == "nowhere" and verdict.state == "succeeded":
        verdict = Verdict("omitted")  # its answer was withheld and no row keeps it: it has to run again
    elif found.placed in ("results", "failures") and verdict.state == "omitted":
        verdict = judge(ended, _ordinary(kept_tags(connection, dispatch)), policy)  # there is a row, and it must count
    row = None
    if verdict.state == "failed":
        row = failure_row(begun, ended, verdict, policy.as_dict(), found.response)
    settle(connection, dispatch, verdict.state, _columns(begun, verdict, row))


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


def kept_tags(connection: Connection, dispatch: str) -> list[Kept]:
    """All tags of a dispatch with what came of their calls."""
    columns = (tags.c.tag, tags.c.call, tags.c.recovered_at, tags.c.outlived_at)
    found = connection.execute(select(*columns).where(tags.c.dispatch == dispatch)).all()
    # A call has recovered as a whole, also where a tag of it was delivered afterwards.
    recovered = {row.call: row.recovered_at for row in found if row.recovered_at is not None}
    return [Kept(Tag(**row.tag), recovered.get(row.call), row.outlived_at) for row in found]


def reapply(connection: Connection, run: str, policy: Policy) -> list[Changed]:
    """Judge all dispatches of a run again under a policy, which from now on is the run's own."""
    before = _states(connection, run)
    connection.execute(update(runs).where(runs.c.run == run).values(policy=policy.as_dict()))
    for dispatch in connection.execute(_judged(run)).scalars().all():
        rejudge(connection, dispatch, policy)
    after = _states(connection, run)
    return [
        {"benchmark": benchmark, "id": rollout, "from": state, "to": after[benchmark, rollout]}
        for (benchmark, rollout), state in before.items()
        if state != after[benchmark, rollout]
    ]


def _judged(run: str) -> Any:
    """The dispatches of a run whose verdict a policy can change."""
    tagged = exists().where(tags.c.dispatch == dispatches.c.dispatch)
    bent = or_(dispatches.c.state == "failed", dispatches.c.model_calls == 0, dispatches.c.empty_output, tagged)
    judged = dispatches.c.state.in_(JUDGED)
    return select(dispatches.c.dispatch).where(dispatches.c.run == run, judged, bent)


def _states(connection: Connection, run: str) -> dict[tuple[str, str], str]:
    asked = select(rollouts.c.benchmark, rollouts.c.rollout, rollouts.c.state).where(rollouts.c.run == run)
    return {(row.benchmark, row.rollout): row.state for row in connection.execute(asked)}


def _others_made_calls(connection: Connection, begun: DispatchBegun) -> bool:
    """Whether another dispatch of the benchmark made a model call."""
    same = (dispatches.c.run == begun.run, dispatches.c.benchmark == begun.benchmark)
    made = select(dispatches.c.dispatch).where(*same, dispatches.c.model_calls > 0).limit(1)
    return connection.execute(made).first() is not None


def settle(connection: Connection, dispatch: str, rollout_state: str, changes: Mapping[str, Any]) -> None:
    """Give a dispatch its end, and its rollout too where no later dispatch has replaced it."""
    changed = update(dispatches).where(dispatches.c.dispatch == dispatch).values(dict(changes))
    owner = connection.execute(
        changed.returning(dispatches.c.run, dispatches.c.benchmark, dispatches.c.rollout)
    ).first()
    if owner is not None:
        current = rollouts.c.dispatch == dispatch
        connection.execute(update(rollouts).where(_is(owner), current).values(state=rollout_state))


def _is(owner: Any) -> ColumnElement[bool]:
    same = (rollouts.c.run == owner.run, rollouts.c.benchmark == owner.benchmark, rollouts.c.rollout == owner.rollout)
    return and_(*same)
