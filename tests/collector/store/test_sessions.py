"""Sessions and expected rollouts: what is running, what is missing, and when a run is known whole."""

import pytest
from collector_events import T0, begun, ended, tag
from collector_store import Store
from rollcall_collector.store.hearing import SESSION_SILENCE_S
from rollcall_collector.store.schema import runs
from rollcall_collector.store.writing import MOST_RUNS, Session, TooManyRunsError, put_expected, put_session
from sqlalchemy import insert


@pytest.mark.parametrize(("silence", "state"), [(SESSION_SILENCE_S, "running"), (SESSION_SILENCE_S + 0.5, "missing")])
def test_a_session_that_was_silent_for_30_s_leaves_its_running_rollouts_missing(
    store: Store, silence: float, state: str
) -> None:
    """In every answer: the counts, the list, the rollout and the run's own state."""
    store.sends(begun())
    now = T0 + silence
    assert store.counts(now=now) == {state: 1}
    assert [found["id"] for found in store.reader.rollouts("r-1", state, None, 10, 0, now)] == ["0-0"]
    assert store.rollout(now=now)["state"] == state
    assert store.reader.status("r-1", now)["state"] == ("running" if state == "running" else "ended")


def test_a_heartbeat_brings_a_silent_session_back(store: Store) -> None:
    """Silence decides nothing for good."""
    store.sends(begun())
    store.beats(now=T0 + 100)
    assert (store.counts(now=T0 + 110), store.counts(now=T0 + 140)) == ({"running": 1}, {"missing": 1})


def test_a_session_that_says_it_has_ended_leaves_its_running_rollouts_missing(store: Store) -> None:
    """At once; those that have a verdict keep it."""
    store.sends(begun("d-1", "0-0"), begun("d-2", "1-0"), ended("d-1"))
    store.beats(ended=True)
    assert store.counts() == {"succeeded": 1, "missing": 1}


def test_only_the_session_of_the_current_dispatch_matters(store: Store) -> None:
    """A resume runs what the ended session had left."""
    store.sends(begun("d-1"))
    store.beats(ended=True)
    store.session("s-2", mode="resume", now=T0 + 60)
    store.sends(begun("d-2", session="s-2"))
    assert store.counts(now=T0 + 70) == {"running": 1}


def test_a_session_that_was_never_put_is_known_from_its_dispatch_and_never_silent(store: Store) -> None:
    """It sends no heartbeats, so their lack says nothing."""
    store.sends(begun(session="s-7", run="r-7"))
    assert store.counts("r-7", now=T0 + 1000) == {"running": 1}


def test_a_session_that_is_put_after_its_first_dispatch_says_what_it_is(store: Store) -> None:
    """The launch finds its run, and from now on its silence counts."""
    store.sends(begun(session="s-7", run="r-7"))
    store.session("s-7", "r-7", launch="l-7", mode="resume")
    (found,) = store.reader.runs(T0, launch="l-7")
    assert (found["run"], found["mode"]) == ("r-7", "resume")
    assert store.counts("r-7", now=T0 + 31) == {"missing": 1}


def test_what_was_seen_so_far_is_not_complete_until_a_dispatcher_asks(store: Store) -> None:
    """Without the materialized inputs nobody knows what is still to come."""
    store.sends(begun(), ended())
    gate = store.reader.gate("r-1", T0)
    assert (gate["complete"], gate["reasons"]) == (False, ["expected is what was seen so far"])
    store.is_asked()
    assert store.reader.gate("r-1", T0)["complete"]


def test_putting_the_same_session_again_does_not_take_the_asking_back(store: Store) -> None:
    """It changes nothing but the heartbeat; a new session does, since it dispatches again."""
    store.sends(begun(), ended())
    store.is_asked()
    store.session(now=T0 + 20)
    assert store.reader.gate("r-1", T0 + 20)["complete"]
    store.session("s-2", mode="resume", now=T0 + 30)
    assert not store.reader.gate("r-1", T0 + 30)["complete"]


def test_expected_rollouts_are_missing_until_they_are_dispatched(store: Store) -> None:
    """The materialized inputs make the run known whole."""
    store.expects(0, 1)
    assert store.counts() == {"missing": 2}
    store.sends(begun(), ended())
    assert store.counts() == {"succeeded": 1, "missing": 1}
    assert store.reader.status("r-1", T0)["expected_source"] == "materialized_inputs"


def test_putting_expected_again_keeps_every_state(store: Store) -> None:
    """And adds only what was not known."""
    store.expects(0, 1, 2)
    store.sends(begun("d-1", "0-0"), begun("d-2", "1-0"), tag("d-1"), ended("d-1"))
    store.expects(0, 1, 2, 3)
    assert store.counts() == {"failed": 1, "running": 1, "missing": 2}


def test_stages_are_rollouts_of_their_own(store: Store) -> None:
    """A dispatch of one stage leaves the other missing."""
    rows = [("math_agent", 0, 0, 0), ("math_agent", 0, 0, 1)]
    store.does(lambda connection: put_expected(connection, "r-1", "inputs", "sha256:0", rows, T0))
    store.sends(begun(rollout="0-0-s1", stage_index=1), ended())
    assert store.counts() == {"succeeded": 1, "missing": 1}


def test_an_environments_benchmark_names_its_agent_too(store: Store) -> None:
    """Both are shown apart, as Gym keys its metrics."""
    store.expects(0, benchmark="env:math_agent")
    (found,) = store.reader.status("r-1", T0)["benchmarks"]
    assert (found["benchmark"], found["agent"], found["environment_server"]) == ("env:math_agent", "math_agent", "env")


def test_a_rollout_that_is_open_for_more_than_10_minutes_shows_as_stalled(store: Store) -> None:
    """While its session lives; the count decides nothing."""
    store.sends(begun("d-1", "0-0"), begun("d-2", "1-0"), ended("d-2"))
    store.beats(now=T0 + 700)
    assert [store.reader.status("r-1", T0 + now)["stalled"] for now in (500, 700, 800)] == [0, 1, 0]
    assert store.counts(now=T0 + 700) == {"running": 1, "succeeded": 1}


def test_a_store_takes_no_run_beyond_its_number(store: Store) -> None:
    """Those that it has go on, and are resumed."""
    many = [{"run": f"r-old-{number}", "created_at": T0} for number in range(MOST_RUNS - 1)]
    store.does(lambda connection: connection.execute(insert(runs), many))
    store.session("s-2", "r-old-7")
    with pytest.raises(TooManyRunsError, match="rollcall prune"):
        store.does(lambda connection: put_session(connection, Session("s-3", "r-new", "fresh"), T0))
