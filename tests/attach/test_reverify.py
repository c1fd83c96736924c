"""`gym eval reverify`: a session of its own, and what it tells the run whose rows it verifies again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attachlab import Done, FakeProxy, run_gym
from test_dispatcher import options
from test_run_files import failure, result, rows_in, write

PROGRAM = (
    "import asyncio, json, os, nemo_gym.rollout_reverification as r\n"
    "config = r.Config(**json.loads(os.environ['FAKE_CONFIG']))\n"
    "asyncio.run(r.RolloutReverificationHelper().run_from_config(config))\n"
)


def judge_failure(task: int) -> dict[str, Any]:
    return {**failure(task), "_ng_failure_class": "judge_failed", "response": {}}


@pytest.fixture
def rollouts(tmp_path: Path) -> Path:
    """A run's files: one result, and four failures, of which three are a judge's and one of those has a result."""
    path = tmp_path / "rollouts.jsonl"
    write(path, result(0))
    write(path.with_name("rollouts_failures.jsonl"), judge_failure(0), judge_failure(1), judge_failure(2), failure(3))
    path.with_name("rollouts_rollcall.json").write_text(json.dumps({"version": 1, "run": "r-7"}))
    return path


def reverify(proxy: FakeProxy, output: Path, **config: Any) -> Done:
    config = {"judge_failed_only": True, **config}
    done = run_gym(PROGRAM, **options(proxy.url, output, {"verified": [0, 1]}, config))
    assert done.status == 0, done.err
    return done


def test_a_reverification_is_a_session_and_run_of_its_own(proxy: FakeProxy, tmp_path: Path) -> None:
    """It is opened and ended; nothing is expected of it beforehand, and it leaves no file beside the output."""
    reverify(proxy, tmp_path / "again.jsonl", judge_failed_only=False)
    session = proxy.seen[0][0].rpartition("/")[2]
    assert (proxy.seen[0][1]["mode"], proxy.asked("expected")) == ("reverify", [])
    assert "reverifies" not in proxy.seen[0][1]
    assert proxy.seen[-1] == (f"POST /v1/sessions/{session}/heartbeat", {"state": "ended"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("append", [False, True])
def test_a_run_is_told_of_the_judge_failures_that_have_a_result_now(
    proxy: FakeProxy, rollouts: Path, append: bool
) -> None:
    """Not of one that the judge failed again, nor of one that was there before."""
    output = rollouts if append else rollouts.with_name("again.jsonl")
    reverify(proxy, output, rollouts=str(rollouts))
    told = proxy.seen[0]
    assert (told[1]["reverifies"], told[1]["run"] != "r-7") == ("r-7", True)
    assert proxy.asked("POST /v1/runs/r-7/healed") == [
        {
            "session": told[0].rpartition("/")[2],
            "rollouts": [{"task_index": 1, "rollout_index": 0, "stage_index": None, "agent": "agent"}],
            "output": str(output),
        }
    ]
    assert len(rows_in(output)) == 2


def test_a_run_is_told_before_its_metrics_are_asked_for(proxy: FakeProxy, rollouts: Path) -> None:
    """Its gate decides over them too; its newest answer stands beside its files."""
    reverify(proxy, rollouts, rollouts=str(rollouts))
    requests = [request.split("/")[-1] for request, _ in proxy.seen]
    assert requests.index("healed") < requests.index("gate") < len(requests) - 1 - requests[::-1].index("config")
    kept = json.loads(rollouts.with_name("rollouts_rollcall.json").read_text())
    assert (kept["run"], kept["gate"]) == ("r-7", proxy.gate)


def test_verifying_the_results_again_heals_nothing(proxy: FakeProxy, rollouts: Path) -> None:
    """What a new verifier makes of good rollouts says nothing of the run."""
    reverify(proxy, rollouts.with_name("again.jsonl"), rollouts=str(rollouts), judge_failed_only=False)
    assert proxy.asked("PUT /v1/sessions")[0]["reverifies"] == "r-7"
    assert proxy.asked("healed") == []


def test_a_run_that_cannot_be_told_is_said_to_be_as_it_was(proxy: FakeProxy, rollouts: Path) -> None:
    """The reverification itself is done."""
    proxy.refuses["healed"] = (404, "not found")
    done = reverify(proxy, rollouts.with_name("again.jsonl"), rollouts=str(rollouts))
    assert "1 rollouts scored again still count as failed in run r-7" in done.err
    assert proxy.seen[-1][1] == {"state": "ended"}


def test_a_reverification_goes_on_where_the_run_file_cannot_be_read(proxy: FakeProxy, rollouts: Path) -> None:
    """It is said that the run is not told."""
    rollouts.with_name("rollouts_rollcall.json").write_text("{")
    done = reverify(proxy, rollouts.with_name("again.jsonl"), rollouts=str(rollouts))
    assert "its run is not told of what is verified again" in done.err
    assert proxy.asked("healed") == []
