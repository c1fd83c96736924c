"""Which rollouts the numbers are over: tools by policy, the same numbers on every way, failures released or counted."""

from __future__ import annotations

from typing import Any

import pytest
from gymlab import cases, contract, numbers
from gymlab.cases import AGENT, Case
from gymlab.contract import Bench
from gymlab.lab import Lab
from gymlab.numbers import MEAN, MEAN_WITHOUT_TOOLS, REPEATS
from gymlab.runs import Outcome, keys

pytestmark = pytest.mark.parametrize("version", contract.VERSIONS, indirect=True, scope="session")
WORDS = ("model_visible_4xx", "model_visible", "failure", "model_visible")


@pytest.fixture(scope="module")
def lab(bench: Bench) -> Lab:
    return bench.lab


@pytest.fixture(scope="module")
def pardoned(bench: Bench) -> Outcome:
    """What Gym writes where failed tools are the model's own affair: the agents' answers as they came."""
    return under(bench, "pardoned", "--tool-errors", "model_visible")


@pytest.fixture(scope="module")
def tools(lab: Lab, pardoned: Outcome) -> Outcome:
    """The same faults, counted."""
    lab.model.plan(scripted=["tool"])
    return lab.collect("tools", numbers.rows(), repeats=REPEATS)


def under(bench: Bench, name: str, *policy: str) -> Outcome:
    """A run whose tools fail, under a policy of the collector."""
    bench.collector(*policy)
    bench.lab.model.plan(scripted=["tool"])
    try:
        return bench.lab.collect(name, numbers.rows(), repeats=REPEATS)
    finally:
        bench.collector()


@pytest.fixture(scope="module")
def judged_again(tools: Outcome, bench: Bench) -> dict[str, Any]:
    """What the run's files hold after each change of the policy and at the end; and the calls made for it."""
    before, found = len(bench.lab.model.calls()), {}
    for step, word in enumerate(WORDS):
        done = bench.rollcall("divert", "tools", "--reapply", "--tool-errors", word)
        path = bench.lab.output("tools") / "rollouts.jsonl"
        found[f"{step} {word}"] = (done, numbers.comparable(path), bench.lab.gate(tools))
    return found | {"calls": len(bench.lab.model.calls()) - before}


def test_tools_that_fail_are_failures_by_default(tools: Outcome) -> None:
    assert keys(tools.failures) == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert (tools.exit, tools.withheld(AGENT)) == (3, True)


def test_tools_that_the_policy_pardons_are_no_failures(pardoned: Outcome) -> None:
    assert (pardoned.exit, len(pardoned.rows), pardoned.failures) == (0, 8, [])
    assert pardoned.benchmark(AGENT)["key_metrics"]["mean/reward"] == MEAN


def test_a_policy_puts_back_just_the_rows_that_it_pardons(judged_again: dict[str, Any], pardoned: Outcome) -> None:
    """Each as Gym had written it, without a new call of the model."""
    written = numbers.lines("rollouts.jsonl", pardoned.files["rollouts.jsonl"])
    counts = {}
    for word in (word for word in judged_again if word != "calls"):
        done, lines, gate = judged_again[word]
        assert done.returncode == 0, done.stdout + done.stderr
        assert set(lines) <= set(written)
        counts[word] = (len(lines), gate)
    assert list(counts.values()) == [(6, 3), (8, 0), (4, 3), (8, 0)]
    assert judged_again["1 model_visible"][1] == written
    assert judged_again["calls"] == 0


def test_the_gate_says_the_same_of_the_files_alone(judged_again: dict[str, Any], bench: Bench) -> None:
    assert bench.rollcall("gate", "tools").returncode == 0


@pytest.fixture(scope="module")
def ends(version: str) -> None:
    """For what no version between the oldest and the newest does in a way of its own."""
    if version in ("0.5.1", "0.6.0"):
        pytest.skip("tested on the oldest and the newest version")


@pytest.fixture(scope="module")
def whole(ends: None, lab: Lab) -> dict[str, Any]:
    """The key metrics of an uninterrupted run."""
    lab.model.plan()
    lab.collect("whole", numbers.rows(), repeats=REPEATS)
    return metrics_of(lab, "whole")


@pytest.fixture(scope="module")
def resumed(ends: None, lab: Lab) -> dict[str, Any]:
    """Those of a run a part of which failed at first."""
    lab.model.plan(scripted=["model"])
    assert len(lab.collect("resumed", numbers.rows(), repeats=REPEATS).failures) == REPEATS
    lab.model.plan()
    assert lab.collect("resumed", numbers.rows(), "--resume", repeats=REPEATS).exit == 0
    return metrics_of(lab, "resumed")


def metrics_of(lab: Lab, name: str, stem: str = "rollouts") -> dict[str, Any]:
    return numbers.key_metrics(lab.output(name) / f"{stem}_aggregate_metrics.json")


def test_a_resumed_run_has_the_numbers_of_an_uninterrupted_one(whole: dict[str, Any], resumed: dict[str, Any]) -> None:
    assert whole["mean/reward"] == MEAN
    assert resumed == whole


@pytest.mark.parametrize("name", ["resumed", "tools"])
@pytest.mark.usefixtures("ends", "resumed", "judged_again")
def test_an_aggregate_over_a_run_that_is_complete_has_its_numbers(
    whole: dict[str, Any], bench: Bench, name: str
) -> None:
    """Resumed, or with rows that were put back."""
    assert bench.aggregate(name).exit == 0
    assert metrics_of(bench.lab, name, "again") == whole


@pytest.mark.usefixtures("ends", "judged_again")
def test_gyms_profile_reads_rows_that_were_put_back(lab: Lab) -> None:
    inputs = str(lab.output("tools") / "rollouts_materialized_inputs.jsonl")
    profile = lab.evaluate("tools", "profile", "--inputs", inputs, "--rollouts", lab.rows_file("tools"))
    assert profile.exit == 0, profile.text[-2_000:]


@pytest.fixture(scope="module")
def tolerated(ends: None, bench: Bench) -> Outcome:
    """Half of the rollouts fail, and half may."""
    return under(bench, "tolerated", "--max-failure-rate", "0.5")


def test_failures_up_to_the_rate_release_the_numbers_of_the_others_with_their_coverage(tolerated: Outcome) -> None:
    assert (tolerated.exit, len(tolerated.failures)) == (3, 4)
    metrics = tolerated.benchmark(AGENT)["key_metrics"]
    assert (metrics["mean/reward"], metrics["rollcall/coverage"]) == (MEAN_WITHOUT_TOOLS, 0.5)
    assert (metrics["rollcall/expected"], metrics["rollcall/failed"]) == (8, 4)
    assert not [name for name in metrics if "_ng_" in name]


@pytest.fixture(scope="module")
def zeros(lab: Lab, version: str) -> Outcome:
    if version in ("0.4.0", "0.5.1"):
        pytest.skip(f"nemo_gym {version} counts no failure as zero")
    lab.model.plan(scripted=["tool"])
    count = "++count_failure_classes_as_zero=[agent_run_error]"
    return lab.collect("zeros", numbers.rows(), count, repeats=REPEATS)


def test_failures_that_gym_counts_as_zero_are_covered(zeros: Outcome) -> None:
    assert (zeros.exit, zeros.withheld(AGENT)) == (3, False)
    metrics = zeros.benchmark(AGENT)["key_metrics"]
    assert (metrics["mean/reward"], metrics["rollcall/counted_as_zero"]) == (MEAN_WITHOUT_TOOLS / 2, 4)


def test_rollouts_without_a_row_that_gym_counts_as_zero_are_covered(lab: Lab, version: str) -> None:
    if version != "0.7.0":
        pytest.skip(f"nemo_gym {version} counts no missing rollout as zero")
    lab.model.plan()
    rowless = cases.rows({"whole": Case(), "rowless": Case("no_persist")})
    missing = lab.collect("rowless", rowless, "++count_missing_rollouts_as_zero=true", repeats=1)
    assert (missing.exit, len(missing.rows), missing.failures) == (3, 1, [])
    assert missing.benchmark(AGENT)["key_metrics"]["mean/reward"] == 0.5
