"""Metrics that are released with failures: what is tolerated, what is covered, what is left out, and what is added."""

from typing import Any

import pytest
from collector_events import T0, begun, ended, tag
from collector_store import Store
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.gate import Counts, Tolerance, coverage_metrics, why_withheld
from rollcall_collector.contract.policy import policy_from
from rollcall_collector.store import Reader


@pytest.mark.parametrize(
    ("failed", "expected", "rate", "released"),
    [
        (1, 10, 0.1, True),
        (1, 10, 0.0999, False),
        (29, 100, 0.29, True),  # as a product, 28.999999999999996
        (3, 10, 0.3, True),
        (57, 100, 0.57, True),
        (58, 100, 0.57, False),
        (1, 3, 0.33, False),
        (9, 10, 1.0, True),
        (1, 1_000_000, 0.0, False),
    ],
)
def test_failures_up_to_the_share_and_no_more_are_tolerated(
    failed: int, expected: int, rate: float, released: bool
) -> None:
    """Exactly the share is tolerated."""
    reason = why_withheld(Counts(succeeded=expected - failed, failed=failed), tolerance=Tolerance(rate))
    assert reason == ("" if released else f"{failed} failed")


@given(st.integers(1, 2000).flatmap(lambda whole: st.tuples(st.integers(0, whole), st.just(whole))))
def test_a_share_is_tolerated_exactly(part: tuple[int, int]) -> None:
    """As many as the share says, and not one more."""
    failed, whole = part
    assert Tolerance(failed / whole).failed(Counts(succeeded=whole - failed, failed=failed)) == 0
    one_more = Counts(succeeded=whole - failed - 1, failed=failed + 1)
    assert failed == whole or Tolerance(failed / whole).failed(one_more) == failed + 1


@pytest.mark.parametrize(
    ("counts", "tolerance", "reason"),
    [
        (Counts(failed=2), Tolerance(1.0), "nothing succeeded"),
        (Counts(failed=2), Tolerance(0.0, covered=2), ""),
        (Counts(succeeded=1, failed=2), Tolerance(0.0, covered=1), "2 failed"),
        (Counts(succeeded=1, missing=2, omitted=1), Tolerance(missing=True), ""),
        (Counts(succeeded=1, missing=2, omitted=1), Tolerance(1.0), "1 omitted, 2 missing"),
        (Counts(missing=2), Tolerance(missing=True), ""),
        (Counts(succeeded=1, running=1), Tolerance(1.0, missing=True), "1 running"),
        (Counts(), Tolerance(1.0, missing=True), "nothing expected"),
    ],
)
def test_what_the_user_counts_as_zero_withholds_nothing(counts: Counts, tolerance: Tolerance, reason: str) -> None:
    """Failure classes and missing rollouts by Gym's own options; a rollout that still runs always does."""
    assert why_withheld(counts, tolerance=tolerance) == reason


def test_coverage_says_how_much_of_the_benchmark_the_metrics_speak_of() -> None:
    """Beside each count."""
    assert coverage_metrics(Counts(succeeded=8, failed=1, missing=1), 1) == {
        "rollcall/metrics_withheld": 0,
        "rollcall/expected": 10,
        "rollcall/succeeded": 8,
        "rollcall/failed": 1,
        "rollcall/omitted": 0,
        "rollcall/running": 0,
        "rollcall/missing": 1,
        "rollcall/counted_as_zero": 1,
        "rollcall/coverage": 0.8,
    }


def judged(store: Store, *failure_classes: str | None) -> None:
    """A rollout each; None is a success, `judge_failed` a judge's failure, the others the model's."""
    store.expects(*range(len(failure_classes)))
    for number, failure_class in enumerate(failure_classes):
        name, role = f"d-{number}", "judge" if failure_class == "judge_failed" else "model"
        bad = [] if failure_class is None else [tag(name, f"x-{number}", role=role)]
        store.sends(begun(name, f"{number}-0"), *bad, ended(name))


def gate(store: Store, rate: float = 0.0) -> dict[str, Any]:
    return Reader(store.engine, policy_from({"max_failure_rate": rate})).gate("r-1", T0)


def test_a_benchmark_that_is_released_with_failures_leaves_their_rows_out(store: Store) -> None:
    """The exit status still says that it is incomplete."""
    judged(store, None, "model", None, None)
    found = gate(store, 0.25)
    (benchmark,) = found["benchmarks"]
    assert (benchmark["metrics"], benchmark["complete"], found["complete"]) == ("released", False, False)
    assert (found["exit_status"], found["left_out"]) == (3, [[1, 0, None]])
    assert benchmark["coverage_metrics"]["rollcall/coverage"] == 0.75


def test_a_benchmark_that_is_withheld_leaves_nothing_out(store: Store) -> None:
    """Nothing of it is aggregated."""
    judged(store, None, "model")
    found = gate(store, 0.4)
    assert (found["left_out"], found["benchmarks"][0]["coverage_metrics"]) == ([], None)


def test_a_complete_benchmark_has_no_coverage(store: Store) -> None:
    """Nothing is added to its metrics."""
    judged(store, None, None)
    found = gate(store, 0.5)
    assert (found["exit_status"], found["left_out"], found["benchmarks"][0]["coverage_metrics"]) == (0, [], None)


def test_classes_that_are_counted_as_zero_stay_in(store: Store) -> None:
    """A judge's failure is covered, the model's is not."""
    store.session("s-2", mode="resume", now=T0 + 1, counted_as_zero={"classes": ["judge_failed"], "missing": False})
    judged(store, None, "judge_failed", "model")
    assert gate(store)["benchmarks"][0]["reason"] == "2 failed"
    found = gate(store, 0.34)
    assert (found["left_out"], found["benchmarks"][0]["metrics"]) == ([[2, 0, None]], "released")
    assert found["benchmarks"][0]["coverage_metrics"]["rollcall/counted_as_zero"] == 1


def test_covered_failures_alone_release(store: Store) -> None:
    """With status 3: the metrics are the user's choice, complete they are not."""
    store.session("s-2", mode="resume", now=T0 + 1, counted_as_zero={"classes": ["judge_failed"], "missing": True})
    judged(store, None, "judge_failed")
    store.expects(0, 1, 2)
    found = gate(store)
    assert (found["benchmarks"][0]["metrics"], found["exit_status"], found["left_out"]) == ("released", 3, [])


def test_the_last_session_says_what_is_counted_as_zero(store: Store) -> None:
    """A resume without the option takes it back."""
    store.session("s-2", mode="resume", now=T0 + 1, counted_as_zero={"classes": ["judge_failed"], "missing": False})
    judged(store, None, "judge_failed")
    store.session("s-3", mode="resume", now=T0 + 2)
    assert gate(store)["benchmarks"][0]["reason"] == "1 failed"
