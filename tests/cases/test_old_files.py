"""What an earlier run left beside the output decides nothing of the next one."""

import json
from pathlib import Path
from typing import Any

import pytest
from attachlab import Done, FakeProxy, gate, proxy, run_gym

CODE = "import nemo_gym.cli.eval as e; e.collect_rollouts(); print('ended')"


def row(**more: Any) -> dict[str, Any]:
    return {"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "agent"}} | more


FAILURE = row(_ng_failure_class="agent_run_error")


def collected(fake: FakeProxy, output: Path, *results: dict[str, Any], resume: bool = False, **wanted: Any) -> Done:
    """`gym eval run`, attached: its results are these."""
    return run_gym(
        CODE,
        ROLLCALL_PROXY=fake.url,
        FAKE_HEAD_SERVER=json.dumps({"agent": {"host": "127.0.0.1", "port": 8001}}),
        FAKE_GYM=json.dumps({"rows": [row()], "results": results} | wanted),
        FAKE_CONFIG=json.dumps({"output": str(output), "resume": resume}),
    )


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "rollouts.jsonl"


def failures(output: Path) -> list[Any]:
    text = output.with_name("rollouts_failures.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_three_failures_of_an_older_run_are_no_attempts_of_this_one(output: Path) -> None:
    """A fresh run that was killed is resumed with all of its attempts (NVIDIA-NeMo/Gym#2723)."""
    with proxy() as fake:
        collected(fake, output, FAILURE, FAILURE, FAILURE)
        assert len(failures(output)) == 3
        killed = collected(fake, output, raises="KeyboardInterrupt")
        assert "are now in" in killed.err
        resumed = collected(fake, output, resume=True)
    assert (resumed.status, "resuming with 0 0" in resumed.out) == (0, True)
    runs = [body["run"] for request, body in fake.seen if request.startswith("PUT /v1/sessions")]
    assert (runs[0] == runs[1], runs[1] == runs[2]) == (False, True)
    assert len(list(output.parent.glob("rollouts_failures.*.jsonl.old"))) == 1


def test_rows_that_name_another_run_are_no_attempts(output: Path) -> None:
    """Although nobody moved them aside (NVIDIA-NeMo/Gym#2723)."""
    with proxy() as fake:
        collected(fake, output)
        old = FAILURE | {"_rollcall": {"run": "r-old", "dispatch": "d-1"}}
        output.with_name("rollouts_failures.jsonl").write_text((json.dumps(old) + "\n") * 3)
        assert "resuming with 0 0" in collected(fake, output, resume=True).out
    assert failures(output) == []


def test_an_older_runs_numbers_are_not_this_ones(output: Path) -> None:
    """A fresh start that writes none leaves none under the name (NVIDIA-NeMo/Gym#2723)."""
    metrics = output.with_name("rollouts_aggregate_metrics.json")
    entry = {"agent_ref": {"name": "agent"}, "agent_metrics": {"mean/reward": 0.5}, "key_metrics": {}}
    with proxy() as fake:
        fake.gate = gate(0)
        collected(fake, output, row(reward=0.5), entries=[entry])
        assert "0.5" in metrics.read_text()
        collected(fake, output, raises="KeyboardInterrupt")
    assert "0.5" not in (metrics.read_text() if metrics.exists() else "")
