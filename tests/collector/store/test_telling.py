"""A run waits for every proxy that was at work during its last session, and for nobody else."""

from typing import Any

import pytest
from collector_events import T0, begun, ended
from collector_store import Store
from rollcall_collector.store.telling import BEFORE_S, LATE_S, Report, note_report, note_told


def reports(store: Store, now: float, sender: str = "p-1", **said: Any) -> None:
    report = Report(f"http://{sender}:7077", **said)
    store.does(lambda connection: note_report(connection, sender, report, now))


def doubts(store: Store, now: float, asked_at: float | None = None) -> list[str]:
    """What withholds the run's only benchmark."""
    found: list[str] = store.reader.gate("r-1", now, asked_at=asked_at)["reasons"]
    return found


@pytest.fixture
def run(store: Store) -> Store:
    """A run whose one rollout has succeeded; its session is on since T0."""
    store.expects(0)
    store.sends(begun(), ended())
    assert store.reader.gate("r-1", T0)["exit_status"] == 0
    return store


def test_a_question_in_a_dispatchers_name_waits_for_what_was_known_when_it_was_asked(run: Store) -> None:
    """What a proxy told before may not be all."""
    reports(run, T0 + 4, told_at=T0 + 3)
    assert doubts(run, T0 + 5, asked_at=T0 + 4) == ["the proxy at http://p-1:7077 has not told all it knows"]
    assert run.reader.gate("r-1", T0 + 5, asked_at=T0 + 4)["exit_status"] == 3
    reports(run, T0 + 6, told_at=T0 + 4)
    assert doubts(run, T0 + 6, asked_at=T0 + 4) == []


def test_the_proxy_that_asks_has_told(run: Store) -> None:
    reports(run, T0 + 4, told_at=T0 + 3)
    run.does(lambda connection: note_told(connection, "p-1", T0 + 5))
    assert doubts(run, T0 + 6, asked_at=T0 + 5) == []


def test_nobody_who_only_looks_waits_and_a_silent_proxy_is_doubted_after_a_while(run: Store) -> None:
    """It says so once it is silent, or has events that wait."""
    reports(run, T0 + 1, told_at=T0)
    assert doubts(run, T0 + LATE_S) == []
    assert doubts(run, T0 + LATE_S + 2) == ["the proxy at http://p-1:7077 has not been heard of for 11 s"]
    reports(run, T0 + 20, waiting=3)
    assert doubts(run, T0 + 20) == ["the proxy at http://p-1:7077 has not told all: 3 batches of events wait"]


def test_a_claim_never_goes_back_and_never_runs_ahead(run: Store) -> None:
    """Claims of one proxy may come in another order; a time that nobody has given yet is none."""
    reports(run, T0 + 3, told_at=T0 + 3)
    reports(run, T0 + 4, told_at=T0 + 1)
    assert doubts(run, T0 + 5, asked_at=T0 + 3) == []
    reports(run, T0 + 5, told_at=T0 + 500)
    assert len(doubts(run, T0 + 7, asked_at=T0 + 6)) == 1


def test_one_that_has_left_is_not_waited_for_unless_it_leaves_events_behind(run: Store) -> None:
    reports(run, T0 + 1, "p-1", leaves=True)
    reports(run, T0 + 1, "p-2", leaves=True, waiting=2)
    assert doubts(run, T0 + 5, asked_at=T0 + 4) == [
        "the proxy at http://p-2:7077 has not told all: 2 batches of events wait"
    ]


def test_a_successor_stands_in_the_place_of_one_that_died_once_its_spool_is_delivered(run: Store) -> None:
    reports(run, T0 + 1, "p-1", told_at=T0)
    reports(run, T0 + 5, "p-2", waiting=1, instead_of=["p-1"])
    assert len(doubts(run, T0 + 6, asked_at=T0 + 5)) == 2
    reports(run, T0 + 7, "p-2", told_at=T0 + 6, instead_of=["p-1"])
    assert doubts(run, T0 + 7, asked_at=T0 + 6) == []


def test_what_a_proxy_has_lost_is_doubted_until_a_later_session(run: Store) -> None:
    reports(run, T0 + 1, told_at=T0 + 1, lost=1)
    assert doubts(run, T0 + 1) == ["the proxy at http://p-1:7077 has lost 1 batches of events"]
    run.session("s-2", mode="resume", now=T0 + BEFORE_S + 2)
    assert doubts(run, T0 + BEFORE_S + 3) == []


def test_of_a_session_that_has_ended_only_what_was_known_at_its_end_matters(run: Store) -> None:
    """What becomes of the proxies later, and which others come, is nothing to it."""
    reports(run, T0 + 9, "p-1", age_s=60, told_at=T0 + 9)
    reports(run, T0 + 9, "p-2", age_s=2, told_at=T0 + 5)
    run.beats(now=T0 + 8, ended=True)
    reports(run, T0 + 60, "p-3", waiting=4)
    assert doubts(run, T0 + 1000) == ["the proxy at http://p-2:7077 has not been heard of for 991 s"]


def test_a_proxy_that_nobody_heard_of_since_long_before_the_session_is_none_of_its(run: Store) -> None:
    reports(run, T0 - BEFORE_S - 1, "p-1", told_at=T0 - 500)
    reports(run, T0 - BEFORE_S + 1, "p-2", told_at=T0 - 500)
    assert [text.split()[3] for text in doubts(run, T0 + 1)] == ["http://p-2:7077"]
