"""`rollcall gate --output`: one answer, whoever is asked, and never a better one than the files."""

import json

import pytest
from collector_events import T0, begun, tag
from collector_events import ended as event_ended
from rollcall_collector.contract.policy import Policy
from rollcall_collector.store.applying import apply_events
from rollcall_collector.store.writing import Session, put_session
from rollcall_runner.gating import ONLY_FILES, failures
from runner_world import World, append, read, result, write

WHOLE = {"complete": True, "metrics": "released", "reason": ""}


def about(gate: dict[str, object], *names: str) -> dict[str, object]:
    """What is said of the one benchmark."""
    (benchmark,) = gate["benchmarks"]  # type: ignore[misc]
    return {name: benchmark[name] for name in names or ("complete", "metrics", "reason")}


def ended(world: World, *succeeded: int, expects: tuple[int, ...] = (0, 1)) -> World:
    """A run that has ended, with the gate's answer beside its output."""
    world.expects(*expects)
    world.succeeds(*succeeded)
    world.ends_session()
    world.rollcall("divert")
    return world


def forgets_all(world: World) -> None:
    """The database is gone: the run file is all that there is."""
    world.store.close()
    world.database.unlink()


@pytest.mark.parametrize("failed", [0, 1, 2])
def test_the_answer_is_the_same_live_from_the_database_and_from_the_files(world: World, failed: int) -> None:
    """With nothing failed, one failed, all failed; and it is the collector's own."""
    ended(world, *range(failed, 2))
    for task in range(failed):
        world.fails(task)
    world.rollcall("divert")
    own = world.store.reader.gate("r-1", 0)
    with world.answering():
        live = world.gate()
    stored = world.gate()
    forgets_all(world)
    offline = world.gate()
    names = ("complete", "exit_status", "reasons", "benchmarks")
    assert [{name: each[name] for name in names} for each in (live, stored, offline)] == [
        {name: own[name] for name in names}
    ] * 3
    assert own["exit_status"] == (3 if failed else 0)


def test_the_failures_told_to_ci_are_the_same_from_the_files(world: World) -> None:
    """As from the collector: by the last row of each rollout that has no result."""
    world.expects(0, 1, 2)
    world.fails(0)
    world.fails(1)
    world.succeeds(2)
    world.rollcall("gate", "--junit", str(world.beside(".xml")))
    assert 'message="2 rollouts"' in world.beside(".xml").read_text()
    stored = world.store.reader.groups("r-1", "cause", 9)["groups"]
    names = ("count", "cause", "server", "role", "what", "status", "line", "example")
    assert [{name: each[name] for name in names} for each in stored] == failures(world.output, 9)["groups"]


def test_the_database_is_read_under_the_policy_that_the_run_had(world: World) -> None:
    """The flags of its `rollcall run`, which nobody repeats."""
    world.expects(0, 1)
    world.succeeds(0)
    allowed = Policy(max_failure_rate=0.5)
    events = [begun("d-1", "1-0"), tag("d-1"), event_ended("d-1")]
    session = Session(session="s-1", run="r-1", mode="fresh", output=str(world.output))
    world.store.does(lambda connection: put_session(connection, session, T0, allowed))
    world.store.does(lambda connection: apply_events(connection, "p-2", 1, events, allowed))
    world.ends_session()
    assert about(world.gate(), "metrics", "failed") == {"metrics": "released", "failed": 1}


def test_an_omitted_rollout_is_still_omitted_offline(world: World) -> None:
    """The files have no row of it, as of a missing one."""
    world.expects(0, 1)
    world.succeeds(0)
    world.ends(1, ending="no_persist")
    world.ends_session()
    world.rollcall("divert")
    forgets_all(world)
    assert about(world.gate(), "succeeded", "omitted", "missing") == {"succeeded": 1, "omitted": 1, "missing": 0}


@pytest.fixture(params=["database", "files"])
def whole(world: World, request: pytest.FixtureRequest) -> World:
    """A complete run whose verdicts come from the database, or from the run file alone."""
    ended(world, 0, 1)
    if request.param == "files":
        forgets_all(world)
    return world


def test_a_complete_run_is_0(whole: World) -> None:
    """With its files whole."""
    gate = whole.gate()
    assert (gate["exit_status"], gate["complete"], about(gate)) == (0, True, WHOLE)


def test_a_main_file_that_is_gone_leaves_nothing_complete(whole: World) -> None:
    """The verdicts may be as good as they like."""
    whole.output.unlink()
    gate = whole.gate()
    assert (gate["exit_status"], about(gate, "succeeded", "missing")) == (3, {"succeeded": 0, "missing": 2})
    assert "rollouts.jsonl is missing" in str(about(gate)["reason"])


def test_a_row_that_is_gone_makes_its_rollout_missing(whole: World) -> None:
    """The reason says so."""
    write(whole.output, result(0))
    gate = whole.gate()
    assert (gate["exit_status"], gate["complete"]) == (3, False)
    assert about(gate, "succeeded", "missing") == {"succeeded": 1, "missing": 1}
    assert str(about(gate)["reason"]).startswith("1 missing, ")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (b'{"torn', "rollouts.jsonl: its last line is torn"),
        (b"no row\n", "rollouts.jsonl: 1 lines cannot be read"),
        (json.dumps(result(7)).encode() + b"\n", "rollouts.jsonl: 1 rows of no rollout of this run"),
        (json.dumps(result(1)).encode() + b"\n", "rollouts.jsonl: 1 rows too many of rollouts that have one"),
    ],
)
def test_what_is_wrong_with_the_main_file_withholds_and_is_said(whole: World, more: bytes, reason: str) -> None:
    """All rows are there, and nothing is released."""
    with whole.output.open("ab") as file:
        file.write(more)
    gate = whole.gate()
    assert (gate["exit_status"], about(gate)) == (3, {"complete": True, "metrics": "withheld", "reason": reason})
    assert (gate["complete"], gate["reasons"]) == (False, [reason])


def test_inputs_that_are_gone_leave_nothing_complete(whole: World) -> None:
    """What is expected could not be checked."""
    whole.beside("_materialized_inputs.jsonl").unlink()
    gate = whole.gate()
    assert (gate["exit_status"], about(gate, "metrics")) == (3, {"metrics": "withheld"})


def test_inputs_of_another_run_leave_nothing_complete(whole: World) -> None:
    """More rollouts than were known, or others than the digest in the run file is of."""
    path = whole.beside("_rollcall.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"inputs_digest": "sha256:0"}))
    assert "the materialized inputs have changed" in str(about(whole.gate())["reason"])
    append(whole.beside("_materialized_inputs.jsonl"), result(2))
    assert about(whole.gate(), "expected", "missing") in ({"expected": 3, "missing": 1}, {"expected": 3, "missing": 0})
    assert whole.gate()["exit_status"] == 3


def test_a_benchmark_that_the_verdicts_do_not_know_is_not_complete(whole: World) -> None:
    """Although its row lies there."""
    other = {"agent_ref": {"name": "other_agent"}}
    append(whole.beside("_materialized_inputs.jsonl"), result(5, **other))
    append(whole.output, result(5, **other))
    gate = whole.gate()
    benchmarks = {each["benchmark"]: each["metrics"] for each in gate["benchmarks"]}
    assert (gate["exit_status"], benchmarks["other_agent"]) == (3, "withheld")


def test_a_row_among_the_results_of_a_failed_rollout_is_said(world: World) -> None:
    """With the command that moves it."""
    ended(world, 0, 1)
    world.is_late(1)
    gate = world.gate()
    assert (gate["exit_status"], about(gate, "failed", "succeeded")) == (3, {"failed": 1, "succeeded": 1})
    assert "1 rows of rollouts that did not succeed lie among the results: rollcall divert" in gate["reasons"]


def test_files_alone_are_never_complete(world: World) -> None:
    """They do not say what was unattributed or not inspected."""
    world.expects(0, 1)
    world.succeeds(0, 1)
    forgets_all(world)
    gate = world.gate()
    expected = {"complete": True, "metrics": "withheld", "reason": ONLY_FILES}
    assert (gate["exit_status"], gate["complete"], about(gate)) == (3, False, expected)


def test_rows_of_an_older_runs_failures_are_no_failures_of_this_one(world: World) -> None:
    """An old failures file beside a fresh run."""
    world.expects(0, 1)
    world.succeeds(0)
    write(world.failures, {"_ng_task_index": 1, "_ng_rollout_index": 0, "_rollcall": {"run": "r-0", "dispatch": "d"}})
    forgets_all(world)
    assert about(world.gate(), "failed", "missing") == {"failed": 0, "missing": 1}


def test_a_session_that_is_on_is_running_and_no_more(world: World) -> None:
    """A rollout that has not ended yet."""
    world.expects(0, 1)
    world.succeeds(0)
    world.store.sends(begun("d-1", "1-0"))
    world.is_alive()
    gate = world.gate()
    assert (gate["exit_status"], about(gate, "running", "missing")) == (3, {"running": 1, "missing": 0})


def test_a_gate_that_could_not_be_asked_stays_4_offline(world: World) -> None:
    """Nothing may be assumed complete, whatever the files hold."""
    ended(world, 0, 1)
    path = world.beside("_rollcall.json")
    unknown = {"complete": False, "exit_status": 4, "reasons": ["the proxy went away"], "benchmarks": []}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"gate": unknown}))
    forgets_all(world)
    gate = world.gate()
    assert (gate["exit_status"], about(gate, "metrics", "reason")) == (
        4,
        {"metrics": "withheld", "reason": "the proxy went away"},
    )


def test_a_run_that_expected_nothing_is_5(world: World) -> None:
    """No rollout at all."""
    write(world.beside("_materialized_inputs.jsonl"))
    assert world.gate()["exit_status"] == 5


def test_a_released_run_with_a_failure_is_3_and_keeps_its_coverage(world: World) -> None:
    """By its own policy; until the files say otherwise."""
    world.expects(0, 1)
    world.succeeds(0)
    world.fails(1)
    world.ends_session()
    world.rollcall("divert", "--reapply", "--max-failure-rate", "0.5")
    gate = world.gate()
    assert (gate["exit_status"], about(gate, "metrics", "reason")) == (3, {"metrics": "released", "reason": ""})
    write(world.output)
    assert about(world.gate(), "metrics", "missing") == {"metrics": "withheld", "missing": 1}


def test_an_output_where_nothing_is_is_wrong_use(world: World) -> None:
    """As are a run and an output at once."""
    world.output = world.output.with_name("other.jsonl")
    assert world.rollcall("gate")[0] == 2
    status, _, said = world.rollcall("gate", "r-1")
    assert (status, "give one of them" in said) == (2, True)


def test_the_answer_is_shown_as_a_table(world: World) -> None:
    """With the reason below it."""
    ended(world, 0)
    world.fails(1, tag("d-1", "x-1"))
    status, text, _ = world.rollcall("gate")
    assert (status, "math_agent: metrics withheld: 1 failed" in text) == (3, True)
    assert len(read(world.failures)) == 1
