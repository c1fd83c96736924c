"""What a run's files say by themselves."""

import hashlib
from pathlib import Path

from result_files import Row, failure, failures, line, main_row, write
from rollcall_collector.results.counting import Files, read


def inputs(output: Path, *tasks: int, **more: object) -> bytes:
    rows: list[Row] = [{"_ng_task_index": task, "_ng_rollout_index": 0} for task in tasks]
    path = output.with_name("rollouts_materialized_inputs.jsonl")
    return write(path, *(row | {"agent_ref": {"name": "simple_agent"}} | more for row in rows))


def keys(*tasks: int) -> set[tuple[int, int, None]]:
    return {(task, 0, None) for task in tasks}


def doubts(files: Files) -> list[str]:
    return [*files.doubts, *(text for texts in files.doubts_about.values() for text in texts)]


def test_a_sound_run_is_counted_by_its_rows(output: Path) -> None:
    """Expected of its benchmark, with the digest that the dispatcher had registered."""
    text = inputs(output, 0, 1, 2)
    write(output, main_row(0))
    write(failures(output), failure(1), failure(1))
    found = read(output, "r-1")
    assert (set(found.expected), set(found.expected.values())) == (keys(0, 1, 2), {"simple_agent"})
    assert (found.results, found.failures, doubts(found)) == (keys(0), keys(1), [])
    assert found.digest == f"sha256:{hashlib.sha256(text).hexdigest()}"


def test_the_environment_server_of_a_row_is_part_of_its_benchmark(output: Path) -> None:
    """As nemo_gym 0.7 names it."""
    inputs(output, 0, _ng_environment_server="env")
    write(output, main_row(0))
    found = read(output, "r-1")
    assert (set(found.expected.values()), found.results) == ({"env:simple_agent"}, keys(0))


def test_failure_rows_of_another_run_are_none_of_this_one(output: Path) -> None:
    """An old failures file; a row that names no run is this one's."""
    inputs(output, 0, 1)
    write(output)
    other = failure(0)
    other["_rollcall"]["run"] = "r-0"
    write(failures(output), other, failure(1))
    found = read(output, "r-1")
    assert (found.failures, doubts(found)) == (keys(1), [])
    assert read(output, None).failures == keys(0, 1), "where nothing says which run it is, all rows are its"


def test_files_that_are_missing_are_doubts(output: Path) -> None:
    """No failures file is sound: nothing has failed."""
    assert doubts(read(output, "r-1")) == [
        "rollouts_materialized_inputs.jsonl is missing: what is expected is not known from the files",
        "rollouts.jsonl is missing",
    ]


def test_torn_and_unreadable_lines_are_doubts(output: Path) -> None:
    """The rows around them count."""
    inputs(output, 0, 1, 2)
    write(output, main_row(0), b"no row\n", main_row(1), line(main_row(2))[:-5])
    write(failures(output), b'{"torn')
    found = read(output, "r-1")
    assert found.results == keys(0, 1)
    assert found.doubts == [
        "rollouts.jsonl: its last line is torn",
        "rollouts.jsonl: 1 lines cannot be read",
        "rollouts_failures.jsonl: its last line is torn",
    ]


def test_rows_of_no_rollout_of_this_run_are_a_doubt(output: Path) -> None:
    """Another task, another agent, no index at all; none of them makes its rollout succeed."""
    inputs(output, 0, 1)
    write(output, main_row(0, agent_ref={"name": "other"}), main_row(7), {"reward": 1.0}, main_row(1), main_row(1))
    found = read(output, "r-1")
    assert found.results == keys(1)
    assert found.doubts == ["rollouts.jsonl: 2 rows of no rollout of this run"]
    assert found.doubts_about == {
        "simple_agent": [
            "rollouts.jsonl: 1 rows too many of rollouts that have one",
            "rollouts.jsonl: 1 rows of no rollout of this run",
        ]
    }
