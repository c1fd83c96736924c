"""`gym eval aggregate` over shards, some of which are runs of Rollcall's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attachlab import Done, FakeProxy, benchmark, gate
from test_dispatcher import collect
from test_run_files import failure, result, write

AGGREGATE = "import nemo_gym.cli.eval as e; e.aggregate_rollouts(); print('ended')"
NUMBERS = {"agent_ref": {"name": "agent"}, "agent_metrics": {"reward": 1}, "key_metrics": {"reward": 1}}
OTHER = {"agent_ref": {"name": "other"}, "agent_metrics": {"reward": 0.5}, "key_metrics": {"reward": 0.5}}


def shard(folder: Path, number: int, run: str | None, **more: Any) -> Path:
    """A shard with its inputs and failures beside, and a run file if it is a run's."""
    path = folder / f"rollouts-{number}.jsonl"
    write(path, result(number))
    write(path.with_name(f"rollouts-{number}_failures.jsonl"), failure(9))
    write(path.with_name(f"rollouts-{number}_materialized_inputs.jsonl"), {**result(number), "reward": None})
    if run is not None:
        value = {"version": 1, "run": run, **more}
        path.with_name(f"rollouts-{number}_rollcall.json").write_text(json.dumps(value))
    return path


def aggregate(proxy: FakeProxy, folder: Path, *entries: dict[str, Any]) -> Done:
    config = {"input_glob": f"{folder}/rollouts-*.jsonl"}
    return collect(proxy, folder / "all.jsonl", AGGREGATE, config=config, entries=entries or [NUMBERS])


def metrics_of(folder: Path) -> Any:
    return json.loads((folder / "all_aggregate_metrics.json").read_text())


def withheld(entry: dict[str, Any]) -> bool:
    return bool(entry["key_metrics"] == entry["agent_metrics"] and "reward" not in entry["key_metrics"])


def stamp(path: Path) -> dict[str, int]:
    return {"size": path.stat().st_size, "mtime_ns": path.stat().st_mtime_ns}


def kept(folder: Path, number: int, answer: dict[str, Any]) -> Path:
    """A shard whose run file keeps the gate's answer."""
    path = shard(folder, number, None)
    paths = (path, path.with_name(f"{path.stem}_failures.jsonl"))
    return shard_file(path, {"gate": answer, "files": {each.name: stamp(each) for each in paths}})


def shard_file(path: Path, more: dict[str, Any]) -> Path:
    text = json.dumps({"version": 1, "run": f"r-{path.stem}", **more})
    path.with_name(f"{path.stem}_rollcall.json").write_text(text)
    return path


def test_complete_shards_are_aggregated(proxy: FakeProxy, tmp_path: Path) -> None:
    """Their results, and neither the failures nor the inputs that the glob matches too."""
    for number in (1, 2):
        shard(tmp_path, number, f"r-{number}")
    proxy.gate = gate(0, benchmark(succeeded=1))
    done = aggregate(proxy, tmp_path)
    assert (done.status, metrics_of(tmp_path)) == (0, [NUMBERS])
    assert done.out.splitlines() == ["aggregating 1 1 1.0", "aggregating 2 2 1.0", "ended"]
    assert "4 files of failures and inputs" in done.err


def test_a_benchmark_incomplete_in_one_shard_has_no_numbers(proxy: FakeProxy, tmp_path: Path) -> None:
    """The counts of all shards, and which one is incomplete; another benchmark keeps its numbers."""
    paths = [shard(tmp_path, number, f"r-{number}") for number in (1, 2)]
    bad = {**benchmark(succeeded=2, failed=1), "reason": "1 failed"}
    proxy.gates = {"r-1": gate(0, benchmark(succeeded=3), benchmark("other", succeeded=1)), "r-2": gate(3, bad)}
    done = aggregate(proxy, tmp_path, NUMBERS, OTHER)
    entry, other = metrics_of(tmp_path)
    assert (done.status, other) == (3, OTHER)
    assert entry["agent_metrics"] == {
        "rollcall/metrics_withheld": 1, "rollcall/expected": 6, "rollcall/succeeded": 5, "rollcall/failed": 1,
        "rollcall/omitted": 0, "rollcall/running": 0, "rollcall/missing": 0,
        "rollcall/reason": f"{paths[1]}: 1 failed",
    }  # fmt: skip
    assert done.said[-1] == (
        "rollcall: 1 of 7 rollouts failed; metrics withheld for agent; resume what is incomplete, then aggregate again"
    )


@pytest.mark.parametrize("status", [0, 3])
def test_what_the_run_file_keeps_counts_where_the_collector_forgot(
    proxy: FakeProxy, tmp_path: Path, status: int
) -> None:
    """While the files are those it speaks of."""
    answer = gate(status, benchmark(succeeded=1, failed=bool(status)))
    path = kept(tmp_path, 1, answer)
    proxy.refuses["gate"] = (404, "no run has this id")
    done = aggregate(proxy, tmp_path)
    assert (done.status, withheld(metrics_of(tmp_path)[0])) == (status, bool(status))
    path.write_text(path.read_text() * 2)
    done = aggregate(proxy, tmp_path)
    assert (done.status, withheld(metrics_of(tmp_path)[0])) == (4, True)
    assert f"{path} is not what its run file speaks of" in done.err


def test_a_shard_that_nobody_can_speak_for_withholds_all_numbers(proxy: FakeProxy, tmp_path: Path) -> None:
    """One without a run file among those that have one; what Gym has computed may be of it."""
    shard(tmp_path, 1, "r-1")
    path = shard(tmp_path, 2, None)
    proxy.gate = gate(0, benchmark(succeeded=1))
    done = aggregate(proxy, tmp_path, NUMBERS, OTHER)
    assert done.status == 4
    assert all(withheld(entry) for entry in metrics_of(tmp_path))
    assert metrics_of(tmp_path)[1]["key_metrics"]["rollcall/reason"] == f"{path} has no run file"


def test_a_collector_that_is_away_withholds_all_numbers(proxy: FakeProxy, tmp_path: Path) -> None:
    """Unknown is not complete, whatever a file keeps."""
    kept(tmp_path, 1, gate(0, benchmark(succeeded=1)))
    proxy.refuses["gate"] = (503, "the collector is away")
    done = aggregate(proxy, tmp_path)
    assert (done.status, withheld(metrics_of(tmp_path)[0])) == (4, True)
    assert "the collector is away" in done.err


def test_files_that_are_no_runs_are_aggregated_as_ever(proxy: FakeProxy, tmp_path: Path) -> None:
    """What Gym takes for results stays Gym's affair; the session says that there is no gate."""
    shard(tmp_path, 1, None)
    done = aggregate(proxy, tmp_path)
    assert (done.status, done.said, metrics_of(tmp_path)) == (0, [], [NUMBERS])
    assert len(done.out.splitlines()) == 4
    (told,) = proxy.asked("PUT /v1/sessions")
    assert (told["mode"], told["gate"]) == ("aggregate", None)


def test_the_session_says_what_the_shards_say_together(proxy: FakeProxy, tmp_path: Path) -> None:
    """Before Gym reads a file; it is ended after."""
    shard(tmp_path, 1, "r-1")
    proxy.gate = gate(0, benchmark(succeeded=1, environment="env"))
    aggregate(proxy, tmp_path)
    told = proxy.asked("PUT /v1/sessions")[0]["gate"]
    assert (told["exit_status"], told["reasons"]) == (0, [])
    assert [(each["benchmark"], each["environment_server"], each["metrics"]) for each in told["benchmarks"]] == [
        ("agent", "env", "released")
    ]
    assert proxy.seen[-1][1] == {"state": "ended"}


def test_observing_gives_the_status_and_leaves_the_numbers(proxy: FakeProxy, tmp_path: Path) -> None:
    """And what Gym reads."""
    shard(tmp_path, 1, "r-1")
    proxy.mode, proxy.gate = "observe", gate(3, benchmark(failed=1))
    done = aggregate(proxy, tmp_path)
    assert (done.status, metrics_of(tmp_path)) == (3, [NUMBERS])
    assert done.out.count("aggregating") == 3


@pytest.mark.parametrize("run", ["r-1", None])
def test_numbers_that_are_due_and_were_withheld_on_their_way_are_4(
    proxy: FakeProxy, tmp_path: Path, run: str | None
) -> None:
    """A proxy may have its reasons; an exit status of 0 would say that the numbers are there."""
    shard(tmp_path, 1, run)
    proxy.gate = gate(0, benchmark(succeeded=1))
    marks = {"rollcall/metrics_withheld": 1, "rollcall/reason": "the collector cannot be asked"}
    done = aggregate(proxy, tmp_path, {**NUMBERS, "agent_metrics": marks, "key_metrics": marks})
    assert done.status == 4
    assert "metrics of agent were withheld on their way: the collector cannot be asked" in done.err
