"""A proxy that may know more than it has told withholds metrics, and one that has told all does not."""

import pytest
from collector_events import T0, begun, ended
from collector_store import Store
from rollcall_collector.contract.exchange import ProxyGone, ProxyHeard
from rollcall_collector.store.reporting import hear, note_told


@pytest.fixture
def run(store: Store) -> Store:
    """One rollout that has succeeded, in a session that began at T0 and was last heard at T0 + 100."""
    store.session()
    store.expects(0)
    store.sends(begun(), ended())
    store.is_asked()
    store.beats(now=T0 + 100)
    return store


def doubts(store: Store, now: float) -> list[str]:
    """What withholds at this time."""
    gate = store.gate(now=now)
    assert (gate["benchmarks"][0]["metrics"] == "released") is (gate["reasons"] == [])
    return [str(each) for each in gate["reasons"]]


def test_batches_in_a_spool_withhold_until_they_are_delivered(run: Store) -> None:
    """Those of one proxy do not hide those of another."""
    run.takes_at(T0 + 99, ProxyHeard("a", spooled=0), ProxyHeard("b", spooled=7))
    assert doubts(run, T0 + 100) == ["7 batches of events wait in the spool of the proxy b"]
    run.takes_at(T0 + 101, ProxyHeard("b", spooled=0))
    assert doubts(run, T0 + 102) == []


def test_a_proxy_that_falls_silent_while_a_session_is_on_withholds_until_it_reports(run: Store) -> None:
    """Three reports of its are missing."""
    run.takes_at(T0 + 80, ProxyHeard("a"))
    assert doubts(run, T0 + 94) == []
    [said] = doubts(run, T0 + 99)
    assert "the proxy a does not report: its spool may hold failures; start it again" in said
    run.takes_at(T0 + 100, ProxyHeard("a"))
    assert doubts(run, T0 + 101) == []


def test_a_proxy_that_has_ended_or_is_gone_withholds_nothing(run: Store) -> None:
    """One said so itself, of the other its successor did, which has delivered what it left."""
    run.takes_at(T0 + 50, ProxyHeard("a", ended=True), ProxyHeard("b", spooled=3))
    run.takes_at(T0 + 60, ProxyGone("b", T0 + 60))
    assert doubts(run, T0 + 100) == []


def test_one_that_ends_with_a_full_spool_withholds(run: Store) -> None:
    """It knows more than it has told; who starts next with its spool delivers that."""
    run.takes_at(T0 + 99, ProxyHeard("a", spooled=2, ended=True))
    assert doubts(run, T0 + 100) == ["2 batches of events wait in the spool of the proxy a"]


def test_what_a_proxy_does_after_the_end_and_did_before_the_start_is_nothing_to_the_run(run: Store) -> None:
    """A run that was released stays so when the machines are switched off."""
    run.takes_at(T0 - 16, ProxyHeard("before"))
    run.takes_at(T0 + 99, ProxyHeard("after"))
    run.beats(now=T0 + 100, ended=True)
    assert doubts(run, T0 + 100_000) == []


def asked(run: Store, now: float, asked_at: float) -> list[str]:
    """What withholds from a dispatcher, which asks at a time and is answered now."""
    return [str(each) for each in run.reader.gate("r-1", now, asked_at=asked_at)["reasons"]]


def test_a_dispatchers_question_waits_for_what_was_known_when_it_was_asked(run: Store) -> None:
    """Who only looks is not kept waiting; a later report without a claim takes none back."""
    run.takes_at(T0 + 99, ProxyHeard("a", told_at=T0 + 98))
    assert (doubts(run, T0 + 101), asked(run, T0 + 101, T0 + 100)) == ([], ["the proxy a has not told all it knows"])
    run.takes_at(T0 + 102, ProxyHeard("a", told_at=T0 + 100.5))
    run.takes_at(T0 + 103, ProxyHeard("a"))
    assert asked(run, T0 + 103, T0 + 100) == []


def test_a_claim_does_not_run_ahead_and_the_proxy_that_asks_has_told(run: Store) -> None:
    """A time that nobody can have given yet is none."""
    run.takes_at(T0 + 99, ProxyHeard("a", told_at=T0 + 500))
    assert asked(run, T0 + 101, T0 + 100) == ["the proxy a has not told all it knows"]
    run.does(lambda connection: note_told(connection, "a", T0 + 101))
    assert asked(run, T0 + 102, T0 + 101) == []


def test_a_claim_that_was_overtaken_on_its_way_takes_none_back(run: Store) -> None:
    """A report was under way when the proxy asked in a dispatcher's name: nobody waits for the next one."""
    run.does(lambda connection: hear(connection, [ProxyHeard("a", told_at=T0 + 97)], T0 + 98))
    run.does(lambda connection: note_told(connection, "a", T0 + 100))
    run.takes_at(T0 + 101, ProxyHeard("a", told_at=T0 + 99))
    assert asked(run, T0 + 101, T0 + 100) == []


def test_of_a_session_that_has_ended_each_proxy_has_to_tell_what_it_knew_then(run: Store) -> None:
    """Also to those who ask later, whatever they ask; what it knows later concerns the session no more."""
    run.takes_at(T0 + 105, ProxyHeard("a", told_at=T0 + 104))
    run.beats(now=T0 + 110, ended=True)
    assert doubts(run, T0 + 111) == ["the proxy a has not told all it knows"]
    run.takes_at(T0 + 112, ProxyHeard("a", told_at=T0 + 110))
    assert (doubts(run, T0 + 113), asked(run, T0 + 900, T0 + 900)) == ([], [])
