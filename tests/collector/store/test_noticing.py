"""A notice is in one collector's hands at a time, is tried a few times, and is told once."""

from functools import partial

from collector_events import T0
from collector_store import Store
from rollcall_collector.store.hearing import Moment
from rollcall_collector.store.noticing import (
    IN_HAND_S,
    TRIES,
    Watched,
    note_failed,
    note_sent,
    over_with,
    take,
    watched_runs,
)

ONE = ("r-1", "run.ended", 1)


def taken(store: Store, now: float) -> int | None:
    return store.does(partial(take, run=ONE[0], event=ONE[1], number=ONE[2], now=now))


def is_over(store: Store) -> bool:
    return store.does(lambda connection: ONE[1:] in over_with(connection, "r-1"))


def test_what_one_has_in_hand_no_other_gets_until_it_has_died(store: Store) -> None:
    """A collector that was killed in a try is followed by another."""
    assert [taken(store, T0), taken(store, T0 + IN_HAND_S - 1), taken(store, T0 + IN_HAND_S)] == [1, None, 2]


def test_a_try_that_has_failed_is_repeated_when_it_is_due(store: Store) -> None:
    taken(store, T0)
    store.does(lambda connection: note_failed(connection, *ONE, next_at=T0 + 3))
    assert [taken(store, T0 + 2), taken(store, T0 + 3)] == [None, 2]


def test_what_was_told_is_never_told_again(store: Store) -> None:
    taken(store, T0)
    assert not is_over(store)
    store.does(lambda connection: note_sent(connection, *ONE, now=T0 + 1))
    assert (is_over(store), taken(store, T0 + 10**6)) == (True, None)


def test_after_some_tries_it_is_given_up(store: Store) -> None:
    tries = [taken(store, T0 + number * IN_HAND_S) for number in range(TRIES + 2)]
    assert (tries, is_over(store)) == ([*range(1, TRIES + 1), None, None], True)


def test_the_runs_that_may_have_something_to_tell(store: Store) -> None:
    """Those of late, with their sessions, and whether one lives; a reverification is none of a run's own sessions."""
    store.beats(now=T0 + 5, ended=True)
    store.session("s-2", "r-2", T0 + 9)
    store.session("s-3", "r-1", T0 + 9, mode="reverify")
    found = store.does(lambda connection: watched_runs(connection, Moment(T0 + 9, T0), T0 - 1, ["reverify"]))
    assert sorted(found, key=lambda each: each.run) == [Watched("r-1", 1, False), Watched("r-2", 1, True)]
    assert store.does(lambda connection: watched_runs(connection, Moment(T0 + 9, T0), T0 + 6, ())) != []
    late = store.does(lambda connection: watched_runs(connection, Moment(T0 + 9, T0), T0 + 6, ["reverify"]))
    assert [each.run for each in late] == ["r-2"]
