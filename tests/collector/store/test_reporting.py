"""A proxy that may know more than it has told withholds metrics, and one that has told all does not."""

import pytest
from collector_events import T0, begun, ended
from collector_store import Store
from rollcall_collector.contract.exchange import ProxyGone, ProxyHeard


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
