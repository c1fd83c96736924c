"""Collects as Gym does, with the outcomes that FAKE_GYM (JSON) asks for.

`rows` are sent; `results` is what the servers answer, which goes to the files as Gym writes it.
"""
# ruff: noqa: ASYNC240 - as Gym does

import asyncio
import glob
import json
import os
from pathlib import Path

from nemo_gym.server_utils import ServerClient


class Config:
    def __init__(self, output, resume=False, disable_aggregation=False, counted=None):
        self.output_jsonl_fpath = output
        self.resume_from_cache = resume
        self.disable_aggregation = disable_aggregation
        if counted is not None:  # 0.6, 0.7
            self.count_failure_classes_as_zero = counted
            self.count_missing_rollouts_as_zero = False

    @property
    def materialized_jsonl_fpath(self):
        output = Path(self.output_jsonl_fpath)
        return output.with_stem(output.stem + "_materialized_inputs")


def wanted():
    return {"rows": [], "results": [], "entries": [], **json.loads(os.environ.get("FAKE_GYM", "{}"))}


def failures_path_for(output):
    return output.with_name(output.stem + "_failures.jsonl")


def read(path):
    """As Gym up to 0.6 does: a torn line is its end."""
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


class RolloutCollectionHelper:
    async def run_from_config(self, config):
        output = Path(config.output_jsonl_fpath)
        persisted = []
        if config.resume_from_cache and config.materialized_jsonl_fpath.exists() and output.exists():
            persisted = read(output)
            print("resuming with", len(persisted), len(read(failures_path_for(output))), flush=True)
        else:
            output.parent.mkdir(exist_ok=True)
            config.materialized_jsonl_fpath.write_text("".join(json.dumps(row) + "\n" for row in wanted()["rows"]))
            output.unlink(missing_ok=True)
        output.touch()
        for _ in self.dispatch(wanted()["rows"]):
            os.environ.update(wanted().get("environ", {}))
            await asyncio.sleep(wanted().get("takes", 0))
        persisted += self.write(output)
        fails = wanted().get("raises")
        if fails:
            raise {"RuntimeError": RuntimeError, "KeyboardInterrupt": KeyboardInterrupt}[fails]("as asked for")
        if not config.disable_aggregation:
            await self._call_aggregate_metrics(persisted, [dict(result) for result in persisted], output)
        return []

    def write(self, output):
        persisted = [result for result in wanted()["results"] if "_ng_failure_class" not in result]
        with output.open("a") as results_file, failures_path_for(output).open("a") as failures_file:
            for result in wanted()["results"]:
                (results_file if result in persisted else failures_file).write(json.dumps(result) + "\n")
        return persisted

    async def _call_aggregate_metrics(self, results, rows, output_fpath):
        for result, row in zip(results, rows, strict=True):
            print("aggregating", result["_ng_task_index"], row["_ng_task_index"], result.get("reward"), flush=True)
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


class AggregationConfig:
    def __init__(self, output, input_glob):
        self.output_jsonl_fpath = output
        self.input_glob = input_glob


def _expand_input_glob(input_glob):
    return sorted(glob.glob(input_glob))


class RolloutAggregationHelper:
    async def run_from_config(self, config):
        paths = _expand_input_glob(config.input_glob)
        results = [result for path in paths for result in read(Path(path))]
        ServerClient.load_from_global_config()
        output = Path(config.output_jsonl_fpath)
        await RolloutCollectionHelper()._call_aggregate_metrics(results, results, output)
        return output
