"""The spans of dispatches, in both databases."""

from typing import Any

from collector_events import ANSWERED, begun, ended, run_spans, span, spans, tag
from collector_store import Store
from rollcall_collector.contract.exchange import CarrierShared


def shown(store: Store, rollout: str = "0-0") -> list[tuple[str, float | None]]:
    """The exchanges of a rollout's only dispatch, and when each ended."""
    (dispatch,) = store.rollout(rollout)["dispatches"]
    return [(each["exchange"], each["ended_at"]) for each in dispatch["spans"]]


def lost(store: Store) -> Any:
    return store.rollout()["dispatches"][0]["spans_lost"]


def test_a_rollout_tells_its_calls(store: Store) -> None:
    """In order of their begin, over all events and senders."""
    store.sends(begun(), ended())
    store.sends(spans("d-1", span("x-2")), sender="q-1")
    store.sends(run_spans(), sender="q-2")
    assert shown(store) == [("run-d-1", ANSWERED + 1), ("x-2", span()[3])]


def test_spans_wait_for_a_dispatch_that_is_not_known_yet(store: Store) -> None:
    """They may come before their dispatch, and make none."""
    store.sends(spans(), sender="q-1")
    assert store.counts() == {}
    store.sends(begun())
    assert shown(store) == [("x-1", span()[3])]


def test_spans_that_are_sent_again_have_no_second_effect(store: Store) -> None:
    """Neither the calls nor the count of those that were lost."""
    store.sends(begun())
    for _ in range(2):
        store.takes(1, spans(lost=3), spans("d-1", span("x-2", None)), sender="q-1")
    assert (len(shown(store)), lost(store)) == (2, 3)


def test_a_call_in_flight_is_shown_until_its_end_is_told(store: Store) -> None:
    """The later record stands in its place."""
    store.sends(begun(), spans("d-1", span("x-1", None)))
    assert shown(store) == [("x-1", None)]
    store.sends(spans("d-1", span("x-1")))
    assert shown(store) == [("x-1", span()[3])]


def test_spans_decide_nothing(store: Store) -> None:
    """A span that says that a call failed is no tag."""
    store.sends(begun(), spans("d-1", span(status=500, what="http_status", call="c-1")), ended())
    assert store.counts() == {"succeeded": 1}


def test_what_a_shared_carrier_has_named_is_shown_no_more(store: Store) -> None:
    """As its tags have no owner any more."""
    store.sends(begun(), spans("d-1", span("x-9"), owner_by="path", carrier="id:0-0"), spans())
    store.sends(CarrierShared("id:0-0", ("d-1", "d-2")))
    assert [exchange for exchange, _ in shown(store)] == ["x-1"]


def test_the_root_cause_is_marked_among_the_calls(store: Store) -> None:
    """By what its tag and the verdict say."""
    store.sends(begun(), tag(), run_spans(), spans("d-1", span(status=500, what="http_status", call="c-x-1")), ended())
    (dispatch,) = store.rollout()["dispatches"]
    assert [each["root_cause"] for each in dispatch["spans"]] == [False, True]


def test_a_call_that_a_rule_pardons_says_so(store: Store) -> None:
    """Under the policy of the run: after another one is applied it is a failure."""
    bad = span(status=404, what="http_status", call="c-x-1")
    route = {"role": "other", "path": "/v1/models"}
    store.sends(begun(), tag(status=404, **route), spans("d-1", bad, **route), ended())
    (call,) = store.rollout()["dispatches"][0]["spans"]
    assert (call["pardoned"], call["root_cause"], store.counts()) == ("unknown_route", False, {"succeeded": 1})
    store.reapplies(unknown_route="off")
    (call,) = store.rollout()["dispatches"][0]["spans"]
    assert (call["pardoned"], call["root_cause"], store.counts()) == (None, True, {"failed": 1})


def test_the_first_calls_are_shown_where_not_all_are_asked_for(store: Store) -> None:
    """With how many there are; none where none is asked for."""
    store.sends(begun(), spans("d-1", *(span(f"x-{number}") for number in range(7))))
    (few,) = store.reader.rollout("r-1", "0-0", 0.0, spans=3)["dispatches"]
    assert (len(few["spans"]), few["spans_known"]) == (3, 7)
    (none,) = store.reader.rollout("r-1", "0-0", 0.0, spans=0)["dispatches"]
    assert none["spans"] == []
