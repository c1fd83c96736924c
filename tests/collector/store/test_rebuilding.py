"""A run that the store has lost is taken from its files."""

import json
from pathlib import Path
from typing import Any

import pytest
from collector_events import T0, begun, ended, tag
from collector_store import Store
from rollcall_collector.contract.exchange import ProxyHeard
from rollcall_collector.contract.policy import Policy, policy_from
from rollcall_collector.results import runfile
from rollcall_collector.results.errors import ResultsError
from rollcall_collector.results.names import failures_path, materialized_path, run_path
from rollcall_collector.store.judging import reapply
from rollcall_collector.store.rebuilding import Rebuilt, rebuild
from rollcall_collector.store.schema import REBUILT
from rollcall_collector.store.writing import accept_rebuilt
from store_accounts import recounted, stored_counts

AGENT = {"agent_ref": {"name": "math_agent"}}


def identity(task: int) -> dict[str, Any]:
    return {"_ng_task_index": task, "_ng_rollout_index": 0, "_ng_attempt_index": 0} | AGENT


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """A run of five: two have succeeded, one has failed by a tool's status, one by its agent; one has no row."""
    path = tmp_path / "rollouts.jsonl"
    tool = tag("d-2", kind="resources", role="tool", server="shell", status=404)
    kept = {name: getattr(tool, name) for name in ("exchange", "call", "server", "kind", "role", "method", "path")}
    kept |= {name: getattr(tool, name) for name in ("what", "status", "started_at", "ended_at", "depth", "owner_by")}
    own = {"run": "r-1", "dispatch": "d-2", "root_cause": {"server": "shell"}, "tags": [kept]}
    failed = identity(2) | {"_ng_failure_class": "agent_run_error"}
    rows = {
        materialized_path(path): [identity(task) for task in range(5)],
        path: [identity(task) | {"reward": 1.0, "response": {"output": []}} for task in (0, 1)],
        failures_path(path): [
            failed | {"_rollcall": own | {"withheld_result": {"reward": 1.0}}},
            identity(3) | {"_ng_failure_class": "sandbox_lost"},
        ],
        run_path(path): [{"version": 1, "run": "r-1"} | {"gate": gate_of(2)}],
    }
    for each, found in rows.items():
        each.write_text("".join(json.dumps(row) + "\n" for row in found))
    return path


def gate_of(succeeded: int, *doubts: str, benchmark: str = "math_agent") -> dict[str, Any]:
    """What stands in a run file once a session has ended."""
    known = {"benchmark": benchmark, "succeeded": succeeded, "reason": ", ".join(["2 failed, 1 missing", *doubts])}
    return {"exit_status": 3, "reasons": [*doubts], "benchmarks": [known]}


def keeps(output: Path, gate: dict[str, Any] | None) -> None:
    run_path(output).write_text(json.dumps({"version": 1, "run": "r-1"} | ({} if gate is None else {"gate": gate})))


def rebuilt(store: Store, output: Path, now: float = T0) -> Rebuilt:
    return store.does(lambda connection: rebuild(connection, output, now))


def test_a_lost_run_is_what_its_files_say(store: Store, output: Path) -> None:
    """Its counts, its failure rows word by word, its root causes and tags."""
    done = rebuilt(store, output)
    assert (done.run, done.expected, done.results, done.failures, done.doubts) == ("r-1", 5, 2, 2, [])
    assert store.counts() == {"succeeded": 2, "failed": 2, "missing": 1}
    written = [json.loads(text) for text in failures_path(output).read_text().splitlines()]
    assert sorted(store.reader.failures("r-1"), key=str) == sorted(written, key=str)
    assert store.rollout("2-0")["root_cause"] == {"server": "shell"}
    assert len(store.rollout("2-0")["dispatches"][0]["tags"]) == 1
    assert stored_counts(store.engine) == recounted(store.engine)


def test_a_rebuilt_run_can_be_judged_again(store: Store, output: Path) -> None:
    """Under a policy that shows tools' statuses to the model, the row comes back."""
    rebuilt(store, output)
    lenient = policy_from(Policy().as_dict() | {"tool_errors": "model_visible_4xx"})
    changed = store.does(lambda connection: reapply(connection, "r-1", lenient))
    assert [(each["id"], each["to"]) for each in changed] == [("2-0", "succeeded")]
    assert store.counts() == {"succeeded": 3, "failed": 1, "missing": 1}


def test_what_the_store_knows_is_left_as_it_is(store: Store, output: Path) -> None:
    """A resume has begun already; and to rebuild twice changes nothing."""
    store.sends(begun("d-9", "0-0"), ended("d-9", "bad"))
    rebuilt(store, output)
    before = store.counts()
    assert before == {"succeeded": 1, "failed": 3, "missing": 1}
    rebuilt(store, output, T0 + 1)
    assert store.counts() == before


def test_a_rebuilt_run_has_ended(store: Store, output: Path) -> None:
    """Nobody is at it until a resume."""
    store.beats(ended=True)
    rebuilt(store, output, T0 + 60)
    status = store.reader.status("r-1", T0 + 61)
    assert (status["state"], status["mode"], status["expected_source"]) == ("ended", REBUILT, "materialized_inputs")


def test_a_rebuilt_run_waits_for_no_proxy(store: Store, output: Path) -> None:
    """What one that is up has yet to tell is of other runs."""
    store.takes_at(T0 + 1, ProxyHeard("a", told_at=T0 - 1))
    rebuilt(store, output, T0 + 2)
    assert store.gate("r-1", now=T0 + 3)["reasons"] == []


def test_a_torn_file_is_a_doubt(store: Store, output: Path) -> None:
    """Its whole rows are taken."""
    with open(output, "a") as file:
        file.write('{"_ng_task_ind')
    assert rebuilt(store, output).doubts == ["rollouts.jsonl: its last line is torn"]
    assert store.counts()["succeeded"] == 2


def test_files_that_do_not_suffice_are_named(store: Store, output: Path) -> None:
    """Without the materialized inputs nobody knows what was expected."""
    materialized_path(output).unlink()
    with pytest.raises(ResultsError, match="nobody knows what was expected; put it back"):
        rebuilt(store, output)


def test_how_far_it_is_is_told(output: Path, store: Store) -> None:
    """Rows of the failures file, then of the results."""
    told: list[int] = []
    store.does(lambda connection: rebuild(connection, output, T0, told.append))
    assert told == [2, 4]


STRAY = "3 unattributed failures at shell"
UNKNOWN = runfile.NOT_KEPT
NO_ANSWER = {"exit_status": 4, "reasons": ["the collector cannot be reached"], "benchmarks": []}


@pytest.mark.parametrize(
    ("gate", "doubts"),
    [
        (gate_of(2), []),
        (gate_of(2, STRAY), [f"before the rebuild: {STRAY}"]),
        (gate_of(3, STRAY), [f"before the rebuild: {STRAY}"]),
        (gate_of(1), [UNKNOWN]),
        (gate_of(2, benchmark="other"), [UNKNOWN]),
        (NO_ANSWER, [UNKNOWN]),
        (None, [UNKNOWN]),
    ],
    ids=["nothing", "stray", "more than are there", "fewer than are there", "another's", "no answer", "none"],
)
def test_what_rows_do_not_tell_withholds(
    store: Store, output: Path, gate: dict[str, Any] | None, doubts: list[str]
) -> None:
    """What the last session's gate doubted, or that none knew of these successes."""
    keeps(output, gate)
    assert rebuilt(store, output).lost == ({"math_agent": doubts} if doubts else {})
    told = store.gate(now=T0 + 1)
    assert told["reasons"] == doubts
    assert told["benchmarks"][0]["reason"] == ", ".join(["2 failed", "1 missing", *doubts])


def test_a_doubt_stays_until_a_person_accepts_it(store: Store, output: Path) -> None:
    """A resume does not end it, nor does a second rebuild."""
    keeps(output, None)
    rebuilt(store, output)
    store.session("s-2", now=T0 + 1)
    store.sends(*(event for task in (2, 3, 4) for event in (begun(f"n-{task}", f"{task}-0"), ended(f"n-{task}"))))
    store.beats("s-2", T0 + 2, ended=True)
    rebuilt(store, output, T0 + 3)
    assert store.gate(now=T0 + 4)["benchmarks"][0]["reason"] == UNKNOWN
    assert store.does(lambda connection: accept_rebuilt(connection, "r-1", "nothing else was on"))
    assert (store.gate(now=T0 + 4)["complete"], store.reader.status("r-1", T0 + 4)["accepted"]) == (
        True,
        "nothing else was on",
    )


def test_failures_alone_are_no_doubt(store: Store, output: Path) -> None:
    """They release nothing."""
    keeps(output, None)
    output.write_text("")
    assert (rebuilt(store, output).lost, store.gate()["reasons"]) == ({}, [])


def test_a_call_without_an_owner_withholds_also_after_a_rebuild(store: Store, output: Path) -> None:
    """The store knows it: what was taken from the files is no later session without one."""
    store.sends(tag(None, "stray", ended_at=T0 + 5))
    store.beats(now=T0 + 10, ended=True)
    rebuilt(store, output, T0 + 20)
    assert store.gate(now=T0 + 30)["reasons"] == ["1 unattributed failure at policy_model"]


def test_a_rebuild_that_takes_nothing_leaves_no_session(store: Store, output: Path) -> None:
    """One more would be told as a resume."""
    store.beats(ended=True)
    rebuilt(store, output, T0 + 1)
    before = store.reader.status("r-1", T0 + 5)
    rebuilt(store, output, T0 + 2)
    assert store.reader.status("r-1", T0 + 5) == before
    assert before["sessions"] == 2
