"""What the demo evaluates and which rollouts meet a fault: one of each kind, fixed by task index.

A fault is named in the dataset row's `responses_create_params.metadata`, which every hop of an evaluation sees
anyway; servers started as sound ignore it, so a resume heals every rollout.
"""

from dataclasses import dataclass
from typing import Any

SOUND_AGENT = "sums_simple_agent"
FAULTY_AGENT = "distances_simple_agent"
POLICY_MODEL = "policy_model"
SPARE_MODEL = "spare_model"
JUDGE_MODEL = "judge_model"
RESOURCES = {SOUND_AGENT: "sums", FAULTY_AGENT: "distances"}

SOUND_TASKS = range(0, 8)
FAULTY_TASKS = range(8, 24)


@dataclass(frozen=True)
class Fault:
    """A planned failure and what Rollcall has to say of it; `state` is the rollout's verdict.

    Without a root cause the row is the agent's own, which stays as the agent wrote it.
    """

    name: str
    server: str | None
    what: str | None
    failure_class: str = "agent_run_error"
    swallowed: bool = False
    state: str = "failed"


FAULTS = {
    9: Fault("model_400", POLICY_MODEL, "http_status"),
    10: Fault("model_429", POLICY_MODEL, "http_status", swallowed=True),
    12: Fault("seed_500", "distances", "http_status", swallowed=True),
    13: Fault("model_unreachable", SPARE_MODEL, "unreachable"),
    14: Fault("model_silent", POLICY_MODEL, "timeout"),
    15: Fault("tool_404", "distances", "http_status", swallowed=True),
    16: Fault("verify_cut", "distances", "peer_drop"),
    17: Fault("run_no_object", FAULTY_AGENT, "invalid_result"),
    18: Fault("run_no_reward", FAULTY_AGENT, "invalid_result"),
    19: Fault("model_failed", POLICY_MODEL, "body_failure", swallowed=True),
    20: Fault("agent_marker", None, None, failure_class="agent_timeout"),
    21: Fault("no_persist", None, None, state="omitted"),
    22: Fault("judge_500", JUDGE_MODEL, "http_status", failure_class="judge_failed", swallowed=True),
}

# No faults: a retry that recovers, and an honest wrong answer, which stays a 0 among the results.
HARMLESS = {2: "model_recovers", 5: "model_errs"}


def planned_rows() -> list[dict[str, Any]]:
    """Every rollout of the evaluation as a row of the materialized inputs."""
    return [_row(SOUND_AGENT, task) for task in SOUND_TASKS] + [_row(FAULTY_AGENT, task) for task in FAULTY_TASKS]


def rollout_id(row: dict[str, Any]) -> str:
    return f"{row['_ng_task_index']}-{row['_ng_rollout_index']}"


def _row(agent: str, task: int) -> dict[str, Any]:
    fault = FAULTS[task].name if task in FAULTS else HARMLESS.get(task)
    first, second = 10 + task, 3 * task
    return {
        "_ng_task_index": task,
        "_ng_rollout_index": 0,
        "agent_ref": {"name": agent},
        "responses_create_params": {
            "input": [{"role": "user", "content": f"What do {first} and {second} come to?"}],
            "metadata": {"fault": fault} if fault else {},
        },
        "question": [first, second],
    }
