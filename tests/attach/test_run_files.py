"""A run's files, as a session finds them, keeps them from others, puts them right and leaves them."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from attachlab import ATTACH, FAKE_GYM, LIBRARIES, TRIALS, Done, FakeProxy, benchmark, gate, python, run_gym, wait
from test_dispatcher import COLLECT, collect, options, row, run_file

ROOT = ATTACH.parents[1]
HOLD = (
    f"import sys; sys.path.insert(0, {str(ROOT / 'collector' / 'rollcall_collector')!r})\n"
    "import pathlib, time, results.lock as lock\n"
    "kept = lock.hold(pathlib.Path({output!r}), {{'session': 's-other'}}); print('held', flush=True); time.sleep(60)"
)


def result(task: int, reward: float = 1.0, **more: Any) -> dict[str, Any]:
    return row(task, reward=reward, **more)


def failure(task: int, run: str | None = None, dispatch: str = "d-1", **more: Any) -> dict[str, Any]:
    marks = {"_rollcall": {"run": run, "dispatch": dispatch}} if run else {}
    return row(task, _ng_failure_class="agent_run_error", **marks, **more)


def failures_of(output: Path) -> Path:
    return output.with_name("rollouts_failures.jsonl")


def rows_in(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(path: Path, *rows: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))


def to_failures(task: int, **more: Any) -> dict[str, Any]:
    return {**entry(task, f"d-{task}"), "row": failure(task, "r-1", f"d-{task}"), **more}


def entry(task: int, dispatch: str) -> dict[str, Any]:
    """What the collector says of a row that lies in the wrong file."""
    indices = {"task_index": task, "rollout_index": 0, "stage_index": None}
    return {**indices, "benchmark": "agent", "agent": "agent", "dispatch": dispatch}


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "rollouts.jsonl"


def resume(proxy: FakeProxy, output: Path, **wanted: Any) -> Done:
    return collect(proxy, output, config={"resume": True}, **wanted)


def test_a_run_whose_lock_another_process_has_does_not_start(proxy: FakeProxy, output: Path) -> None:
    """Not one file is touched; the line names the process, its host, the file and the cure."""
    holder = python(HOLD.format(output=str(output)), executable=sys.executable)
    assert holder.stdout
    assert holder.stdout.readline() == "held\n"
    done = collect(proxy, output)
    assert (done.status, done.out, proxy.seen) == (4, "", [])
    assert [path.name for path in output.parent.iterdir()] == ["rollouts_rollcall.lock"]
    for part in (f"pid {holder.pid}", "host ", "s-other", "rollouts_rollcall.lock", "name another output"):
        assert part in done.err
    holder.kill()
    holder.communicate()
    assert collect(proxy, output).status == 0


def test_a_run_is_locked_while_its_session_is_on(proxy: FakeProxy, output: Path) -> None:
    """Also where Gym has to make the folder first; a second one ends with 4 and the first goes on."""
    output = output.parent / "new" / output.name
    options_of = options(proxy.url, output, {"takes": 2, "results": [result(0)]})
    first = python(COLLECT, path=(FAKE_GYM, TRIALS, LIBRARIES), **options_of)
    assert first.stdout
    assert first.stdout.readline() == "dispatching\n"
    assert collect(proxy, output).status == 4
    assert wait(first).status == 0
    assert rows_in(output) == [result(0)]


def test_without_the_package_a_run_goes_on_unlocked(proxy: FakeProxy, output: Path, tmp_path: Path) -> None:
    """An attach that was copied without it says so once, and does the rest."""
    alone = tmp_path / "copy" / "rollcall_attach"
    shutil.copytree(ATTACH, alone)
    path = os.pathsep.join(str(entry) for entry in (alone / "path", FAKE_GYM, LIBRARIES))
    done = run_gym(COLLECT, PYTHONPATH=path, **options(proxy.url, output, {"results": [result(0)]}))
    assert done.status == 0
    assert done.said == [
        "rollcall: cannot load what repairs, moves and locks a run's files; going on without it: "
        f"ImportError('{alone.parent / 'rollcall_collector' / 'results'} is not there')"
    ]


def test_the_package_is_found_beside_an_installed_attach(proxy: FakeProxy, output: Path, tmp_path: Path) -> None:
    """As a wheel lays them out; nothing of Rollcall's needs to be importable by its name."""
    site = tmp_path / "site"
    shutil.copytree(ATTACH, site / "rollcall_attach")
    shutil.copytree(ROOT / "collector/rollcall_collector/results", site / "rollcall_collector/results")
    path = os.pathsep.join(str(entry) for entry in (site / "rollcall_attach" / "path", FAKE_GYM, LIBRARIES))
    proxy.moves = {"to_failures": [to_failures(0)]}
    done = run_gym(COLLECT, PYTHONPATH=path, **options(proxy.url, output, {"results": [result(0)]}))
    assert (done.status, rows_in(output), len(rows_in(failures_of(output)))) == (0, [], 1)


def test_a_line_torn_by_a_crash_is_repaired_before_gym_resumes(proxy: FakeProxy, output: Path) -> None:
    """Gym up to 0.6 ends at such a line; it is kept, and said where."""
    collect(proxy, output, results=[result(0), failure(1)])
    for path in (output, failures_of(output)):
        path.write_bytes(path.read_bytes() + b'{"_ng_task_index": 2, "rew')
    done = resume(proxy, output)
    assert done.status == 0
    assert "resuming with 1 1" in done.out
    for path in (output, failures_of(output)):
        assert f"is kept in {path}.torn-1" in done.err
        assert path.with_name(f"{path.name}.torn-1").read_bytes() == b'{"_ng_task_index": 2, "rew'


def test_an_older_runs_failures_are_set_aside_at_a_fresh_start(proxy: FakeProxy, output: Path) -> None:
    """Gym up to 0.5 leaves them, and counts them as attempts at the next resume; an empty file is nothing."""
    collect(proxy, output, results=[failure(0)])
    run = run_file(output)["run"]
    done = collect(proxy, output)
    aside = output.with_name(f"rollouts_failures.{run}.jsonl.old")
    assert rows_in(aside) == [failure(0)]
    assert f"are now in {aside}" in done.err
    assert failures_of(output).read_text() == ""
    assert collect(proxy, output).said == []


def test_failure_rows_of_another_run_are_no_attempts_of_a_resume(proxy: FakeProxy, output: Path) -> None:
    """Only those that name one: an agent's own rows, and lines that are no rows, stay in their order."""
    collect(proxy, output, results=[result(5)])
    run = run_file(output)["run"]
    own, nobodys = failure(0, run), failure(0)
    write(failures_of(output), failure(0, "r-old"), own, failure(0, "r-old", "d-2"), nobodys)
    done = resume(proxy, output)
    assert "resuming with 1 2" in done.out
    assert rows_in(failures_of(output)) == [own, nobodys]
    aside = output.with_name("rollouts_failures.r-old.jsonl.old")
    assert rows_in(aside) == [failure(0, "r-old"), failure(0, "r-old", "d-2")]
    assert f"2 rows of {failures_of(output)} are another run's" in done.err
    assert resume(proxy, output).said == []


def test_a_resume_with_other_inputs_does_not_start(proxy: FakeProxy, output: Path) -> None:
    """Both digests and the cure are named; with the inputs back it starts."""
    collect(proxy, output)
    inputs = output.with_name("rollouts_materialized_inputs.jsonl")
    text, digest = inputs.read_text(), run_file(output)["inputs_digest"]
    assert digest == proxy.asked("expected")[0]["digest"]
    inputs.write_text(text * 2)
    seen = len(proxy.seen)
    done = resume(proxy, output)
    assert (done.status, done.out, len(proxy.seen)) == (4, "", seen)
    assert "inputs_digest" in done.err
    assert done.err.count("sha256:") == 2
    inputs.write_text(text)
    assert resume(proxy, output).status == 0


def test_a_resume_of_a_run_without_a_digest_adds_it(proxy: FakeProxy, output: Path) -> None:
    """What other versions have written stays."""
    collect(proxy, output)
    older = {"version": 1, "run": "r-7", "started_at": "2026-01-01T00:00:00+00:00", "later": {"x": 1}}
    output.with_name("rollouts_rollcall.json").write_text(json.dumps(older))
    resume(proxy, output)
    found = run_file(output)
    assert {name: found[name] for name in older} == older
    assert found["inputs_digest"] == proxy.asked("expected")[-1]["digest"]


def test_the_run_file_keeps_the_gates_last_word(proxy: FakeProxy, output: Path) -> None:
    """With the files that it speaks of; without an answer, it says why nothing is known."""
    proxy.gate = gate(3, benchmark(succeeded=1, failed=1), reasons=("1 failed",))
    collect(proxy, output, results=[result(0), failure(1)])
    found = run_file(output)
    assert found["gate"] == proxy.gate
    assert found["ended_at"] >= found["started_at"]
    for path in (output, failures_of(output)):
        assert found["files"][path.name] == {"size": path.stat().st_size, "mtime_ns": path.stat().st_mtime_ns}
    proxy.refuses["gate"] = (503, "the collector is away")
    resume(proxy, output)
    assert run_file(output)["gate"]["exit_status"] == 4
    assert "the collector is away" in run_file(output)["gate"]["reasons"][0]


def test_while_a_session_is_on_the_run_file_has_no_outcome(proxy: FakeProxy, output: Path) -> None:
    """The older one speaks of other files."""
    collect(proxy, output)
    keep = "import shutil, os; print(open(os.environ['RUN_FILE']).read())\n"
    code = (
        f"import nemo_gym.rollout_collection as r\nr.RolloutCollectionHelper.write = lambda *a: exec({keep!r}) or []\n"
    )
    more = options(proxy.url, output, config={"resume": True})
    done = run_gym(code + COLLECT, RUN_FILE=str(output.with_name("rollouts_rollcall.json")), **more)
    during = json.loads(done.out[done.out.index("{") : done.out.rindex("}") + 1])
    assert set(during) == {"version", "run", "mode", "proxy", "started_at", "inputs_digest"}
    assert "gate" in run_file(output)


def test_rows_that_have_failed_leave_the_results_before_metrics(proxy: FakeProxy, output: Path) -> None:
    """The file, and what is aggregated, both lists alike."""
    proxy.moves = {"to_failures": [to_failures(1)], "to_results": []}
    done = collect(proxy, output, results=[result(0), result(1), result(2)])
    assert [line for line in done.out.splitlines() if line.startswith("aggregating")] == [
        "aggregating 0 0 1.0",
        "aggregating 2 2 1.0",
    ]
    assert rows_in(output) == [result(0), result(2)]
    (moved,) = rows_in(failures_of(output))
    assert moved["_rollcall"]["withheld_result"] == result(1)
    assert "1 rows have been moved" in done.err
    assert proxy.asked("POST /v1/runs/.*/moved")[0] == {"to_failures": ["d-1"], "to_results": []}


def test_a_class_that_counts_as_zero_counts_as_zero(proxy: FakeProxy, output: Path) -> None:
    """Gym would have counted it, had the row been where it belongs."""
    proxy.moves = {"to_failures": [to_failures(1)]}
    config = {"counted": ["agent_run_error"]}
    done = collect(proxy, output, config=config, results=[result(0), result(1)])
    assert "aggregating 1 1 0.0" in done.out
    assert proxy.asked("PUT /v1/sessions")[0]["counted_as_zero"] == {"classes": ["agent_run_error"], "missing": False}


def test_another_agents_row_of_that_number_stays(proxy: FakeProxy, output: Path) -> None:
    """In the file and in what is aggregated."""
    proxy.moves = {"to_failures": [to_failures(0, agent="other", benchmark="other")]}
    done = collect(proxy, output, results=[result(0)])
    assert "aggregating 0 0 1.0" in done.out
    assert rows_in(output) == [result(0)]


def test_a_result_that_counts_again_comes_back(proxy: FakeProxy, output: Path) -> None:
    """It is not among what this session aggregates, which is said."""
    back = failure(1, "r-1", "d-9")
    back["_rollcall"]["withheld_result"] = result(1)
    proxy.moves = {"to_results": [entry(1, "d-9")]}
    done = collect(proxy, output, results=[result(0), back])
    assert rows_in(output) == [result(0), result(1)]
    assert rows_in(failures_of(output)) == []
    assert "use gym eval aggregate" in done.err
    assert proxy.asked("POST /v1/runs/.*/moved")[0] == {"to_failures": [], "to_results": ["d-9"]}


def test_rows_are_moved_too_where_gym_computes_no_metrics(proxy: FakeProxy, output: Path) -> None:
    """For a shard, and where Gym gives up first."""
    proxy.moves = {"to_failures": [to_failures(0)]}
    collect(proxy, output, config={"disable_aggregation": True}, results=[result(0)])
    assert rows_in(output) == []
    collect(proxy, output, results=[result(0)], raises="RuntimeError")
    assert rows_in(output) == []


def test_rows_that_an_earlier_session_left_are_moved_before_gym_resumes(proxy: FakeProxy, output: Path) -> None:
    """Gym would take them for done."""
    collect(proxy, output, results=[result(0), result(1)])
    proxy.moves = {"to_failures": [to_failures(1)]}
    assert "resuming with 1 1" in resume(proxy, output).out


def test_a_move_that_cannot_be_made_is_4(proxy: FakeProxy, output: Path) -> None:
    """Nothing may be assumed complete, and no row is lost."""
    proxy.moves = {"to_failures": [to_failures(0, row=failure(5, "r-1", "d-0"))]}
    done = collect(proxy, output, results=[result(0)])
    assert done.status == 4
    assert f"rows of {output} may be in the wrong file" in done.err
    assert rows_in(output) == [result(0)]
    assert run_file(output)["gate"]["exit_status"] == 4


@pytest.mark.parametrize(("answer", "status"), [(404, 0), (503, 4), (500, 4)])
def test_a_question_for_moves_that_has_no_answer(proxy: FakeProxy, output: Path, answer: int, status: int) -> None:
    """An older proxy has nothing to move; any other refusal leaves it open where rows belong."""
    proxy.refuses["moves"] = (answer, "no")
    assert collect(proxy, output, results=[result(0)]).status == status


def test_observing_moves_and_repairs_nothing(proxy: FakeProxy, output: Path) -> None:
    """Nor does it set anything aside."""
    proxy.mode = "observe"
    proxy.moves = {"to_failures": [to_failures(0)]}
    collect(proxy, output, results=[result(0), failure(1)])
    assert collect(proxy, output, results=[result(0)]).said == []
    assert rows_in(output) == [result(0)]
    assert rows_in(failures_of(output)) == [failure(1)]
    assert proxy.asked("moves") == []
