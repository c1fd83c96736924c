"""A run judged again under another policy: without a new call, and back again."""

from typing import Any

import pytest
from collector_events import T0, TOOL, begun, ended, outlived, run_tag, tag
from collector_store import Store
from rollcall_collector.contract.policy import Policy

VISIBLE: dict[str, Any] = {"tool_errors": "model_visible_4xx"}
DEFAULT = Policy().as_dict()


def tool(dispatch: str, exchange: str, status: int = 422) -> Any:
    return tag(dispatch, exchange, status=status, **TOOL)


@pytest.fixture
def run(store: Store) -> Store:
    """0-0 failed for a tool's 422, 1-0 for its 500, 2-0 for the model; 3-0 is clean."""
    store.sends(
        *(begun("d-0", "0-0"), tool("d-0", "x-0"), ended("d-0", answer={"reward": 1.0})),
        *(begun("d-1", "1-0"), tool("d-1", "x-1", 500), ended("d-1")),
        *(begun("d-2", "2-0"), tag("d-2", "x-2"), ended("d-2")),
        *(begun("d-3", "3-0"), ended("d-3")),
    )
    store.is_asked()
    return store


def rows(store: Store) -> list[dict[str, Any]]:
    return list(store.reader.failures("r-1"))


def test_only_what_the_other_policy_pardons_changes(run: Store) -> None:
    """And the row of that one belongs to the results from now on."""
    assert run.reapplies(**VISIBLE) == [("0-0", "failed", "succeeded")]
    assert run.counts() == {"succeeded": 2, "failed": 2}
    assert run.moves() == {"to_results": ["d-0"]}
    assert [row["_rollcall"]["dispatch"] for row in rows(run)] == ["d-1", "d-2"]


def test_the_rows_say_the_policy_under_which_they_were_judged_last(run: Store) -> None:
    """As the status does."""
    run.reapplies(**VISIBLE)
    shown = [row["_rollcall"]["policy"]["tool_errors"] for row in rows(run)]
    assert shown == ["model_visible_4xx"] * 2
    assert run.reader.status("r-1", T0)["policy"]["tool_errors"] == "model_visible_4xx"


def test_there_and_back_again_leaves_the_same_rows(run: Store) -> None:
    """With nothing to move."""
    before = rows(run), run.rollout("0-0"), run.counts()
    run.reapplies(**VISIBLE)
    assert run.reapplies(**DEFAULT) == [("0-0", "succeeded", "failed")]
    assert (rows(run), run.rollout("0-0"), run.counts()) == before
    assert run.moves() == {}


def test_a_policy_that_is_applied_twice_changes_nothing_more(run: Store) -> None:
    """The second time no rollout has changed."""
    run.reapplies(**VISIBLE)
    before = rows(run)
    assert (run.reapplies(**VISIBLE), rows(run)) == ([], before)


def test_what_comes_after_is_judged_by_the_runs_own_policy(run: Store) -> None:
    """A late tag and a resume's dispatch; other runs keep the collector's."""
    run.reapplies(**VISIBLE)
    run.sends(tool("d-3", "x-3"))
    run.sends(begun("d-4", "4-0"), tool("d-4", "x-4"), ended("d-4"))
    assert run.counts() == {"succeeded": 3, "failed": 2}
    run.session("s-2", "r-2")
    run.sends(begun("d-5", "0-0", run="r-2", session="s-2"), tool("d-5", "x-5"), ended("d-5"))
    assert run.counts("r-2") == {"failed": 1}


def test_a_row_in_the_wrong_file_withholds_until_it_is_moved(run: Store) -> None:
    """The counts alone would say that all is well."""
    pardons = {"name": "all", "effect": "no_failure", "status": [422, 500]}
    run.reapplies(rules=[pardons])
    assert run.counts() == {"succeeded": 4}
    (withheld,) = run.gate()["benchmarks"]
    assert withheld["reason"] == "3 rows of the results lie in the failures file: rollcall divert"
    run.moved(to_results=["d-0", "d-1", "d-2"])
    assert (run.gate()["complete"], run.gate()["exit_status"]) == (True, 0)


def test_a_stricter_policy_makes_failures_of_successes(store: Store) -> None:
    """Their rows lie in the results and have to leave them."""
    probe = {"role": "other", "path": "/v1/models", "method": "GET", "status": 404}
    store.sends(begun(), tag(**probe), ended())
    assert store.counts() == {"succeeded": 1}
    assert store.reapplies(unknown_route="off") == [("0-0", "succeeded", "failed")]
    assert store.moves() == {"to_failures": ["d-1"]}
    (row,) = store.reader.failures("r-1")
    assert (row["_ng_failure_http_status"], "withheld_result" in row["_rollcall"]) == (404, False)


@pytest.mark.parametrize(
    ("policy", "healed"), [({"model_errors": "last_wins"}, True), ({"model_errors": {"other": "last_wins"}}, False)]
)
def test_what_a_later_call_healed_is_known_afterwards_too(store: Store, policy: dict[str, Any], healed: bool) -> None:
    """The proxy tells it under any policy."""
    store.sends(begun(), tag(), outlived(), ended())
    assert store.counts() == {"failed": 1}
    assert bool(store.reapplies(**policy)) is healed


def test_swallowed_failures_are_found_afterwards(store: Store) -> None:
    """A rollout without any model call while others made some; an empty output with reward 0."""
    store.sends(begun("d-1", "0-0"), ended("d-1"), begun("d-2", "1-0"), ended("d-2", model_calls=2, empty_output=True))
    assert store.reapplies(no_model_call="fail", empty_output="fail") == [
        ("0-0", "succeeded", "failed"),
        ("1-0", "succeeded", "failed"),
    ]
    assert [row["_ng_failure_type"] for row in store.reader.failures("r-1")] == ["no_model_call", "empty_output"]


def test_no_policy_makes_a_result_of_a_run_that_ended_badly(store: Store) -> None:
    """Nor of one whose answer was written nowhere: it has to run again."""
    store.sends(begun("d-1", "0-0"), run_tag("d-1"), ended("d-1", "bad", status=500))
    store.sends(begun("d-2", "1-0"), tag("d-2", shutdown=True), ended("d-2"))
    assert store.counts() == {"failed": 1, "omitted": 1}
    assert store.reapplies(rules=[{"name": "all", "effect": "no_failure", "status": 500}]) == []
    assert store.counts() == {"failed": 1, "omitted": 1}


def test_replaced_dispatches_are_judged_again_and_decide_nothing(run: Store) -> None:
    """Their rows change, the rollout's state is the last one's."""
    run.session("s-2", mode="resume", now=T0 + 60)
    run.sends(begun("d-9", "0-0", session="s-2", started_at=T0 + 70), tag("d-9", "x-9"), ended("d-9"))
    assert run.reapplies(**VISIBLE) == []
    assert run.moves() == {}
    assert run.rollout("0-0")["state"] == "failed"
