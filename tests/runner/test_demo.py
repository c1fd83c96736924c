"""`rollcall demo` end to end: real services, real sockets, every planned fault."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from rollcall_runner.demo.check import differences, said_by
from rollcall_runner.demo.files import Output, Row, identity, read_rows
from rollcall_runner.demo.plan import FAULTS, FAULTY_AGENT, FAULTY_TASKS, SOUND_AGENT, Fault, planned_rows

FAILED = {task: fault for task, fault in FAULTS.items() if fault.state == "failed"}


@dataclass(frozen=True)
class Demo:
    """What `rollcall demo` left behind."""

    status: int
    text: str
    output: Output

    def failures(self) -> dict[int, Row]:
        return {identity(row)[0]: row for row in read_rows(self.output.failures)}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Beside a file of settings, and under a variable, that would change what comes of it."""
    folder = tmp_path_factory.mktemp("demo")
    (folder / "rollcall.toml").write_text("[proxy]\nmode = 'observe'\n")
    command = [sys.executable, "-m", "rollcall_runner", "demo", "--output", str(folder)]
    variables = os.environ | {"ROLLCALL_COLLECTOR_MODEL_ERRORS": "last_wins"}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=90, check=False)
    return Demo(done.returncode, done.stdout + done.stderr, Output(folder / "rollouts.jsonl"))


def test_demo_ends_well_only_after_an_incomplete_pass_and_a_complete_resume(demo: Demo) -> None:
    """Exit 0: the first pass ended with 3 and just the planned failures, the resume with 0."""
    assert demo.status == 0, demo.text
    assert "First pass: exit status 3" in demo.text
    assert "Resume: exit status 0" in demo.text


@pytest.mark.parametrize(("task", "fault"), FAILED.items(), ids=[fault.name for fault in FAILED.values()])
def test_each_planned_fault_becomes_one_failure_row_with_its_root_cause(demo: Demo, task: int, fault: Fault) -> None:
    """One row an attempt, with Gym's class and the innermost call that failed."""
    assert said_by(demo.failures()[task]) == (fault.failure_class, fault.server, fault.what)


def test_failure_rows_show_no_number_to_the_metrics(demo: Demo) -> None:
    """No top-level number or truth value outside of keys that begin with `_`."""
    for row in demo.failures().values():
        assert [key for key, value in row.items() if not key.startswith("_") and isinstance(value, int | float)] == []


def test_the_failures_file_holds_one_row_an_attempt(demo: Demo) -> None:
    """Neither the omitted rollout nor the resume adds one."""
    assert sorted(identity(row)[0] for row in read_rows(demo.output.failures)) == sorted(FAILED)


def test_after_the_resume_every_rollout_has_exactly_one_result(demo: Demo) -> None:
    """The omitted rollout too; nothing is sent twice."""
    done = [identity(row) for row in read_rows(demo.output.main)]
    assert sorted(done) == sorted(identity(row) for row in planned_rows())


def test_the_sound_benchmark_is_released_while_the_other_is_withheld(demo: Demo) -> None:
    """A benchmark with failures never withholds another's metrics, and says its own counts."""
    lines = [line for line in demo.text.splitlines() if line.startswith("Key metrics for")]
    metrics = [(line.split()[3].rstrip(":"), json.loads(line.split(": ", 1)[1])) for line in lines]
    first = dict(metrics[:2])
    assert first[SOUND_AGENT]["mean/reward"] == 0.875
    assert first[FAULTY_AGENT]["rollcall/metrics_withheld"] == 1
    assert first[FAULTY_AGENT]["rollcall/expected"] == len(FAULTY_TASKS)
    assert "mean/reward" not in first[FAULTY_AGENT]


def test_after_the_resume_both_benchmarks_have_metrics(demo: Demo) -> None:
    """The metrics file of the complete run holds numbers for every benchmark."""
    entries = json.loads(demo.output.metrics.read_text())
    assert {entry["agent_ref"]["name"] for entry in entries} == {SOUND_AGENT, FAULTY_AGENT}
    assert all("mean/reward" in entry["key_metrics"] for entry in entries)


def test_the_comparison_with_the_plan_names_what_is_missing(tmp_path: Path) -> None:
    """Empty files differ from the plan in every clean rollout and every planned failure."""
    output = Output(tmp_path / "rollouts.jsonl")
    output.start(planned_rows())
    assert len(differences(output)) == len(planned_rows()) - len(FAULTS) + len(FAILED)
