"""Resumes on the real NeMo Gym: what is sent again, what is not, and what stops one before it begins."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from gymlab import cases
from gymlab.cases import Case, Seen
from gymlab.contract import Bench
from gymlab.lab import Lab
from gymlab.runs import Outcome

pytestmark = pytest.mark.parametrize("version", ["0.4.0", "0.5.1", "0.7.0"], indirect=True, scope="session")
CASES = {
    "good": Case(),
    "swallowed": Case("swallow", "[model=400]"),
    "refused": Case("", "[model=401]"),
    "terminal": Case("terminal"),
}
TORN = b'{"_ng_task_index": 0, "torn'


@dataclass
class Story:
    """One run from its first attempt to the end, and how many conversations each resume began."""

    first: Outcome
    second: Seen
    capped: tuple[Outcome, int]
    forgotten: str
    last: tuple[Outcome, int]
    refused: Outcome
    fresh: Outcome
    folder: Path


@pytest.fixture(scope="module")
def lab(bench: Bench) -> Lab:
    return bench.lab


@pytest.fixture(scope="module")
def story(bench: Bench) -> Story:
    """Every rollout may have two attempts."""
    folder = bench.lab.output("story")
    first = go(bench, ["model"])
    with (folder / "rollouts.jsonl").open("ab") as rows:
        rows.write(TORN)
    second = cases.seen(CASES, go(bench, ["model"], "--resume"))
    capped = go(bench, [], "--resume"), bench.calls("opening")
    forgotten = bench.rollcall("forget", "story", "--class", "agent_run_error")
    assert forgotten.returncode == 0, forgotten.stderr
    last = go(bench, [], "--resume"), bench.calls("opening")
    refused = changed(bench, folder / "rollouts_materialized_inputs.jsonl")
    fresh = go(bench, [])
    return Story(first, second, capped, forgotten.stdout, last, refused, fresh, folder)


def go(bench: Bench, scripted: list[str], *options: str) -> Outcome:
    bench.lab.model.plan(scripted=scripted)
    return bench.lab.collect("story", cases.rows(CASES), *options, repeats=1)


def changed(bench: Bench, inputs: Path) -> Outcome:
    """A resume whose materialized inputs are no longer those of the run."""
    kept = inputs.read_bytes()
    inputs.write_bytes(kept.replace(b"on day 1?", b"on day 9?"))
    try:
        return go(bench, [], "--resume")
    finally:
        inputs.write_bytes(kept)


def test_a_resume_sends_what_failed_and_can_be_retried(story: Story) -> None:
    assert len(story.first.failures) == 3
    assert set(story.second.results) == {"good"}
    names = [list(CASES)[row["_ng_task_index"]] for row in story.second.outcome.failures]
    assert sorted(names) == ["refused", "refused", "swallowed", "swallowed", "terminal"]


def test_attempts_are_numbered_where_gym_numbers_them(story: Story, version: str) -> None:
    numbers = sorted(row.get("_ng_attempt_index", 0) for row in story.second.outcome.failures)
    assert numbers == ([0] * 5 if version == "0.4.0" else [0, 0, 0, 1, 1])


def test_a_line_torn_by_a_crash_is_repaired_before_gym_reads_it(story: Story) -> None:
    assert story.second.outcome.exit == 3
    assert "torn" not in story.second.outcome.files["rollouts.jsonl"]
    assert [name for name, text in story.second.outcome.files.items() if TORN.decode() in text and "torn" in name]


def test_rollouts_that_have_used_up_their_attempts_are_not_sent(story: Story) -> None:
    resumed, sent = story.capped
    assert (sent, resumed.exit, len(resumed.rows)) == (0, 3, 1)


def test_forgotten_failures_are_sent_again_and_heal(story: Story) -> None:
    assert "4" in story.forgotten
    resumed, sent = story.last
    assert (sent, resumed.exit, resumed.run) == (2, 3, story.first.run)
    assert [row["_ng_failure_class"] for row in resumed.failures] == ["trial_hopeless"]
    assert len(resumed.rows) == 3


def test_a_resume_with_other_inputs_is_refused_with_both_digests(story: Story) -> None:
    assert story.refused.exit == 4
    assert len(set(re.findall(r"[0-9a-f]{64}", story.refused.text))) == 2
    assert story.refused.files["rollouts.jsonl"] == story.last[0].files["rollouts.jsonl"]


def test_a_fresh_start_counts_no_failure_of_the_run_before(story: Story) -> None:
    """Gym up to 0.5 leaves the failures file of the older run where it is."""
    assert (story.fresh.run != story.first.run, story.fresh.exit) == (True, 3)
    assert [row["_ng_failure_class"] for row in story.fresh.failures] == ["trial_hopeless"]
    assert len(story.fresh.rows) == 3
