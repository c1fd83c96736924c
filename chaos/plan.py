"""What a seed decides: the faults that rollouts meet, and the acts that the stage suffers."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

AGENTS = ("steady_agent", "faulty_agent")
"""Two benchmarks of one agent process: in the first no fault lasts for all attempts, so that it ends complete."""
POLICY, JUDGE, RESOURCES = "policy_model", "judge_model", "arithmetic"
ATTEMPTS = 3
"""As Gym's NEMO_GYM_MAX_ROLLOUT_ATTEMPTS (nemo_gym 0.5 to 0.7)."""

FAULTS: dict[str, int] = {
    "model_400": 2,
    "model_503": 2,
    "model_429_swallowed": 3,
    "model_failed": 2,
    "model_hangs": 1,
    "model_cut": 2,
    "stream_error": 2,
    "stream_unfinished": 2,
    "model_recovers": 4,
    "seed_500_swallowed": 2,
    "tool_404": 2,
    "tool_422": 1,
    "verify_500": 1,
    "verify_cut": 1,
    "judge_500_swallowed": 2,
    "judge_marker": 2,
    "run_no_reward": 1,
    "run_marker": 1,
    "run_no_persist": 1,
    "run_500": 1,
    "wrong_answer": 4,
}
"""What a rollout can meet, by how often. `model_recovers` and `wrong_answer` are no failures."""

FAULTY_SHARE = 0.35

PARTS = ("agent", POLICY, JUDGE, RESOURCES, "proxy", "collector", "dispatcher", "services", "cable")
"""What acts happen to: `services` are proxy and collector together, `cable` is what lies between them."""
_ACTS: dict[str, dict[str, int]] = {
    "services": {"kill": 2},
    "cable": {"cut": 3, "silence": 2},
}
_OF_A_PROCESS = {"kill": 5, "term": 2, "stop": 2}
_LIMITS = {"stop": (0.1, 1.0), "cut": (0.2, 2.0), "silence": (0.2, 2.0)}
_LIMIT = (0.0, 1.0)
"""Seconds until a part is put right."""


@dataclass(frozen=True)
class Act:
    """One thing that happens to a part once so many events have been seen; `seconds` until it is put right."""

    at: int
    what: str
    part: str
    seconds: float

    def __str__(self) -> str:
        return f"at {self.at}: {self.what} {self.part} for {self.seconds:g} s"


@dataclass(frozen=True)
class Plan:
    """A round."""

    seed: int
    rows: tuple[dict[str, Any], ...]
    acts: tuple[Act, ...]


def planned(seed: int, rollouts: int, acts: int, parts: Sequence[str] = PARTS) -> Plan:
    """The round of a seed: the same at every call."""
    dice = random.Random(f"{seed}/{rollouts}/{acts}")
    rows = tuple(_row(task, dice) for task in range(rollouts))
    # A rollout makes two events, so that all acts fall into the first pass, and some on what is left for resumes.
    moments = sorted(dice.randrange(1, 2 * rollouts) for _ in range(acts))
    return Plan(seed, rows, tuple(_act(at, parts, dice) for at in moments))


def _row(task: int, dice: random.Random) -> dict[str, Any]:
    agent = AGENTS[task // 2 % 2]
    met = dice.random() < FAULTY_SHARE
    fault = dice.choices(list(FAULTS), list(FAULTS.values()))[0] if met else ""
    lasts = dice.choice((1, 1, 1, 2)) if agent == AGENTS[0] else dice.choice((1, 1, 2, ATTEMPTS))
    first, second = dice.randrange(100), dice.randrange(100)
    return {
        "_ng_task_index": task // 2,
        "_ng_rollout_index": task % 2,
        "agent_ref": {"name": agent},
        "responses_create_params": {
            "input": [{"role": "user", "content": f"{first} + {second}"}],
            "metadata": {"fault": fault, "lasts": lasts},
        },
        "question": [first, second],
        "padding": "x" * dice.randrange(3000),
    }


def _act(at: int, parts: Sequence[str], dice: random.Random) -> Act:
    weights = {(what, part): weight for part in parts for what, weight in _ACTS.get(part, _OF_A_PROCESS).items()}
    what, part = dice.choices(list(weights), list(weights.values()))[0]
    return Act(at, what, part, round(dice.uniform(*_LIMITS.get(what, _LIMIT)), 2))
