"""The files beside an output have the names that Gym gives its own."""

from pathlib import Path

import pytest
from rollcall_collector.results import names


@pytest.mark.parametrize("output", ["out/rollouts.jsonl", "out/rollouts"])
def test_the_files_of_a_run_lie_beside_its_output(output: str) -> None:
    """Each is the stem with an ending of its own."""
    path = Path(output)
    assert names.failures_path(path) == Path("out/rollouts_failures.jsonl")
    assert names.materialized_path(path) == Path("out/rollouts_materialized_inputs.jsonl")
    assert names.metrics_path(path) == Path("out/rollouts_aggregate_metrics.json")
    assert names.run_path(path) == Path("out/rollouts_rollcall.json")
    assert names.lock_path(path) == Path("out/rollouts_rollcall.lock")


def test_only_the_last_suffix_of_a_name_is_no_part_of_its_stem() -> None:
    """`a.b.jsonl` is the run `a.b`."""
    assert names.failures_path(Path("a.b.jsonl")) == Path("a.b_failures.jsonl")
    assert names.materialized_path(Path("a.b.jsonl")) == Path("a.b_materialized_inputs.jsonl")
    assert names.metrics_path(Path("a.b.jsonl")) == Path("a.b_aggregate_metrics.json")
