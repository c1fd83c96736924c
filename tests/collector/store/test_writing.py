"""What events do to the store, as transcripts: a proxy sends, the counts and rulings come out."""

import pytest
from collector_events import ANSWERED, T0, abandoned, begun, ended, recovered, run_tag, tag
from collector_store import Store
from rollcall_collector.contract.exchange import Recovered
from rollcall_collector.contract.row import cause_of
from rollcall_collector.store.writing import UnknownSessionError


def test_a_rollout_runs_from_its_dispatchs_begin_to_its_end(store: Store) -> None:
    """The ruling says what became of it; without a failure there is no row."""
    assert store.sends(begun()) == []
    assert store.counts() == {"running": 1}
    assert store.sends(ended()) == [{"dispatch": "d-1", "run": "r-1", "state": "succeeded", "row": None, "trace": None}]
    assert store.counts() == {"succeeded": 1}


def test_a_failed_call_fails_its_rollout_and_the_ruling_brings_the_row(store: Store) -> None:
    """The answer withheld is in it, and the root cause is the rollout's too."""
    (ruling,) = store.sends(begun(), tag(), ended(answer={"reward": 0.0}))
    assert (ruling["state"], ruling["row"]["_rollcall"]["withheld_result"]) == ("failed", {"reward": 0.0})
    assert store.rollout()["root_cause"] == cause_of(tag())


def test_a_recovered_call_leaves_its_tag_on_record_and_fails_nothing(store: Store) -> None:
    """The tag is shown as recovered."""
    store.sends(begun(), tag(), recovered(), ended())
    assert store.counts() == {"succeeded": 1}
    assert [kept["recovered"] for kept in store.rollout()["dispatches"][0]["tags"]] == [True]


@pytest.mark.parametrize(
    ("ending", "state"), [("result", "succeeded"), ("marker", "failed"), ("no_persist", "omitted"), ("bad", "failed")]
)
def test_an_ending_decides_where_no_call_failed(store: Store, ending: str, state: str) -> None:
    """Each of the words of an answer has its state."""
    store.sends(begun(), ended(ending=ending))
    assert store.counts() == {state: 1}


def test_a_caller_that_left_for_good_leaves_its_rollout_missing(store: Store) -> None:
    """No verdict and no row."""
    assert store.sends(begun(), abandoned()) == []
    assert store.counts() == {"missing": 1}


def test_a_late_tag_turns_a_success_into_a_failure(store: Store) -> None:
    """It ended in time and was only delivered late, by another proxy."""
    store.sends(begun(), ended())
    store.sends(tag(), sender="p-2")
    assert store.counts() == {"failed": 1}
    assert [row["_ng_failure_type"] for row in store.reader.failures("r-1")] == ["inner_call_failed"]


def test_a_tag_that_ended_after_the_answer_began_changes_nothing(store: Store) -> None:
    """It is kept."""
    store.sends(begun(), ended(), tag(ended_at=ANSWERED + 5))
    assert store.counts() == {"succeeded": 1}
    assert len(store.rollout()["dispatches"][0]["tags"]) == 1


@pytest.mark.parametrize(("ended_at", "state"), [(ANSWERED - 1, "succeeded"), (ANSWERED + 1, "failed")])
def test_a_late_success_heals_its_call_if_it_ended_in_time(store: Store, ended_at: float, state: str) -> None:
    """A clean-up that goes well at its second try heals nothing of what was decided."""
    healed = Recovered("d-1", "c-x-1", ended_at)
    store.sends(begun(), tag(), ended(), healed, tag(exchange="x-9", what="cancelled"))
    assert store.counts() == {state: 1}


def test_a_dispatch_that_was_replaced_decides_nothing(store: Store) -> None:
    """Its tags and its late end stay with it; the rollout is the later dispatch's."""
    store.sends(begun("d-1"), begun("d-2", started_at=T0 + 60), tag("d-1"), ended("d-1"))
    assert store.counts() == {"running": 1}
    store.sends(ended("d-2"), tag("d-1", "x-2"))
    assert store.counts() == {"succeeded": 1}
    assert [len(dispatch["tags"]) for dispatch in store.rollout()["dispatches"]] == [2, 0]


def test_a_resumes_dispatch_replaces_the_verdict(store: Store) -> None:
    """The failed attempt keeps its row; another session's `/run` is always a new dispatch."""
    store.sends(begun("d-1"), run_tag("d-1"), ended("d-1", "bad", status=500))
    store.session("s-2", mode="resume", now=T0 + 200)
    store.sends(begun("d-2", session="s-2", attempt=1), ended("d-2"))
    assert (store.counts(), store.rollout()["attempt"]) == ({"succeeded": 1}, 1)
    assert [row["_rollcall"]["dispatch"] for row in store.reader.failures("r-1")] == ["d-1"]


def test_a_begin_that_is_told_twice_is_one_dispatch(store: Store) -> None:
    """By another sender too, after the end: the verdict stands."""
    store.sends(begun(), ended())
    store.sends(begun(), sender="p-2")
    assert (store.counts(), len(store.rollout()["dispatches"])) == ({"succeeded": 1}, 1)


@pytest.mark.parametrize("owner", [None, "d-unknown"])
def test_a_failed_call_without_a_known_owner_is_unattributed(store: Store, owner: str | None) -> None:
    """It creates no rollout, is counted, and withholds."""
    store.sends(begun(), ended(), tag(owner))
    store.is_asked()
    status = store.reader.status("r-1", T0)
    assert (store.counts(), status["unattributed"], status["complete"]) == ({"succeeded": 1}, 1, False)
    assert status["reasons"] == ["1 unattributed failure at policy_model"]


def test_a_cancelled_call_without_an_owner_withholds_nothing(store: Store) -> None:
    """`cancelled` is recorded and never a failure by itself."""
    store.sends(begun(), ended(), tag(None, what="cancelled"))
    store.is_asked()
    assert store.reader.gate("r-1", T0)["complete"]


def test_a_later_session_without_unattributed_failures_lifts_the_doubt(store: Store) -> None:
    """Those of an earlier session stay on record."""
    store.expects(0)
    store.sends(begun(), ended(), tag(None))
    assert not store.reader.gate("r-1", T0)["complete"]
    store.session("s-2", mode="resume", now=T0 + 200)
    assert store.reader.gate("r-1", T0 + 200)["complete"]


@pytest.mark.parametrize("event", [ended("d-9"), recovered("d-9"), abandoned("d-9")])
def test_events_of_an_unknown_dispatch_create_nothing(store: Store, event: object) -> None:
    """No rollout, no dispatch, no ruling."""
    assert store.sends(event) == []  # type: ignore[arg-type]
    assert store.counts() == {}


def test_a_heartbeat_of_an_unknown_session_is_refused(store: Store) -> None:
    """So that its dispatcher puts it first."""
    with pytest.raises(UnknownSessionError):
        store.beats("s-9")


def test_a_call_that_recovered_after_the_answer_began_has_not_recovered_in_time(store: Store) -> None:
    """Also where its success is told before the end of the dispatch."""
    store.sends(begun(), tag(), Recovered("d-1", "c-x-1", ANSWERED + 1), ended())
    assert store.counts() == {"failed": 1}
