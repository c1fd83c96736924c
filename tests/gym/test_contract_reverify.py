"""`gym eval reverify --judge-failed-only` heals judge failures (Gym 0.5 on)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from gymlab import cases, numbers
from gymlab.cases import AGENT, JUDGED, Case
from gymlab.contract import Bench
from gymlab.lab import Lab
from gymlab.runs import Outcome, keys, read_rows

pytestmark = pytest.mark.parametrize("version", ["0.5.1", "0.6.0", "0.7.0"], indirect=True, scope="session")
CASES = {
    "fine": Case(),
    "marked": Case("", "[judge=500]", JUDGED),
    "dropped": Case("closed", "[judge=500]", JUDGED),
}
ALL = [(0, 0), (1, 0), (2, 0)]


@pytest.fixture(scope="module")
def lab(bench: Bench) -> Lab:
    return bench.lab


@dataclass
class Healed:
    name: str
    failed: Outcome
    again: Outcome
    output: Path
    calls: dict[str, int]


@pytest.fixture(scope="module", params=["aside", "append"])
def healed(request: pytest.FixtureRequest, bench: Bench) -> Healed:
    """A run whose judge failed, and its judging again: into a file aside, or into the run's own."""
    name = f"judged-{request.param}"
    bench.lab.model.plan(scripted=["judge"])
    failed = bench.lab.collect(name, cases.rows(CASES), repeats=1)
    folder = bench.lab.output(name)
    output = folder / ("rollouts.jsonl" if request.param == "append" else "again.jsonl")
    where = ("--inputs", str(folder / "rollouts_materialized_inputs.jsonl"), "--rollouts", bench.lab.rows_file(name))
    append = ("--append",) if request.param == "append" else ()
    bench.lab.model.plan()
    options = (*where, "--output", str(output), "--judge-failed-only", *append)
    again = bench.lab.reverify(name, "contract_judging.yaml", *options)
    return Healed(name, failed, again, output, dict(bench.lab.model.turns()))


def test_the_run_had_failed_for_its_judge(healed: Healed) -> None:
    assert (healed.failed.exit, keys(healed.failed.failures)) == (3, [(1, 0), (2, 0)])
    assert {row["_ng_failure_class"] for row in healed.failed.failures} == {"judge_failed"}


def test_judging_again_needs_no_new_generation(healed: Healed) -> None:
    assert healed.again.exit == 0, healed.again.text[-3_000:]
    assert healed.calls == {"judge": 2}
    assert keys(read_rows(healed.output)) == ALL


def test_the_rollouts_have_succeeded_then_and_the_gate_is_open(healed: Healed, bench: Bench) -> None:
    assert bench.lab.counts(healed.failed) == {"expected": 3, "succeeded": 3}
    assert bench.lab.gate(healed.failed) == 0


def test_the_metrics_of_the_healed_run_pass(healed: Healed) -> None:
    metrics = numbers.key_metrics(healed.output.with_name(f"{healed.output.stem}_aggregate_metrics.json"))
    assert metrics["mean/reward"] == 1.0
    assert not metrics.get("rollcall/metrics_withheld")


def test_diverting_keeps_what_was_healed(healed: Healed, bench: Bench) -> None:
    before = read_rows(healed.output)
    assert bench.rollcall("divert", healed.name).returncode == 0
    assert read_rows(healed.output) == before
    assert len([row for row in before if row["agent_ref"]["name"] == AGENT]) == 3


def test_the_gate_over_the_runs_files_is_open_wherever_the_rows_were_written(healed: Healed, bench: Bench) -> None:
    assert bench.rollcall("gate", healed.name).returncode == 0
