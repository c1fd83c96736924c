"""Verifies rows again as Gym 0.5 does: by a dispatcher, and without a `/run`.

FAKE_GYM's `verified` names the tasks for which `/verify` has a result.
"""
# ruff: noqa: ASYNC230, ASYNC240 - as Gym does

import json
from pathlib import Path

from nemo_gym.rollout_collection import failures_path_for, read, wanted
from nemo_gym.server_utils import ServerClient


class Config:
    def __init__(self, output, rollouts=None, judge_failed_only=False):
        self.output_jsonl_fpath = output
        self.materialized_inputs_jsonl_fpath = output
        self.rollouts_jsonl_fpath = rollouts
        self.judge_failed_only = judge_failed_only


def _run_verification_payloads(payloads, semaphore=None):
    ServerClient.load_from_global_config()
    return iter([(row, {**row, "reward": 1.0}) for row in payloads])


async def _call_aggregate_metrics(results, rows, output_fpath):
    ServerClient.load_from_global_config()


class RolloutReverificationHelper:
    async def run_from_config(self, config):
        output = Path(config.output_jsonl_fpath)
        rollouts = Path(config.rollouts_jsonl_fpath or output)
        there = read(output) if output == rollouts else read(rollouts)
        if output != rollouts:
            output.write_text("".join(json.dumps(row) + "\n" for row in there))
        done = [row["_ng_task_index"] for row in there]
        failed = [row for row in read(failures_path_for(rollouts)) if row["_ng_failure_class"] == "judge_failed"]
        for row, result in _run_verification_payloads([row for row in failed if row["_ng_task_index"] not in done]):
            if row["_ng_task_index"] in wanted().get("verified", []):
                with output.open("a") as file:
                    file.write(json.dumps({**result, "_ng_failure_class": None}) + "\n")
        await _call_aggregate_metrics(read(output), read(output), output)
        return []
