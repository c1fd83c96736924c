"""In which file each row lies: what has to be moved, was moved, verified again, or archived."""

from typing import Any

import pytest
from collector_events import ANSWERED, T0, abandoned, answered, begun, ended, run_tag, tag, verified_again
from collector_store import Store
from rollcall_collector.contract.exchange import CarrierShared


def test_a_late_tag_leaves_a_row_among_the_results(store: Store) -> None:
    """It has to be moved, as the row it has become, with the indices by which it is found; once moved, no more."""
    store.sends(begun(), ended())
    assert store.moves() == {}
    store.sends(tag())
    (move,) = store.reader.moves("r-1")["to_failures"]
    assert (move["dispatch"], move["task_index"], move["rollout_index"], move["agent"]) == ("d-1", 0, 0, "math_agent")
    assert move["row"]["_ng_failure_class"] == "agent_run_error"
    store.moved(to_failures=["d-1"])
    assert store.moves() == {}


def test_what_was_answered_as_failed_needs_no_move(store: Store) -> None:
    """Gym has written the row where it belongs; a tag that comes later changes that no more."""
    store.sends(begun(), tag(), ended())
    store.sends(tag(exchange="x-2"), sender="p-2")
    assert store.moves() == {}


@pytest.mark.parametrize(
    ("said", "moves"),
    [("succeeded", {"to_failures": ["d-1"]}), ("failed", {}), ("omitted", {})],
)
def test_a_proxy_that_answered_by_itself_says_where_the_row_lies(
    store: Store, said: str, moves: dict[str, list[str]]
) -> None:
    """It did not know of a tag of another proxy's."""
    store.sends(begun(), tag(), ended(), answered(said))
    assert (store.counts(), store.moves()) == ({"failed": 1}, moves)


def test_a_success_that_was_answered_as_a_failure_belongs_to_the_results(store: Store) -> None:
    """The proxy did not know that the call had recovered; until it is moved the benchmark is in doubt."""
    store.expects(0)
    store.sends(begun(), ended(), answered("failed"))
    assert (store.counts(), store.moves()) == ({"succeeded": 1}, {"to_results": ["d-1"]})
    assert not store.gate()["complete"]
    store.moved(to_results=["d-1"])
    assert store.gate()["complete"]


def test_moves_are_of_the_rollouts_last_dispatch_alone(store: Store) -> None:
    """A later one has replaced the verdict."""
    store.sends(begun("d-1"), ended("d-1"))
    store.sends(tag("d-1"))
    store.sends(begun("d-2", started_at=T0 + 60), ended("d-2"))
    assert store.moves() == {}


def test_rows_of_another_run_are_never_named(store: Store) -> None:
    """Nor can they be said to have been moved."""
    store.session("s-2", "r-2")
    store.sends(begun(), ended())
    store.sends(tag())
    assert store.moves("r-2") == {}
    store.moved("r-2", to_failures=["d-1", "d-unknown"])
    assert store.moves() == {"to_failures": ["d-1"]}


def attempts(store: Store, number: int, **fields: Any) -> list[int]:
    """The attempt numbers of a rollout that fails again and again."""
    seen = []
    for each in range(number):
        store.sends(
            begun(f"d-{each}", started_at=T0 + each, **fields), tag(f"d-{each}", f"x-{each}"), ended(f"d-{each}")
        )
        seen.append(store.rollout()["attempt"])
    return seen


def test_attempts_are_counted_where_gym_stamps_none(store: Store) -> None:
    """nemo_gym 0.4: as many as there are rows in the failures file."""
    assert attempts(store, 3) == [0, 1, 2]


def test_attempts_are_gyms_where_it_stamps_them(store: Store) -> None:
    """nemo_gym 0.5 on, also where it says 0."""
    stamped = {"_ng_task_index": 0, "_ng_rollout_index": 0, "_ng_attempt_index": 0}
    assert attempts(store, 2, identity=stamped) == [0, 0]


def test_only_rows_in_the_failures_file_are_attempts(store: Store) -> None:
    """None for a dispatch that was omitted, abandoned, or whose failure still lies among the results."""
    store.sends(begun("d-1"), ended("d-1", "no_persist"), begun("d-2"), abandoned("d-2"))
    store.sends(begun("d-3"), ended("d-3"))
    store.sends(tag("d-3"), begun("d-4"))
    assert store.rollout()["attempt"] == 0
    store.moved(to_failures=["d-3"])
    store.sends(ended("d-4"), begun("d-5"))
    assert store.rollout()["attempt"] == 1


def test_a_rollout_that_was_verified_again_has_succeeded_for_good(store: Store) -> None:
    """Its failure is shown no more, its old row is gone from the failures, and nothing is to be moved."""
    store.expects(0)
    store.sends(begun(), tag(role="judge"), ended())
    assert store.heals(0) == 1
    assert (store.counts(), store.moves(), store.gate()["complete"]) == ({"succeeded": 1}, {}, True)
    shown = store.rollout()
    assert (shown["root_cause"], shown["class"], list(store.reader.failures("r-1"))) == (None, None, [])


def test_a_late_tag_does_not_undo_what_was_verified_again(store: Store) -> None:
    """Nor another policy; the tag is kept."""
    store.sends(begun(), tag(role="judge"), ended())
    store.heals(0)
    store.sends(tag(exchange="x-2"))
    assert store.reapplies(context_limit="off") == []
    assert (store.counts(), len(store.rollout()["dispatches"][0]["tags"])) == ({"succeeded": 1}, 2)


@pytest.mark.parametrize("agent", ["other_agent", None])
def test_only_a_rollout_that_is_named_exactly_is_healed(store: Store, agent: str | None) -> None:
    """Of two agents with the same indices none is guessed, and an agent that is not known has none."""
    store.sends(begun(), tag(), ended())
    other = {"agent": "code_agent", "benchmark": "code_agent", "server": "code_agent"}
    store.sends(begun("d-2", **other), tag("d-2", "x-2"), ended("d-2"))
    assert store.heals(0, agent=agent) == 0
    assert store.counts() == {"failed": 2}


@pytest.mark.parametrize("state", ["running", "omitted", "missing"])
def test_what_has_no_row_cannot_be_verified_again(store: Store, state: str) -> None:
    """It stays what it is."""
    store.expects(0)
    if state != "missing":
        store.sends(begun())
    if state == "omitted":
        store.sends(ended(ending="no_persist"))
    assert (store.heals(0), store.counts()) == (0, {state: 1})


def test_a_failure_whose_row_was_archived_is_missing_and_no_attempt(store: Store) -> None:
    """It runs again as if it never had."""
    store.sends(begun("d-1"), tag("d-1"), ended("d-1"))
    assert store.forgets("d-1") == 1
    assert (store.counts(), list(store.reader.failures("r-1"))) == ({"missing": 1}, [])
    store.sends(begun("d-2", started_at=T0 + 60))
    assert (store.counts(), store.rollout()["attempt"]) == ({"running": 1}, 0)


def test_archived_twice_is_archived_once(store: Store) -> None:
    """Neither what is not known, nor what has not failed, nor another run's can be forgotten."""
    store.session("s-2", "r-2")
    store.sends(begun("d-1", "0-0"), tag("d-1"), ended("d-1"), begun("d-2", "1-0"), ended("d-2"))
    assert (store.forgets("d-1", run="r-2"), store.forgets("d-1"), store.forgets("d-1", "d-2", "d-9")) == (0, 1, 0)
    assert store.counts() == {"missing": 1, "succeeded": 1}


def test_nothing_brings_back_what_was_archived(store: Store) -> None:
    """A late tag, a success of its call, another policy, a carrier that turns out to be shared."""
    store.sends(begun(), tag(), tag(exchange="x-2", carrier="trace:1"), ended())
    store.forgets("d-1")
    store.sends(tag(exchange="x-3"), CarrierShared("trace:1", ("d-1",)))
    assert store.reapplies(rules=[{"name": "all", "effect": "no_failure", "status": 500}]) == []
    assert (store.counts(), list(store.reader.failures("r-1"))) == ({"missing": 1}, [])


def test_an_archived_row_of_a_replaced_dispatch_leaves_its_rollout_alone(store: Store) -> None:
    """The later one's verdict stands."""
    store.sends(begun("d-1"), tag("d-1"), ended("d-1"))
    store.sends(begun("d-2", started_at=T0 + 60), ended("d-2", answer_began_at=ANSWERED + 60))
    assert (store.forgets("d-1"), store.counts()) == (1, {"succeeded": 1})


def test_a_carrier_that_is_shared_frees_a_run_that_ended_badly_of_nothing_else(store: Store) -> None:
    """Its own end still speaks."""
    store.sends(begun(), tag(carrier="trace:1"), run_tag(), ended(ending="bad", status=500))
    store.sends(CarrierShared("trace:1", ("d-1",)))
    assert store.counts() == {"failed": 1}
    assert store.rollout()["root_cause"]["role"] == "run"


def test_what_failed_when_it_was_verified_again_is_not_healed(store: Store) -> None:
    """A judge may fail the second time too, and what is said of a dispatch that nobody saw counts for nothing."""
    store.sends(begun(), tag(role="judge"), ended())
    assert store.is_told_healed(0) == 0
    again = tag("d-again-0", "x-again", role="judge", started_at=T0 + 501, ended_at=T0 + 502)
    store.sends(*verified_again(0, again), sender="p-2")
    assert (store.is_told_healed(0), store.counts()) == (0, {"failed": 1})
