"""What becomes known of a dispatch besides its tags, before its end and after it."""

from itertools import permutations
from typing import Any

import pytest
from collector_events import ANSWERED, begun, ended, not_inspected, outlived, recovered, tag, verified
from collector_store import Store
from rollcall_collector.contract.exchange import Event
from rollcall_collector.contract.policy import Policy, policy_from
from rollcall_collector.store.applying import apply_events

LAST_WINS = policy_from({"model_errors": "last_wins"})
RESPONSE = {"id": "resp_1"}


def sent_to(store: Store, policy: Policy, *events: Event) -> None:
    """Each event is a batch of its own."""
    for number, event in enumerate(events, 1):
        store.does(lambda connection, n=number, e=event: apply_events(connection, "p-1", n, [e], policy))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize(("at", "state"), [(ANSWERED, "succeeded"), (ANSWERED + 1, "failed")])
def test_a_later_good_call_heals_under_last_wins_if_it_ended_in_time(
    store: Store, order: tuple[int, ...], at: float, state: str
) -> None:
    """Whether it is told before the end or after it."""
    late: list[Event] = [outlived(at=at), ended()]
    sent_to(store, LAST_WINS, begun(), tag(), *(late[each] for each in order))
    assert store.counts() == {state: 1}


def test_a_later_good_call_heals_nothing_by_default(store: Store) -> None:
    """An agent that asked something else has not asked again."""
    store.sends(begun(), tag(), outlived(), ended())
    assert store.counts() == {"failed": 1}


def test_a_later_good_call_heals_the_calls_it_names_and_no_other(store: Store) -> None:
    """Nor those of another dispatch."""
    sent_to(store, LAST_WINS, begun(), tag(), tag(exchange="x-2"), outlived("d-1", "c-x-1"), outlived("d-9"), ended())
    (row,) = store.reader.failures("r-1")
    assert [kept["exchange"] for kept in row["_rollcall"]["tags"]] == ["x-2"]


def test_the_first_good_call_after_a_failure_is_the_one_that_counts(store: Store) -> None:
    """One that came too late takes nothing back."""
    sent_to(store, LAST_WINS, begun(), tag(), outlived(), outlived(at=ANSWERED + 5), ended())
    assert store.counts() == {"succeeded": 1}


def test_tags_of_one_batch_reach_dispatches_that_run_have_ended_and_have_yet_to_begin(store: Store) -> None:
    """Each as if it had come alone: what ended is judged again at once, the others when they end."""
    store.sends(begun("d-1", "0-0"), begun("d-2", "1-0"), ended("d-2"))
    assert store.counts() == {"running": 1, "succeeded": 1}
    tags = [tag(dispatch, exchange=f"x-{dispatch}") for dispatch in ("d-1", "d-2", "d-3")]
    store.sends(*tags)
    assert store.counts() == {"running": 1, "failed": 1}
    store.sends(ended("d-1"))
    store.sends(begun("d-3", "2-0"), ended("d-3"))
    assert store.counts() == {"failed": 3}
    rows = store.reader.failures("r-1")
    assert sorted(kept["exchange"] for row in rows for kept in row["_rollcall"]["tags"]) == ["x-d-1", "x-d-2", "x-d-3"]


def judge_failure(*, answer: dict[str, Any] | None = None) -> list[Event]:
    last = ended(ending="bad", status=500) if answer is None else ended(answer=answer)
    return [tag(role="judge", depth=3), verified(), last]


@pytest.mark.parametrize("order", list(permutations([0, 1, 2])))
def test_a_judges_failure_keeps_the_response_that_was_to_be_judged(store: Store, order: tuple[int, ...]) -> None:
    """However the events come, and although the agent lost the answer."""
    events = judge_failure()
    for each in order:
        store.sends(*([begun()] if each == order[0] else []), events[each])
    (row,) = store.reader.failures("r-1")
    assert (row["_ng_failure_class"], row["response"]) == ("judge_failed", RESPONSE)


def test_the_response_of_the_answer_withheld_comes_first(store: Store) -> None:
    """It is what Gym would have written."""
    store.sends(begun(), *judge_failure(answer={"reward": 0.0, "response": {"id": "resp_2"}}))
    (row,) = store.reader.failures("r-1")
    assert row["response"] == {"id": "resp_2"}


def test_only_a_judges_failure_keeps_a_response(store: Store) -> None:
    """Other rows have none at the top."""
    store.sends(begun(), tag(role="verify"), verified(), ended())
    (row,) = store.reader.failures("r-1")
    assert (row["_rollcall"]["kind"], "response" in row) == ("verifier_error", False)


@pytest.mark.parametrize(
    ("events", "complete"),
    [
        ([not_inspected(), ended()], False),
        ([ended(), not_inspected()], False),
        ([ended(), not_inspected(at=ANSWERED)], False),
        ([ended(), not_inspected(at=ANSWERED + 1)], True),
        ([ended(not_inspected=True)], False),
        ([ended(), not_inspected("d-9")], True),
    ],
)
def test_an_answer_that_was_not_read_withholds_unless_it_came_too_late(
    store: Store, events: list[Event], complete: bool
) -> None:
    """The verdict stays: it is not clean, and it is no failure."""
    store.expects(0)
    store.sends(begun(), *events)
    (benchmark,) = store.gate()["benchmarks"]
    assert store.counts() == {"succeeded": 1}
    assert benchmark["reason"] == ("" if complete else "1 answer not inspected")


def test_what_was_not_read_of_a_replaced_dispatch_withholds_nothing(store: Store) -> None:
    """The later one was read."""
    store.expects(0)
    store.sends(begun("d-1"), not_inspected("d-1"), ended("d-1"), begun("d-2"), ended("d-2"))
    assert store.gate()["complete"]


def killed(exchange: str = "x-9", **fields: Any) -> Any:
    return tag(exchange=exchange, shutdown=True, **fields)


@pytest.mark.parametrize(
    ("tags", "state"),
    [
        ([killed()], "omitted"),
        ([killed(ended_at=ANSWERED + 5)], "succeeded"),
        ([killed(), tag(ended_at=ANSWERED - 1)], "omitted"),
        ([tag(ended_at=ANSWERED - 90), killed()], "failed"),
        ([killed(), recovered(call="c-x-9")], "succeeded"),
    ],
)
def test_what_a_shutdown_killed_is_omitted(store: Store, tags: list[Event], state: str) -> None:
    """What failed before it counts, what failed after it proves nothing, and what recovered is no failure at all."""
    store.sends(begun(), *tags, ended())
    assert store.counts() == {state: 1}


def test_an_omitted_rollout_leaves_no_row_and_uses_up_no_attempt(store: Store) -> None:
    """The killed call is its root cause all the same."""
    ruling = store.sends(begun("d-1"), killed(dispatch="d-1"), ended("d-1"))[-1]
    assert (ruling["state"], ruling["row"], list(store.reader.failures("r-1"))) == ("omitted", None, [])
    assert store.rollout()["root_cause"]["server"] == "policy_model"
    store.sends(begun("d-2"))
    assert (store.rollout()["attempt"], store.moves()) == (0, {})


def test_an_earlier_failure_that_is_told_late_makes_a_failure_of_the_omitted(store: Store) -> None:
    """It was there before the shutdown."""
    store.sends(begun(), killed(), ended())
    store.sends(tag(ended_at=ANSWERED - 90), sender="p-2")
    assert store.counts() == {"failed": 1}


@pytest.mark.parametrize(
    ("early", "state"),
    [([recovered()], "succeeded"), ([outlived()], "succeeded"), ([verified()], "failed"), ([], "failed")],
)
def test_what_another_proxy_tells_before_the_dispatch_is_known_takes_effect_with_it(
    store: Store, early: list[Event], state: str
) -> None:
    """It was faster; what it says creates no rollout by itself."""
    sent_to(store, LAST_WINS, tag(role="judge"), *early)
    assert store.counts() == {}
    store.does(lambda connection: apply_events(connection, "p-2", 1, [begun(), ended()], LAST_WINS))
    assert store.counts() == {state: 1}
    responses = [row.get("response") for row in store.reader.failures("r-1")]
    assert responses == ([] if state == "succeeded" else [RESPONSE if early else None])


def test_what_was_not_read_before_the_dispatch_is_known_withholds_it(store: Store) -> None:
    """Not inspected is not clean, whoever was faster."""
    store.expects(0)
    store.sends(not_inspected(), sender="p-2")
    store.sends(begun(), ended())
    assert store.gate()["benchmarks"][0]["reason"] == "1 answer not inspected"


@pytest.mark.parametrize("placed", ["results", "failures"])
def test_a_shutdown_that_is_told_late_omits_nothing_that_has_a_row(store: Store, placed: str) -> None:
    """A row that stayed would never run again: it counts as failed, and leaves the results."""
    store.sends(begun(), *([] if placed == "results" else [tag()]), ended())
    store.sends(killed(ended_at=ANSWERED - 90), sender="p-2")
    assert store.counts() == {"failed": 1}
    assert store.moves() == ({"to_failures": ["d-1"]} if placed == "results" else {})
