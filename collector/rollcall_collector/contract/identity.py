"""Which rollout a `/run` body, or a row of the materialized inputs, speaks of.

Gym's own id is `{task}-{rollout}` (nemo_gym 0.4.0 to 0.7.0); an episode request of 0.7 carries it as
`episode_id.rollout_id` beside the attempt. Rows of multi-stage runs carry `stage_index` too.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .exchange import kept_part

IDENTITY_KEYS = ("_ng_task_index", "_ng_rollout_index", "_ng_attempt_index", "_ng_rollout_id", "agent_ref")
"""Keys of a row that say which rollout it is and that a failure row repeats."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
_HIGHEST = 2**63 - 1
"""A greater index no database can hold."""
_LONGEST = 500
"""Characters of a name: two of them make a benchmark's."""
_INDEXED = re.compile(r"(\d{1,12})-(\d{1,12})")


@dataclass(frozen=True, slots=True)
class Identity:
    """One rollout's attempt, as its `/run` body names it."""

    benchmark: str
    rollout: str
    agent: str | None
    environment_server: str | None
    task_index: int | None
    rollout_index: int | None
    stage_index: int | None
    attempt: int
    keys: dict[str, Any]
    is_episode: bool = False


def rollout_id(task_index: int, rollout_index: int, stage_index: int | None = None) -> str:
    """`3-0`, or `3-0-s1` for stage 1 of a multi-stage run."""
    stage = "" if stage_index is None else f"-s{stage_index}"
    return f"{task_index}-{rollout_index}{stage}"


def benchmark_name(agent: str | None, environment_server: str | None) -> str | None:
    """What Gym computes one set of metrics for: the agent, the environment server, or both where a row names both."""
    if agent and environment_server:
        return f"{environment_server}:{agent}"
    return agent or environment_server


def identify(body: Any, server: str) -> Identity | None:
    """Read the rollout that a `/run` body names; `server` is the one it was sent to. None where it names none."""
    if not isinstance(body, Mapping):
        return None
    if isinstance(body.get("episode_id"), Mapping):
        return _from_episode(body["episode_id"], server)
    return _from_row(body, server)


def _from_row(row: Mapping[str, Any], server: str) -> Identity | None:
    task, rollout = _index(row.get("_ng_task_index")), _index(row.get("_ng_rollout_index"))
    if task is None or rollout is None:
        return None
    agent, environment = agent_of(row), _name(row.get("_ng_environment_server"))
    stage = _index(row.get("stage_index"))
    return Identity(
        benchmark=benchmark_name(agent, environment) or server,
        rollout=rollout_id(task, rollout, stage),
        agent=agent,
        environment_server=environment,
        task_index=task,
        rollout_index=rollout,
        stage_index=stage,
        attempt=_index(row.get("_ng_attempt_index")) or 0,
        keys=kept_part({key: row[key] for key in IDENTITY_KEYS if key in row}),
    )


def _from_episode(episode: Mapping[str, Any], server: str) -> Identity | None:
    name = episode.get("rollout_id")
    if not isinstance(name, str) or not _ID.fullmatch(name):
        return None
    indexed = _INDEXED.fullmatch(name)
    task, rollout = (int(indexed[1]), int(indexed[2])) if indexed else (None, None)
    return Identity(
        benchmark=server,
        rollout=name,
        agent=None,
        environment_server=server,
        task_index=task,
        rollout_index=rollout,
        stage_index=None,
        attempt=_index(episode.get("attempt")) or 0,
        keys={} if task is None else {"_ng_task_index": task, "_ng_rollout_index": rollout},
        is_episode=True,
    )


def agent_of(row: Mapping[str, Any]) -> str | None:
    """`agent_ref.name` of a row, or None."""
    reference = row.get("agent_ref")
    return _name(reference.get("name")) if isinstance(reference, Mapping) else None


def _name(value: Any) -> str | None:
    """A name that the store can look for; longer ones, or with a NUL, are nobody's."""
    return value if isinstance(value, str) and 0 < len(value) <= _LONGEST and "\0" not in value else None


def _index(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= _HIGHEST else None
