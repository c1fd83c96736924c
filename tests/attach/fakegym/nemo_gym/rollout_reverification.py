"""Verifies rows again as Gym 0.5 does: by a dispatcher, and without a `/run`."""

from nemo_gym.server_utils import ServerClient


class Config:
    def __init__(self, output):
        self.output_jsonl_fpath = output
        self.materialized_inputs_jsonl_fpath = output


class RolloutReverificationHelper:
    async def run_from_config(self, config):
        ServerClient.load_from_global_config()
        return []
