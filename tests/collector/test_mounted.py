"""The collector diverts by itself where the folder of the results is mounted."""

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from collector_client import Client, running
from collector_events import begun, ended, tag
from pydantic import ValidationError
from rollcall_collector.mounted import Folder
from rollcall_collector.results.lock import hold
from rollcall_collector.settings import CollectorSettings

SEEN_AS = "/data/results"


def tasks(path: Path) -> list[int]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line)["_ng_task_index"] for line in lines]


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - files tell nobody that they have changed
            await asyncio.sleep(0.05)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """A run's output in the mounted folder, with rows of two rollouts and the run file."""
    folder = tmp_path / "mounted" / "one"
    folder.mkdir(parents=True)
    row = {"_ng_rollout_index": 0, "agent_ref": {"name": "math_agent"}, "reward": 1.0}
    (folder / "x.jsonl").write_text("".join(json.dumps(row | {"_ng_task_index": task}) + "\n" for task in (0, 1)))
    (folder / "x_rollcall.json").write_text(json.dumps({"version": 1, "run": "r-1"}))
    return folder / "x.jsonl"


@asynccontextmanager
async def watching(output: Path, **settings: Any) -> AsyncIterator[Client]:
    """A collector with the folder mounted, and a run whose rollout 1-0 has failed after its row was written."""
    folder = output.parent.parent
    async with running(folder.parent / "x.sqlite3", results=folder, results_seen_as=SEEN_AS, **settings) as client:
        await client.session(output=f"{SEEN_AS}/one/x.jsonl")
        await client.sends(begun("d-0", "0-0"), ended("d-0"), begun("d-1", "1-0"), ended("d-1"), tag("d-1"))
        yield client


async def ends(client: Client) -> None:
    await client.call("POST", "/v1/sessions/s-1/heartbeat", {"state": "ended"})


async def test_rows_are_moved_once_the_session_has_ended(output: Path) -> None:
    """Under the path that dispatchers have for the folder; the collector knows it, and keeps the gate's answer."""
    failures = output.with_name("x_failures.jsonl")
    async with watching(output) as client:
        assert tasks(output) == [0, 1]
        await ends(client)
        await until(lambda: "gate" in json.loads(output.with_name("x_rollcall.json").read_text()))
        assert (tasks(output), tasks(failures)) == ([0], [1])
        assert await client.get("/v1/runs/r-1/moves") == {"to_failures": [], "to_results": []}
        await client.sends(tag("d-0", "x-2"))
        await until(lambda: tasks(failures) == [1, 0])


async def test_a_row_that_is_moved_is_logged_with_the_trace_id_of_its_dispatch(
    output: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And where it lies now."""
    caplog.set_level(logging.INFO, "rollcall_collector.diverted")
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    async with running(output.parents[2] / "x.sqlite3", results=output.parent.parent) as client:
        await client.session(output=str(output))
        await client.sends(begun(trace=trace), ended())
        await client.sends(tag())
        await ends(client)
        await until(lambda: tasks(output) == [1])
    (line,) = [each.getMessage() for each in caplog.records if each.name == "rollcall_collector.diverted"]
    assert line.endswith(f"moved into {output.with_name('x_failures.jsonl')}; trace {trace}")


async def test_the_gates_answer_is_kept_anew_where_no_row_moves(output: Path) -> None:
    """Another policy can change it alone."""
    run_file = output.with_name("x_rollcall.json")
    async with watching(output) as client:
        await ends(client)
        await until(lambda: "gate" in json.loads(run_file.read_text()))
        await client.expects(0, 1)
        await client.call("POST", "/v1/runs/r-1/reapply", {"policy": {"max_failure_rate": 0.5}})
        gate = await client.get("/v1/runs/r-1/gate")
        assert gate["benchmarks"][0]["metrics"] == "released"
        await until(lambda: json.loads(run_file.read_text())["gate"] == gate)


async def test_rows_stay_while_a_session_or_another_process_is_at_them(output: Path) -> None:
    """The end of the lock is waited for."""
    with hold(output, {"session": "s-1"}):
        async with watching(output) as client:
            await ends(client)
            await asyncio.sleep(3)
            assert (tasks(output), (await client.get("/v1/runs/r-1"))["warnings"][1:]) == ([0, 1], [])


@pytest.mark.parametrize("about", [{"version": 1, "run": "r-2"}, {"version": 1, "run": "r-1", "mode": "observe"}])
async def test_files_of_another_run_and_of_one_that_was_observed_rest(output: Path, about: dict[str, Any]) -> None:
    """Although the collector knows rows that lie wrong."""
    output.with_name("x_rollcall.json").write_text(json.dumps(about))
    async with watching(output) as client:
        await ends(client)
        await asyncio.sleep(3)
    assert tasks(output) == [0, 1]


async def test_what_cannot_be_moved_is_a_warning_of_the_run(output: Path) -> None:
    """And the collector goes on."""
    os.link(output, output.with_name("other-name.jsonl"))
    async with watching(output) as client:
        await ends(client)
        warnings: list[str] = []
        async with asyncio.timeout(30):
            while "could not be moved" not in str(warnings):
                await asyncio.sleep(0.1)
                warnings = (await client.get("/v1/runs/r-1"))["warnings"]
        assert "hard links" in warnings[-1]
        assert "could not be moved" in (await client.call("GET", "/")).text
        assert (await client.get("/readyz")) == {"status": "ready"}
    assert tasks(output) == [0, 1]


async def test_without_the_setting_no_file_is_touched(output: Path) -> None:
    """It is off by default."""
    assert CollectorSettings().results is None
    async with running(output.parent / "x.sqlite3") as client:
        await client.session(output=str(output))
        await client.sends(begun("d-1", "1-0"), ended("d-1"), tag("d-1"))
        await ends(client)
        await asyncio.sleep(3)
    assert tasks(output) == [0, 1]


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("/data/results/one/x.jsonl", "one/x.jsonl"),
        ("{folder}/one/x.jsonl", "one/x.jsonl"),
        ("/data/results/../secret.jsonl", None),
        ("/data/resultsfoo/x.jsonl", None),
        ("/elsewhere/x.jsonl", None),
        ("one/x.jsonl", None),
        ("/data/results/away/x.jsonl", None),
        ("/data/results/linked.jsonl", None),
        ("/data/results/inner.jsonl", "inner.jsonl"),
    ],
)
def test_only_what_lies_in_the_folder_is_found(output: Path, named: str, found: str | None) -> None:
    """Links are followed to where they lead: a folder, the output itself, a file beside it."""
    folder, outside = output.parent.parent, output.parent.parent.parent
    (folder / "away").symlink_to(outside)
    (folder / "linked_failures.jsonl").symlink_to(outside / "x.jsonl")
    (folder / "inner.jsonl").symlink_to(output)
    expected = None if found is None else folder / found
    assert Folder(folder, SEEN_AS).find(named.replace("{folder}", str(folder))) == expected


@pytest.mark.parametrize("given", [{"results": "/nowhere/at/all"}, {"results_seen_as": "results"}])
def test_a_wrong_folder_is_refused_at_the_start(given: dict[str, str]) -> None:
    """With its cure."""
    with pytest.raises(ValidationError, match=r"not a folder; mount|not an absolute path; write it"):
        CollectorSettings(**given)  # type: ignore[arg-type]  # as flags and variables come
