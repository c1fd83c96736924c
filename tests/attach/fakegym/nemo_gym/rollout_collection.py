"""Collects as Gym does, with the outcomes that FAKE_GYM (JSON) asks for."""
# ruff: noqa: ASYNC240 - as Gym does

import asyncio
import json
import os
from pathlib import Path

from nemo_gym.server_utils import ServerClient


class Config:
    def __init__(self, output, resume=False, disable_aggregation=False):
        self.output_jsonl_fpath = output
        self.resume_from_cache = resume
        self.disable_aggregation = disable_aggregation

    @property
    def materialized_jsonl_fpath(self):
        output = Path(self.output_jsonl_fpath)
        return output.with_stem(output.stem + "_materialized_inputs")


def wanted():
    return {"rows": [], "entries": [], **json.loads(os.environ.get("FAKE_GYM", "{}"))}


class RolloutCollectionHelper:
    async def run_from_config(self, config):
        output = Path(config.output_jsonl_fpath)
        if not (config.resume_from_cache and config.materialized_jsonl_fpath.exists() and output.exists()):
            config.materialized_jsonl_fpath.write_text("".join(json.dumps(row) + "\n" for row in wanted()["rows"]))
        output.touch()
        for _ in self.dispatch(wanted()["rows"]):
            os.environ.update(wanted().get("environ", {}))
            await asyncio.sleep(wanted().get("takes", 0))
        fails = wanted().get("raises")
        if fails:
            raise {"RuntimeError": RuntimeError, "KeyboardInterrupt": KeyboardInterrupt}[fails]("as asked for")
        if not config.disable_aggregation:
            await self._call_aggregate_metrics([], [], output)
        return []

    async def _call_aggregate_metrics(self, results, rows, output_fpath):
        target = output_fpath.with_stem(output_fpath.stem + "_aggregate_metrics").with_suffix(".json")
        if wanted()["entries"]:
            target.write_text(json.dumps(wanted()["entries"]))

    def dispatch(self, rows):
        return self.run_examples(rows)

    def run_examples(self, rows, head_server_config=None):
        ServerClient.load_from_global_config()
        print("dispatching", flush=True)
        return iter(rows)


if wanted().get("with_metadata"):  # 0.6 and later

    def _run_examples_with_metadata(self, rows, head_server_config=None):
        return RolloutCollectionHelper.run_examples(self, rows)

    RolloutCollectionHelper._run_examples_with_metadata = _run_examples_with_metadata
    RolloutCollectionHelper.dispatch = lambda self, rows: self._run_examples_with_metadata(rows)
