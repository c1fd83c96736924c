"""The counts that are kept are those of the rollouts, whatever has happened."""

from collections.abc import Iterator

import pytest
from collector_events import begun, ended, run_tag, tag
from collector_histories import STEPS, Step, events_of, new_run
from collector_store import Store
from hypothesis import HealthCheck, given, settings
from rollcall_collector.contract.exchange import Answered, NotInspected
from store_accounts import recounted, stored_counts

SHARED = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def balanced(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each of these tests the counts are looked at."""
    name = "shared_store" if "shared_store" in request.fixturenames else "store"
    kept: Store = request.getfixturevalue(name)
    yield
    assert stored_counts(kept.engine) == recounted(kept.engine)


@SHARED
@given(STEPS)
def test_after_any_history(shared_store: Store, steps: list[Step]) -> None:
    """In one batch."""
    run = new_run()
    shared_store.expects(0, 1, run=run)
    shared_store.sends(*events_of(run, steps), sender=run)


def test_after_facts_of_successes(store: Store) -> None:
    """They are counted while their dispatch is the last, and not any more when another replaces it."""
    store.sends(begun(), NotInspected("d-1", "policy_model", 0.0), ended(masked=True, empty_output=True))
    store.sends(begun("d-2", "1-0"), ended("d-2", unscored=True, model_calls=1))
    (found,) = store.reader.status("r-1", 0)["benchmarks"]
    assert "1 answer not inspected" in found["reason"]
    store.sends(begun("d-3"))
    assert store.reader.status("r-1", 0)["warnings"] == [
        "math_agent: its inner calls were never seen (outer hop only); its failures are not all known",
        "math_agent: 1 rollout left unscored on purpose",
    ]


def test_after_rows_were_moved(store: Store) -> None:
    """A success that was answered as a failure lies in the wrong file until it is moved."""
    store.sends(begun(), ended(), Answered("d-1", "failed"))
    assert store.moves() == {"to_results": ["d-1"]}
    store.moved(to_results=["d-1"])
    assert store.moves() == {}


def test_after_another_policy(store: Store) -> None:
    """Tools' errors that a new policy shows to the model are no failures any more."""
    tool = {"kind": "resources", "role": "tool", "server": "shell", "status": 404}
    store.sends(begun(), tag(**tool), ended(), begun("d-2", "1-0"), tag("d-2", "x-2", **tool), ended("d-2"))
    assert "2 rollouts failed for error statuses of tools alone" in store.reader.status("r-1", 0)["warnings"][0]
    changed = store.reapplies(tool_errors="model_visible_4xx")
    assert changed == [("0-0", "failed", "succeeded"), ("1-0", "failed", "succeeded")]
    assert "math_agent: 2 failed calls are no failure by tool_errors" in store.reader.status("r-1", 0)["warnings"]


def test_after_a_verification_was_done_again_and_a_row_archived(store: Store) -> None:
    """The one has succeeded, the other is missing."""
    store.sends(begun(), run_tag(), ended(ending="bad"), begun("d-2", "1-0"), run_tag("d-2"), ended("d-2", "bad"))
    assert store.heals(0, 9) == 1
    assert store.forgets("d-2", "d-unknown") == 1
    assert store.counts() == {"succeeded": 1, "missing": 1}
