"""The files beside a run's output, named as Gym names its own (nemo_gym 0.4.0 to 0.7.0)."""

from pathlib import Path


def failures_path(output: Path) -> Path:
    """`out/rollouts.jsonl` -> `out/rollouts_failures.jsonl`."""
    return output.with_name(output.stem + "_failures.jsonl")


def materialized_path(output: Path) -> Path:
    """`out/rollouts.jsonl` -> `out/rollouts_materialized_inputs.jsonl`."""
    return output.with_stem(output.stem + "_materialized_inputs").with_suffix(".jsonl")


def metrics_path(output: Path) -> Path:
    """`out/rollouts.jsonl` -> `out/rollouts_aggregate_metrics.json`."""
    return output.with_stem(output.stem + "_aggregate_metrics").with_suffix(".json")


def run_path(output: Path) -> Path:
    """`out/rollouts.jsonl` -> `out/rollouts_rollcall.json`, which holds the run's id."""
    return output.with_name(output.stem + "_rollcall.json")


def lock_path(output: Path) -> Path:
    """`out/rollouts.jsonl` -> `out/rollouts_rollcall.lock`."""
    return output.with_name(output.stem + "_rollcall.lock")
