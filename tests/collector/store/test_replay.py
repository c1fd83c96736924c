"""Each event has its effect once, however often its sender repeats it."""

from typing import Any

from collector_events import ANSWERED, T0, begun, ended, tag
from collector_histories import STEPS, Step, events_of, new_run
from collector_store import Store
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rollcall_collector.contract.exchange import Event


def everything(store: Store, run: str) -> Any:
    """All that the store says of a run."""
    status = store.reader.status(run, T0)
    found = store.reader.rollouts(run, None, None, 100, 0, T0)
    whole = [store.rollout(rollout["id"], run) for rollout in found]
    return status["totals"], whole, list(store.reader.failures(run))


def test_a_batch_that_is_sent_again_has_no_second_effect(store: Store) -> None:
    """Its rulings are given again, for the sender that did not get them."""
    events = (begun(), tag(), ended())
    first = store.takes(1, *events)
    before = everything(store, "r-1")
    assert store.takes(1, *events) == first
    assert everything(store, "r-1") == before


def test_an_old_batch_that_comes_late_does_not_bring_the_past_back(store: Store) -> None:
    """A replayed end of a dispatch is not judged by it again."""
    store.takes(1, begun(), ended())
    store.takes(3, ended(ending="bad", status=500))
    store.takes(2, ended())
    assert store.counts() == {"failed": 1}


def test_the_new_events_of_a_batch_that_overlaps_are_taken_in(store: Store) -> None:
    """Numbers decide, not batches."""
    store.takes(1, begun("d-1", "0-0"), ended("d-1"))
    store.takes(2, ended("d-1"), begun("d-2", "1-0"))
    assert store.counts() == {"succeeded": 1, "running": 1}


def test_senders_number_their_events_apart(store: Store) -> None:
    """The second proxy's first event is new."""
    store.takes(1, begun("d-1", "0-0"), ended("d-1"), sender="p-1")
    store.takes(1, begun("d-2", "1-0"), sender="p-2")
    assert store.counts() == {"succeeded": 1, "running": 1}


def test_a_batch_takes_effect_in_the_order_of_its_events(store: Store) -> None:
    """Of two ends the second stands."""
    (first, second) = store.takes(1, begun(), ended(ending="bad"), ended(answer_began_at=ANSWERED + 9))
    assert (first["state"], second["state"], store.counts()) == ("succeeded", "succeeded", {"succeeded": 1})


def test_an_empty_batch_is_taken_in(store: Store) -> None:
    """It changes nothing."""
    assert (store.takes(1), store.counts()) == ([], {})


def resent(store: Store, run: str, events: list[Event], cuts: list[tuple[int, int]]) -> list[slice]:
    """Send as a proxy does that loses its connection: from any earlier point on, up to any later one, then all.

    What was new in each batch.
    """
    taken, new = 0, []
    for back, ahead in [*cuts, (0, len(events))]:
        first = max(taken - back, 0)
        last = min(first + ahead, len(events))
        if first < last:
            store.takes(first + 1, *events[first:last], sender=run)
        if taken < last:
            new.append(slice(taken, last))
            taken = last
    return new


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS, st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=5))
@example([("begin", 0, 0), ("ended", 0, 0), ("tag", 0, 0), ("begin", 0, 0)], [])
@example([("begin", 0, 0), ("ended", 0, 0), ("tag", 0, 0), ("begin", 0, 0)], [(0, 2), (2, 4)])
def test_any_replay_leaves_what_one_delivery_leaves(
    shared_store: Store, second_store: Store, steps: list[Step], cuts: list[tuple[int, int]]
) -> None:
    """Whatever a sender repeats, the store says the same as after taking in what was new in each batch, once.

    The batches are the same since an end is ruled on with its batch, which decides the file that its row lies in.
    """
    run = new_run()
    events = events_of(run, steps)
    for store in (shared_store, second_store):
        store.session(f"{run}-s", run)
    for new in resent(shared_store, run, events, cuts):
        second_store.takes(new.start + 1, *events[new], sender=run)
    assert everything(shared_store, run) == everything(second_store, run)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
@example([("begin", 0, 0), ("tag", 0, 0), ("tag", 0, 0), ("ended", 0, 0)])
@example([("begin", 0, 0), ("tag", 0, 0), ("recovered", 0, 0), ("ended", 0, 0)])
def test_a_verdict_that_is_given_with_its_batch_is_the_one_that_the_database_gives(
    shared_store: Store, steps: list[Step]
) -> None:
    """Judged again, from what is stored, nothing changes: neither states nor rows."""
    run = new_run()
    shared_store.session(f"{run}-s", run)
    shared_store.takes(1, *events_of(run, steps), sender=run)
    before = everything(shared_store, run)
    assert shared_store.reapplies(run) == []
    assert everything(shared_store, run) == before
