"""The failed rollouts of a run, grouped. They are counted by indexes that hold all that this needs, so that 100,000
failures are no more than that many entries of an index; only each group's example is read."""

from typing import Any, Literal, get_args

from sqlalchemy import Connection, func, select

from ..contract.causes import cause_in
from .schema import dispatches, rollouts

By = Literal["cause", "server", "task"]

WAYS: tuple[By, ...] = get_args(By)

_KEYS = {
    "cause": (rollouts.c.cause_server, rollouts.c.cause),
    "server": (rollouts.c.cause_server,),
    "task": (rollouts.c.benchmark, rollouts.c.task_index),
}
_FAILED = {  # the same in other words: an index is used only by a question with the index's own condition
    "cause": rollouts.c.cause.is_not(None),
    "server": rollouts.c.cause.is_not(None),
    "task": rollouts.c.state == "failed",
}
_IN_ORDER = (rollouts.c.benchmark, rollouts.c.task_index, rollouts.c.rollout_index, rollouts.c.rollout)

_EXAMPLE = ("benchmark", "rollout", "task_index", "cause", "dispatch")


def groups(connection: Connection, run: str, by: By, limit: int) -> dict[str, Any]:
    """`failed` rollouts in so many groups; the `limit` largest of these with an example each."""
    keys, number = _KEYS[by], func.count()
    all_of_them, in_all = func.count().over().label("groups"), func.sum(number).over().label("failed")
    asked = select(*keys, number.label("number"), all_of_them, in_all).where(rollouts.c.run == run, _FAILED[by])
    found = connection.execute(asked.group_by(*keys).order_by(number.desc(), *keys).limit(limit)).all()
    return {
        "failed": int(found[0].failed) if found else 0,
        "groups": [_group(connection, run, by, row) for row in found],
        "more": found[0].groups - len(found) if found else 0,
    }


def _group(connection: Connection, run: str, by: By, row: Any) -> dict[str, Any]:
    same = [key == getattr(row, key.name) for key in _KEYS[by]]
    order = _IN_ORDER if by != "server" else (rollouts.c.cause, *_IN_ORDER)
    first = select(*(rollouts.c[name] for name in _EXAMPLE)).where(rollouts.c.run == run, _FAILED[by], *same)
    example = connection.execute(first.order_by(*order).limit(1)).one()
    asked = select(dispatches.c.root_cause).where(dispatches.c.dispatch == example.dispatch)
    cause = cause_in(connection.execute(asked).scalar())
    group = {
        "count": row.number,
        "cause": example.cause if by == "cause" else None,
        "benchmark": example.benchmark if by == "task" else None,
        "task_index": example.task_index if by == "task" else None,
        "example": {"benchmark": example.benchmark, "id": example.rollout},
    }
    return group | {name: getattr(cause, name) for name in ("server", "role", "what", "status", "line")}
