"""A collection of Gym's with a session of Rollcall's around it."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import pytest
from attachlab import Done, FakeProxy, benchmark, dead_url, gate, run_gym

SERVERS = json.dumps({"agent": {"host": "127.0.0.1", "port": 8001}})
COLLECT = "import nemo_gym.cli.eval as e; e.collect_rollouts(); print('ended')"
PROGRAM = (
    "import asyncio, json, os, nemo_gym.rollout_collection as r\n"
    "config = r.Config(**json.loads(os.environ['FAKE_CONFIG']))\n"
    "try: asyncio.run(r.RolloutCollectionHelper().run_from_config(config))\n"
    "except Exception as error: print('raised', error)\n"
    "print('ended')\n"
)


def row(task: int, rollout: int = 0, **more: Any) -> dict[str, Any]:
    return {"_ng_task_index": task, "_ng_rollout_index": rollout, "agent_ref": {"name": "agent"}, **more}


def options(
    url: str, output: Path, wanted: dict[str, Any] | None = None, config: dict[str, Any] | None = None
) -> dict[str, str]:
    return {
        "ROLLCALL_PROXY": url,
        "FAKE_HEAD_SERVER": SERVERS,
        "FAKE_GYM": json.dumps({"rows": [row(0)], **(wanted or {})}),
        "FAKE_CONFIG": json.dumps({"output": str(output), **(config or {})}),
    }


def collect(
    proxy: FakeProxy, output: Path, code: str = COLLECT, *, config: dict[str, Any] | None = None, **wanted: Any
) -> Done:
    return run_gym(code, **options(proxy.url, output, wanted, config))


def metrics_of(output: Path) -> Any:
    path = output.with_name("rollouts_aggregate_metrics.json")
    return json.loads(path.read_text()) if path.exists() else None


def run_file(output: Path) -> Any:
    return json.loads(output.with_name("rollouts_rollcall.json").read_text())


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "rollouts.jsonl"


def test_a_collection_is_a_session_from_before_its_start_to_after_its_end(proxy: FakeProxy, output: Path) -> None:
    """Opened, expected, asked before Gym aggregates, asked at the end, ended, in this order."""
    assert collect(proxy, output).out.splitlines() == ["dispatching", "ended"]
    session = proxy.seen[0][0].rpartition("/")[2]
    run = proxy.seen[0][1]["run"]
    assert session.startswith("s-")
    assert [request for request, _ in proxy.seen] == [
        f"PUT /v1/sessions/{session}",
        f"PUT /v1/runs/{run}/expected",
        "POST /v1/config",
        f"GET /v1/runs/{run}/gate",
        f"GET /v1/runs/{run}/moves",
        f"GET /v1/runs/{run}/moves",
        f"GET /v1/runs/{run}/gate",
        f"POST /v1/sessions/{session}/heartbeat",
    ]
    assert proxy.seen[-1][1] == {"state": "ended"}


def test_the_session_says_what_is_run_and_where(proxy: FakeProxy, output: Path) -> None:
    """With the launch that `rollcall run` gave it."""
    run_gym(COLLECT, ROLLCALL_LAUNCH="l-1", **options(proxy.url, output))
    body = proxy.seen[0][1]
    assert {name: body[name] for name in ("output", "mode", "launch", "gym")} == {
        "output": str(output), "mode": "fresh", "launch": "l-1", "gym": "0.0.7",
    }  # fmt: skip
    assert body["run"].startswith("r-")
    assert body["pid"] > 0
    assert body["host"]


@pytest.mark.parametrize("with_metadata", [False, True])
def test_every_materialized_rollout_is_expected_before_the_first_is_sent(
    proxy: FakeProxy, output: Path, with_metadata: bool
) -> None:
    """With the contract's benchmark names, a stage where the row has one, and the file's digest; told once."""
    rows = [
        row(0), row(0, 1), row(1, stage_index=2), row(2, _ng_environment_server="env"),
        {"_ng_task_index": 3, "_ng_rollout_index": 0, "_ng_environment_server": "env"},
    ]  # fmt: skip
    collect(proxy, output, rows=rows, with_metadata=with_metadata)
    source = output.with_name("rollouts_materialized_inputs.jsonl")
    assert proxy.asked("expected") == [
        {
            "session": proxy.seen[0][0].rpartition("/")[2],
            "source": str(source),
            "digest": f"sha256:{hashlib.sha256(source.read_bytes()).hexdigest()}",
            "rollouts": [
                ["agent", 0, 0, None], ["agent", 0, 1, None], ["agent", 1, 0, 2],
                ["env:agent", 2, 0, None], ["env", 3, 0, None],
            ],
        }
    ]  # fmt: skip


def test_a_fresh_start_makes_a_run_and_a_resume_keeps_it(proxy: FakeProxy, output: Path) -> None:
    """The run's id lies beside the output."""
    ids = []
    for config in ({}, {}, {"resume": True}):
        collect(proxy, output, config=config)
        ids.append(run_file(output)["run"])
    assert ids[0] != ids[1] == ids[2]
    assert [body["run"] for body in proxy.asked("PUT /v1/sessions")] == ids
    assert [body["mode"] for body in proxy.asked("PUT /v1/sessions")] == ["fresh", "fresh", "resume"]
    assert run_file(output)["version"] == 1


def test_a_resume_of_a_run_that_was_not_attached_gets_an_id(proxy: FakeProxy, output: Path) -> None:
    """There is nothing to keep."""
    collect(proxy, output)
    output.with_name("rollouts_rollcall.json").unlink()
    collect(proxy, output, config={"resume": True})
    assert proxy.asked("PUT /v1/sessions")[-1]["run"] == run_file(output)["run"]


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 2, "run": "r-1"}', '{"version": 1}'])
def test_a_resume_with_an_unreadable_run_file_stops_and_names_the_cure(
    proxy: FakeProxy, output: Path, text: str
) -> None:
    """A new id would make one run two; a fresh start does not care."""
    path = output.with_name("rollouts_rollcall.json")
    collect(proxy, output)
    path.write_text(text)
    done = collect(proxy, output, config={"resume": True})
    assert (done.status, done.out) == (4, "")
    assert f"cannot read the run file {path}" in done.err
    assert "delete it" in done.err
    assert path.read_text() == text
    assert collect(proxy, output).status == 0


def test_an_older_runs_metrics_are_set_aside_at_a_fresh_start(proxy: FakeProxy, output: Path) -> None:
    """Under that run's id, never over another file."""
    collect(proxy, output, entries=[{"agent_ref": {"name": "agent"}, "key_metrics": {"reward": 1}}])
    run = run_file(output)["run"]
    taken = output.with_name(f"rollouts_aggregate_metrics.{run}.old.json")
    taken.write_text("taken")
    collect(proxy, output)
    assert taken.read_text() == "taken"
    assert "reward" in output.with_name(f"rollouts_aggregate_metrics.{run}-2.old.json").read_text()
    assert metrics_of(output) is None


def test_observing_changes_no_file_of_gyms(proxy: FakeProxy, output: Path) -> None:
    """No metrics set aside, no entry written."""
    proxy.mode, proxy.gate = "observe", gate(3, benchmark(failed=1))
    output.with_name("rollouts_aggregate_metrics.json").write_text("[1]")
    assert collect(proxy, output).status == 3
    assert metrics_of(output) == [1]


def test_a_withheld_benchmark_has_an_entry_also_where_gym_asked_for_none(proxy: FakeProxy, output: Path) -> None:
    """Beside the released one, which stays as Gym wrote it."""
    released = {"agent_ref": {"name": "good"}, "agent_metrics": {"reward": 1}, "key_metrics": {"reward": 1}}
    bad = benchmark("bad", failed=2)
    proxy.gate = gate(3, benchmark("good", succeeded=3), bad)
    collect(proxy, output, entries=[released])
    withheld = bad["withheld_metrics"]
    assert metrics_of(output) == [
        released,
        {"agent_ref": {"name": "bad"}, "agent_metrics": withheld, "key_metrics": withheld, "group_level_metrics": []},
    ]


def test_numbers_of_a_withheld_benchmark_do_not_stay(proxy: FakeProxy, output: Path) -> None:
    """An entry without the marker is replaced, under the names that Gym gave it."""
    entry = {"agent_ref": {"name": "agent"}, "_ng_environment_server": "env", "agent_metrics": {"reward": 0.75}}
    proxy.gate = gate(3, benchmark(succeeded=3, failed=1))
    collect(proxy, output, entries=[entry])
    (found,) = metrics_of(output)
    assert (found["agent_ref"], found["_ng_environment_server"]) == ({"name": "agent"}, "env")
    assert found["agent_metrics"] == found["key_metrics"] == proxy.gate["benchmarks"][0]["withheld_metrics"]


def test_the_file_is_written_too_when_gym_gives_up_first(proxy: FakeProxy, output: Path) -> None:
    """0.6 and 0.7 raise before they aggregate where nothing succeeded."""
    proxy.gate = gate(3, benchmark(failed=1))
    collect(proxy, output, raises="RuntimeError")
    assert len(metrics_of(output)) == 1


def test_without_aggregation_no_metrics_are_written(proxy: FakeProxy, output: Path) -> None:
    """A shard's metrics are computed by `gym eval aggregate`."""
    proxy.gate = gate(3, benchmark(failed=1))
    assert collect(proxy, output, config={"disable_aggregation": True}).status == 3
    assert metrics_of(output) is None


def test_a_collection_without_a_proxy_does_not_start(output: Path) -> None:
    """Not a command's and not a program's own; nothing is written."""
    for code in (COLLECT, PROGRAM):
        done = run_gym(code, **options(dead_url(), output))
        assert (done.status, done.out, len(done.said)) == (4, "", 1)
    assert list(output.parent.iterdir()) == []


def test_a_collection_whose_rollouts_cannot_be_registered_does_not_start(proxy: FakeProxy, output: Path) -> None:
    """Refused, or put off for too long."""
    for refusal in ((409, "another digest"), (503, "no collector")):
        proxy.refuses["expected"] = refusal
        done = collect(proxy, output)
        assert (done.status, done.out) == (4, "")
        assert refusal[1] in done.err


def test_a_row_that_names_no_rollout_stops_the_start_and_is_named(proxy: FakeProxy, output: Path) -> None:
    """What is expected has to be known."""
    done = collect(proxy, output, rows=[row(0), {"agent_ref": {"name": "agent"}}])
    assert done.status == 4
    assert "rollouts_materialized_inputs.jsonl line 2 names no rollout" in done.err


def test_a_program_that_collects_by_itself_is_never_ended(proxy: FakeProxy, output: Path) -> None:
    """It gets Gym's own result or exception."""
    proxy.gate = gate(3, benchmark(failed=1))
    assert collect(proxy, output, PROGRAM).out.splitlines() == ["dispatching", "ended"]
    done = collect(proxy, output, PROGRAM, raises="RuntimeError")
    assert (done.status, done.out.splitlines()) == (0, ["dispatching", "raised as asked for", "ended"])


def test_calls_outside_of_a_collection_pass_untouched(proxy: FakeProxy, output: Path) -> None:
    """`gym eval aggregate` uses the helper's method too, and a program may dispatch rows of its own."""
    code = (
        "import asyncio, pathlib, nemo_gym.rollout_collection as r\n"
        "helper = r.RolloutCollectionHelper()\n"
        f"asyncio.run(helper._call_aggregate_metrics([], [], pathlib.Path({str(output)!r})))\n"
        "print(len(list(helper.run_examples([1, 2]))))\n"
    )
    assert collect(proxy, output, code).out.splitlines() == ["dispatching", "2"]
    assert [request for request, _ in proxy.seen] == ["POST /v1/config"]


def test_a_long_collection_is_kept_alive(proxy: FakeProxy, output: Path) -> None:
    """By heartbeats while Gym works."""
    run_gym(COLLECT, ROLLCALL_PROXY_GRACE="0.8", **options(proxy.url, output, {"takes": 1}))
    states = [body["state"] for body in proxy.asked("heartbeat")]
    assert states[-1] == "ended"
    assert states.count("running") >= 2


IN_THE_BACKGROUND = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
"""What a shell has started with `&` ignores Ctrl-C."""


@pytest.mark.parametrize("started_as", ["import signal\n", IN_THE_BACKGROUND], ids=["by hand", "in the background"])
def test_a_proxy_that_stays_away_ends_the_command_with_4(proxy: FakeProxy, output: Path, started_as: str) -> None:
    """Gym's clients would wait for it for ever."""
    started = time.monotonic()
    # The variable is read at each call: once the first row is out, the proxy is where nobody answers.
    wanted = {"takes": 20, "environ": {"ROLLCALL_PROXY": dead_url()}}
    done = run_gym(started_as + COLLECT, ROLLCALL_PROXY_GRACE="1", **options(proxy.url, output, wanted))
    assert done.status == 4
    assert "has not answered for 1 s (ROLLCALL_PROXY_GRACE); stopping this run" in done.err
    assert time.monotonic() - started < 15
