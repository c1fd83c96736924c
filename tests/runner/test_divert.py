"""`rollcall divert`: every row of a run lies where its verdict says."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from collector_events import begun, ended, tag
from rollcall_collector.results import diverting, runfile
from rollcall_collector.results.lock import hold
from rollcall_runner.diverting import policy_given
from runner_world import World, append, read, result, tasks, tool_tag, write


@pytest.fixture(params=["collector", "database"])
def asked(world: World, request: pytest.FixtureRequest) -> Iterator[World]:
    """The verdicts come from a collector, or from its database."""
    if request.param == "database":
        yield world
        return
    with world.answering():
        yield world


def state(world: World) -> dict[str, tuple[bytes, int]]:
    """Every file with its time of change, the lock and the database aside."""
    folder = world.output.parent.iterdir()
    files = [path for path in folder if path.suffix in (".jsonl", ".json") or ".torn" in path.name]
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_a_late_failure_moves_its_row_and_a_second_time_nothing_is_done(asked: World) -> None:
    """The result lies whole in the failure row."""
    asked.expects(0, 1, 2)
    asked.succeeds(0, 1, 2)
    asked.is_late(1)
    status, said, _ = asked.rollcall("divert")
    assert (status, tasks(asked.output), tasks(asked.failures)) == (0, [0, 2], [1])
    assert read(asked.failures)[0]["_rollcall"]["withheld_result"] == result(1)
    assert "1 row moved into" in said
    rows = [path.stat().st_mtime_ns for path in (asked.output, asked.failures)]
    assert asked.rollcall("divert")[0] == 0
    assert [path.stat().st_mtime_ns for path in (asked.output, asked.failures)] == rows


def test_a_row_of_a_failed_rollout_is_found_although_nobody_knows_that_it_is_there(asked: World) -> None:
    """Rollcall answered with the failure row, and the results have another one all the same."""
    asked.ends(0, tag("d-0", "x-0"))
    append(asked.output, result(0), result(1))
    assert asked.rollcall("divert")[0] == 0
    assert (tasks(asked.output), [row["_rollcall"]["dispatch"] for row in read(asked.failures)]) == ([1], ["d-0"])


def test_a_row_of_an_agents_own_failure_is_moved_as_the_agent_wrote_it(world: World) -> None:
    """It names no dispatch, and gets its name for the move."""
    own = result(0) | {"_ng_failure_class": "mine"}
    del own["reward"], own["response"]
    world.ends(0, ending="marker", answer=own)
    append(world.output, result(0))
    assert world.rollcall("divert")[0] == 0
    (row,) = read(world.failures)
    assert (row["_ng_failure_class"], row["_rollcall"]["dispatch"], tasks(world.output)) == ("mine", "d-0", [])


def test_another_agents_row_of_the_same_indices_stays(world: World) -> None:
    """It is no row of the rollout that has failed."""
    world.ends(0, tag("d-0", "x-0"))
    append(world.output, result(0, agent_ref={"name": "other"}))
    assert world.rollcall("divert")[0] == 0
    assert (tasks(world.output), world.failures.exists()) == ([0], False)


def test_judging_again_puts_a_withheld_answer_back_untouched(asked: World) -> None:
    """And the other way round, with no new model call."""
    asked.expects(0, 1)
    asked.succeeds(0)
    asked.fails(1, tool_tag("d-1"), answer=result(1))
    status, said, _ = asked.rollcall("divert", "--reapply", "--tool-errors", "model_visible_4xx")
    assert (status, read(asked.output), tasks(asked.failures)) == (0, [result(0), result(1)], [])
    assert "math_agent: 1 rollout failed -> succeeded" in said
    assert f"gym eval aggregate --input-glob {asked.output} --output {asked.output} +merge_shards=false" in said
    assert asked.rollcall("divert", "--reapply", "--tool-errors", "failure")[0] == 0
    assert (tasks(asked.output), tasks(asked.failures)) == ([0], [1])
    assert read(asked.failures)[0]["_rollcall"]["withheld_result"] == result(1)


def test_only_the_rules_that_are_given_change(world: World) -> None:
    """The run's own policy is what they change."""
    world.rollcall("divert", "--reapply", "--tool-errors", "model_visible")
    assert "no verdict changes" in world.rollcall("divert", "--reapply", "--max-failure-rate", "0.5")[1]
    policy = world.store.reader.status("r-1", 0)["policy"]
    assert (policy["tool_errors"], policy["max_failure_rate"]) == ("model_visible", 0.5)


@pytest.mark.parametrize("share", ["1", "0"])
def test_a_policy_that_changes_no_verdict_changes_what_the_files_say_of_the_gate(asked: World, share: str) -> None:
    """The answer without a server is that of the policy in force."""
    asked.expects(0, 1)
    asked.succeeds(0)
    asked.fails(1)
    asked.ends_session()
    asked.rollcall("divert", "--reapply", "--max-failure-rate", "0" if share == "1" else "1")
    asked.rollcall("divert", "--reapply", "--max-failure-rate", share)
    kept = runfile.read(asked.output)["gate"]["benchmarks"][0]["metrics"]
    assert kept == asked.gate()["benchmarks"][0]["metrics"] == ("released" if share == "1" else "withheld")


def test_the_variables_of_a_collector_change_no_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are its settings, not this command's."""
    monkeypatch.setenv("ROLLCALL_COLLECTOR_TOOL_ERRORS", "model_visible")
    assert policy_given({"model_errors": "last_wins"}) == {"model_errors": "last_wins"}


def test_a_dry_run_says_what_would_change_and_touches_nothing(asked: World) -> None:
    """Neither a file nor a verdict."""
    asked.expects(0, 1, 2)
    asked.succeeds(0, 2)
    asked.fails(1, tool_tag("d-1"), answer=result(1))
    asked.is_late(2)
    before = state(asked)
    status, said, _ = asked.rollcall("divert", "--reapply", "--tool-errors", "model_visible", "--dry-run")
    assert (status, state(asked)) == (0, before)
    assert "math_agent: 1 rollout failed -> succeeded" in said
    assert "1 row would be moved into " + str(asked.failures) in said
    assert "1 row would be moved into " + str(asked.output) + "\n" in said
    assert asked.store.rollout("1-0")["state"] == "failed"


def test_a_dry_run_counts_what_the_files_alone_show(world: World) -> None:
    """Without judging again."""
    world.ends(0, tag("d-0", "x-0"))
    append(world.output, result(0))
    assert "1 row would be moved into " + str(world.failures) in world.rollcall("divert", "--dry-run")[1]


def test_nothing_is_moved_while_another_process_has_the_run(world: World) -> None:
    """Wrong use: the run goes on; who has it is named."""
    world.succeeds(0)
    world.is_late(0)
    before = state(world)
    with hold(world.output, {"session": "s-9"}):
        status, _, said = world.rollcall("divert")
    assert (status, state(world)) == (2, before)
    assert "s-9" in said


def test_nothing_is_moved_while_the_collector_hears_from_a_session(asked: World) -> None:
    """Its dispatcher may be on another machine."""
    asked.succeeds(0)
    asked.is_late(0)
    asked.is_alive()
    before = state(asked)
    status, _, said = asked.rollcall("divert")
    assert (status, state(asked)) == (2, before)
    assert "a session of run r-1 is on" in said


@pytest.mark.parametrize(
    ("text", "status", "part"),
    [
        (None, 2, "there is no such file, so the run of"),
        ('{"version": 7, "run": "r-1"}', 4, "of version 7"),
        ("{", 4, "not a run file"),
        ('{"version": 1, "run": "r-9"}', 4, "run r-9 is known neither at http://127.0.0.1:9 nor in sqlite"),
    ],
)
def test_a_run_that_cannot_be_told_is_refused(world: World, text: str | None, status: int, part: str) -> None:
    """With the file or the places that were asked."""
    path = world.beside("_rollcall.json")
    path.unlink() if text is None else path.write_text(text)
    found, said, error = world.rollcall("divert")
    assert (found, said) == (status, "")
    assert part in error
    assert "Traceback" not in error


def test_a_rule_without_reapply_is_wrong_use(world: World) -> None:
    """It would be ignored."""
    status, _, said = world.rollcall("divert", "--tool-errors", "model_visible")
    assert (status, "--reapply" in said) == (2, True)


def test_a_torn_last_line_is_set_beside_although_no_row_moves(world: World) -> None:
    """Said with its place."""
    world.succeeds(0)
    with world.output.open("ab") as file:
        file.write(b'{"torn')
    status, said, _ = world.rollcall("divert")
    assert (status, tasks(world.output)) == (0, [0])
    assert world.beside(".jsonl.torn-1").read_bytes() == b'{"torn'
    assert "rollouts.jsonl.torn-1" in said


def test_a_move_that_was_not_noted_is_noted_by_the_next(world: World) -> None:
    """It was stopped after the files had been changed."""
    world.succeeds(0)
    world.is_late(0)
    moves, failed = world.store.reader.moves("r-1"), world.store.reader.rollouts("r-1", "failed", None, 9, 0, 0)
    diverting.divert(world.output, diverting.wanted("r-1", moves, failed), lambda: [])
    assert world.rollcall("divert")[0] == 0
    assert world.store.reader.moves("r-1") == {"to_failures": [], "to_results": []}
    assert (tasks(world.output), tasks(world.failures)) == ([], [0])


def test_a_row_that_cannot_be_moved_is_said_and_the_status_is_3(world: World) -> None:
    """The failures file has a row of the dispatch that holds another result."""
    world.succeeds(0)
    world.is_late(0)
    row = next(iter(world.store.reader.failures("r-1")))
    append(world.failures, row | {"_rollcall": row["_rollcall"] | {"withheld_result": result(0, reward=0.5)}})
    status, said, _ = world.rollcall("divert")
    assert (status, tasks(world.output)) == (3, [0])
    assert "1 row still in the wrong file" in said


@pytest.mark.parametrize(("withheld", "stays"), [(0, False), (1, True)])
def test_numbers_over_other_rows_are_set_aside(world: World, withheld: int, stays: bool) -> None:
    """An entry that says it is withheld stays true."""
    world.expects(0, 1)
    world.succeeds(0, 1)
    world.is_late(1)
    numbers = {"rollcall/metrics_withheld": 1} if withheld else {"mean/reward": 1.0}
    metrics = world.beside("_aggregate_metrics.json")
    metrics.write_text(json.dumps([{"agent_ref": {"name": "math_agent"}, "agent_metrics": numbers}]))
    said = world.rollcall("divert")[1]
    aside = world.beside("_aggregate_metrics.r-1.old.json")
    assert (metrics.exists(), aside.exists()) == (stays, not stays)
    assert ("the metrics file no longer fits" in said) is not stays


def test_what_the_gate_says_afterwards_is_kept_beside_the_output(world: World) -> None:
    """Files alone give the same answer then."""
    world.expects(0, 1)
    world.succeeds(0, 1)
    world.is_late(1)
    world.ends_session()
    world.rollcall("divert")
    live = world.gate()
    world.store.close()
    world.database.unlink()
    offline = world.gate()
    assert (live["benchmarks"], live["exit_status"]) == (offline["benchmarks"], offline["exit_status"])
    assert live["benchmarks"][0]["reason"] == "1 failed"


def test_rollouts_without_indices_have_no_rows(world: World) -> None:
    """A request of no row of Gym's is let be."""
    world.store.sends(begun("d-9", "0-0", task_index=None, rollout_index=None), tag("d-9"), ended("d-9"))
    write(world.output, result(0))
    assert world.rollcall("divert")[0] == 0
    assert tasks(world.output) == [0]


def test_the_path_of_the_output_may_be_relative(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As people write it."""
    monkeypatch.chdir(world.output.parent)
    world.succeeds(0)
    world.is_late(0)
    world.output = Path("rollouts.jsonl")
    assert world.rollcall("divert")[0] == 0
    assert tasks(world.failures) == [0]
