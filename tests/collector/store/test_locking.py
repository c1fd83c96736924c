"""Transactions on one PostgreSQL that are open at once: which waits for which, and what it then sees."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import pytest
from collector_events import begun, ended
from collector_store import Store
from postgresql_server import Server
from rollcall_collector.contract.exchange import Event
from rollcall_collector.contract.policy import Policy, policy_from
from rollcall_collector.store.applying import apply_events
from sqlalchemy import Connection, text
from store_accounts import recounted, stored_counts

_LIMIT_S = 60


@pytest.fixture
def store(postgresql: Server) -> Iterator[Store]:
    opened = Store(postgresql.new())
    opened.session()
    yield opened
    opened.close()


def told(sender: str, *events: Event, policy: Policy | None = None) -> Callable[[Connection], object]:
    """A sender's first batch."""
    return partial(apply_events, sender=sender, first=1, events=events, policy=policy or Policy())


def overtaken(store: Store, first: Callable[[Connection], object], second: Callable[[Connection], object]) -> bool:
    """The first job is done, and committed only when the second waits for it or is through. Whether it waited."""
    with store.engine.connect() as connection, ThreadPoolExecutor(1) as thread:
        first(connection)
        other = thread.submit(store.does, second)
        waited = _waits(store, other)
        connection.commit()
        other.result(_LIMIT_S)
    return waited


def _waits(store: Store, other: "Future[object]") -> bool:
    """Whether a transaction waits for another; False once the other one is through."""
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    until = time.monotonic() + _LIMIT_S
    while not other.done() and time.monotonic() < until:
        with store.engine.connect() as connection:
            if connection.execute(waiting).scalar():
                return True
        time.sleep(0.01)
    return False


def many(proxy: str, run: str) -> list[Event]:
    """The begin of 100 dispatches, as a proxy names them."""
    return [begun(f"d-{proxy}.{number}", f"{number}-0", run=run, session=f"s-{run}") for number in range(100)]


def test_batches_of_two_proxies_do_not_wait_for_each_other(store: Store) -> None:
    """However many dispatches they are about; of one run they share no more than its counts."""
    assert not overtaken(store, told("p-1", *many("p1", "r-1")), told("p-2", *many("p2", "r-2")))
    assert (store.counts("r-1"), store.counts("r-2")) == ({"running": 100}, {"running": 100})


def test_batches_about_one_proxys_dispatches_take_turns(store: Store) -> None:
    """Another proxy, which one of its rollouts has called, tells of it while it begins."""
    assert overtaken(store, told("p-1", begun("d-p1.1")), told("p-2", ended("d-p1.1")))
    assert store.counts() == {"succeeded": 1}


def test_a_rollout_that_two_tell_of_for_the_first_time_is_counted_once(store: Store) -> None:
    """The second one finds it when it would write it; its dispatch is then the current one."""
    first, second = (begun(f"d-p{number}.1", session=f"s-{number}") for number in (1, 2))
    assert overtaken(store, told("p-1", first, begun("d-p1.2", "1-0")), told("p-2", begun("d-p2.2", "2-0"), second))
    assert store.counts() == {"running": 3}
    assert store.rollout()["dispatches"][-1]["dispatch"] == "d-p2.1"
    assert stored_counts(store.engine) == recounted(store.engine)


def test_a_rollout_that_is_known_changes_hands_between_two(store: Store) -> None:
    """Its row is locked until the first one's changes can be seen."""
    store.expects(0)
    first, second = (begun(f"d-p{number}.1", session=f"s-{number}") for number in (1, 2))
    assert overtaken(store, told("p-1", first, ended("d-p1.1")), told("p-2", second))
    assert store.counts() == {"running": 1}
    assert stored_counts(store.engine) == recounted(store.engine)


@pytest.mark.parametrize("silent_first", [True, False])
def test_a_silent_success_and_the_first_model_call_see_each_other(store: Store, silent_first: bool) -> None:
    """Whichever is committed first: with `no_model_call` on fail the silent one has failed."""
    policy = policy_from({"no_model_call": "fail"})
    silent = told("p-1", begun("d-p1.1"), ended("d-p1.1"), policy=policy)
    calling = told("p-2", begun("d-p2.1", "1-0"), ended("d-p2.1", model_calls=1), policy=policy)
    jobs = (silent, calling) if silent_first else (calling, silent)
    assert overtaken(store, *jobs)
    assert store.counts() == {"failed": 1, "succeeded": 1}
    assert stored_counts(store.engine) == recounted(store.engine)
