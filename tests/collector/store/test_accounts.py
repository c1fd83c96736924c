"""The accounts of a run balance after every step of any history, and agree with a slow model."""

from collections import Counter

from collector_events import T0
from collector_histories import STEPS, Model, Step, events_of, new_run
from collector_store import Store
from hypothesis import HealthCheck, given, settings
from rollcall_collector.store.hearing import SESSION_SILENCE_S

SHARED = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@SHARED
@given(STEPS)
def test_the_counts_follow_every_event_as_the_model_says(shared_store: Store, steps: list[Step]) -> None:
    """Each known rollout stands in exactly one state."""
    run, model = new_run(), Model()
    shared_store.session(f"{run}-s", run)
    for event in events_of(run, steps):
        shared_store.sends(event, sender=run)
        model.takes(event)
        totals = shared_store.reader.status(run, T0)["totals"]
        assert totals.pop("expected") == len(model.current) == sum(totals.values())
        assert Counter(totals) == model.counts()


@SHARED
@given(STEPS, STEPS.map(lambda steps: sorted({which for _, which, _ in steps})))
def test_expected_rollouts_keep_the_sum_whatever_happens(
    shared_store: Store, steps: list[Step], indexes: list[int]
) -> None:
    """Those never dispatched are missing; the sum is all that were expected or seen."""
    run = new_run()
    shared_store.session(f"{run}-s", run)
    shared_store.expects(*indexes, run=run)
    events = events_of(run, steps)
    shared_store.sends(*events, sender=run)
    seen = {event.rollout for event in events if event.event == "dispatch_begun"}
    totals = shared_store.reader.status(run, T0)["totals"]
    assert totals["expected"] == len(seen | {f"{index}-0" for index in indexes})


@SHARED
@given(STEPS)
def test_lists_counts_and_rows_agree(shared_store: Store, steps: list[Step]) -> None:
    """With the session alive and after it went silent: as many rollouts in each list as the counts say."""
    run = new_run()
    shared_store.session(f"{run}-s", run)
    shared_store.sends(*events_of(run, steps), sender=run)
    for now in (T0, T0 + SESSION_SILENCE_S + 1):
        totals = shared_store.reader.status(run, now)["totals"]
        del totals["expected"]
        assert {state: len(shared_store.reader.rollouts(run, state, None, 100, 0, now)) for state in totals} == totals
    assert totals["running"] == 0
