"""Clocks that are set, and collectors that have just started, end no session that lives."""

from collector_events import T0, begun
from collector_store import Store
from rollcall_collector.contract.policy import Policy
from rollcall_collector.store import Reader
from rollcall_collector.store.hearing import SESSION_SILENCE_S, Moment, has_ended, steady_clock
from rollcall_collector.store.schema import sessions
from sqlalchemy import select


def states(store: Store, *moments: tuple[float, float]) -> list[str]:
    """The run's state by (now, listening since)."""
    return [Reader(store.engine, Policy(), since).status("r-1", now)["state"] for now, since in moments]


def test_a_collector_that_has_just_started_ends_no_session(store: Store) -> None:
    """It was down for an hour, or its machine's clock was set forward; after the time of silence it may say so."""
    later = T0 + 3600
    assert states(store, (later + 5, later), (later + SESSION_SILENCE_S, later)) == ["running", "ended"]


def test_a_session_that_has_been_silent_for_a_day_has_ended_at_once(store: Store) -> None:
    """Nobody has to wait for what an old run leaves to be done."""
    tomorrow = T0 + 86_500
    assert states(store, (tomorrow + 1, tomorrow)) == ["ended"]


def test_a_heartbeat_from_the_future_keeps_no_session_alive(store: Store) -> None:
    """The clock was set back by an hour while the collector was down."""
    earlier = T0 - 3600
    assert states(store, (earlier + 5, earlier), (earlier + 31, earlier)) == ["running", "ended"]


def test_a_session_that_said_so_has_ended_at_once(store: Store) -> None:
    """However short the collector has listened."""
    store.beats(ended=True)
    assert states(store, (T0 + 1, T0 + 1)) == ["ended"]


def test_a_rollout_of_a_session_that_is_not_known_to_have_ended_runs(store: Store) -> None:
    """In the counts and in the lists."""
    store.sends(begun())
    reader = Reader(store.engine, Policy(), since=T0 + 3600)
    assert reader.status("r-1", T0 + 3605)["totals"]["running"] == 1
    assert len(reader.rollouts("r-1", "running", None, 10, 0, T0 + 3605)) == 1


def test_the_collectors_clock_only_goes_forward(store: Store) -> None:
    """From the database's time, where it has one."""
    clock = steady_clock(store.engine)
    times = [clock() for _ in range(50)]
    assert times == sorted(times)
    with store.engine.connect() as connection:
        connection.execute(select(sessions.c.session).where(has_ended(Moment(times[-1])))).all()
