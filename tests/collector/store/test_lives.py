"""Whatever happens to a run: its accounts balance, and each attempt has one row at the most, where it belongs."""

from typing import Any

from collector_events import T0, not_inspected, verified
from collector_histories import STEPS, Step, events_of, new_run
from collector_lives import LIVES, Life
from collector_store import Store
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rollcall_collector.contract.exchange import DispatchBegun, Event, Recovered, Tag

FIXTURE = HealthCheck.function_scoped_fixture
SHARED = settings(max_examples=20, deadline=None, suppress_health_check=[FIXTURE, HealthCheck.too_slow])

Doings = list[tuple[str, int, int]]


def everything(store: Store, run: str) -> Any:
    """All that the store says of a run, but where its rows lie, and the attempts, which are the rows of that moment."""
    status = store.reader.status(run, T0)
    shown = [store.rollout(found["id"], run) for found in store.reader.rollouts(run, None, None, 100, 0, T0)]
    for found in shown:
        del found["attempt"]
    tags = [sorted(str(tag) for each in found.pop("dispatches") for tag in each["tags"]) for found in shown]
    return status["totals"], status["benchmarks"], shown, tags, list(store.reader.failures(run))


@SHARED
@given(LIVES)
def test_the_accounts_balance_at_every_moment_of_a_runs_life(shared_store: Store, doings: Doings) -> None:
    """expected = succeeded + failed + omitted + running + missing; each failed rollout has its row."""
    life = Life(shared_store, new_run())
    life.starts()
    life.balances()
    for doing in doings:
        life.does(*doing)
        life.balances()
    life.lies_where_it_belongs()
    life.balances()


@SHARED
@given(LIVES, st.integers(0, 24), st.integers(0, 24))
def test_batches_that_are_sent_again_change_nothing(
    shared_store: Store, doings: Doings, first: int, second: int
) -> None:
    """Neither states nor rows nor moves, whatever has been done in between."""
    life = Life(shared_store, new_run())
    life.starts()
    for doing in doings:
        life.does(*doing)
    before = everything(shared_store, life.run), shared_store.reader.moves(life.run)
    life.is_sent_again(first, 0)
    life.is_sent_again(second, 0)
    assert (everything(shared_store, life.run), shared_store.reader.moves(life.run)) == before


@SHARED
@given(LIVES, LIVES.map(lambda doings: [each for each in doings if each[0] == "is_reapplied"]))
def test_policies_there_and_back_leave_what_was_there(shared_store: Store, doings: Doings, others: Doings) -> None:
    """Only the policy in force counts, not those that were tried before."""
    life = Life(shared_store, new_run())
    life.starts()
    for doing in doings:
        life.does(*doing)
    life.is_reapplied(0, 0)
    before = everything(shared_store, life.run), shared_store.reader.moves(life.run)
    for doing in others:
        life.does(*doing)
    life.is_reapplied(0, 0)
    assert (everything(shared_store, life.run), shared_store.reader.moves(life.run)) == before


def told(store: Store, run: str, mine: list[Event], theirs: list[Event], turns: list[bool]) -> None:
    """Two senders' events, each in its order; the turns say whose is next."""
    waiting = {f"{run}-1": [*mine], f"{run}-2": [*theirs]}
    order = [f"{run}-{1 + turn}" for turn in turns] + [f"{run}-1"] * len(mine) + [f"{run}-2"] * len(theirs)
    for sender in order:
        if waiting[sender]:
            store.sends(waiting[sender].pop(0), sender=sender)


def with_additions(event: Event) -> list[Event]:
    """A tag is followed by what a proxy may tell beside it."""
    dispatch = event.dispatch if isinstance(event, Tag) else None
    return [event, verified(dispatch), not_inspected(dispatch)] if dispatch and event.what == "timeout" else [event]  # type: ignore[union-attr]


@SHARED
@given(STEPS, st.lists(st.booleans(), max_size=30))
def test_two_senders_agree_in_the_end_however_their_events_interleave(
    shared_store: Store, second_store: Store, steps: list[Step], turns: list[bool]
) -> None:
    """One proxy tells of the dispatches, the other of calls made on their behalf, maybe before it can know of them."""
    run = new_run()
    events = events_of(run, steps)
    ended = [event for event in events if not isinstance(event, Tag | Recovered)]
    theirs = [each for event in events if isinstance(event, Tag | Recovered) for each in with_additions(event)]
    for store, order in ((shared_store, [False] * len(ended)), (second_store, turns)):
        store.session(f"{run}-s", run)
        told(store, run, ended, theirs, order)
        store.moved(run, **store.moves(run))
    assert any(isinstance(event, DispatchBegun) for event in ended) or not theirs
    assert everything(shared_store, run) == everything(second_store, run)
