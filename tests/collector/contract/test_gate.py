"""The gate: when metrics are released, and which exit status a run deserves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.gate import Counts, ExitStatus, exit_status, why_withheld, withheld_metrics

COUNTS = st.builds(Counts, *(st.integers(0, 3) for _ in range(5)))


@given(COUNTS)
def test_expected_is_the_sum_of_the_five_states(counts: Counts) -> None:
    """The identity of the accounts, as shown too."""
    shown = counts.as_dict()
    assert shown.pop("expected") == sum(shown.values()) == counts.expected
    assert list(shown) == ["succeeded", "failed", "omitted", "running", "missing"]


@given(st.lists(COUNTS, max_size=4))
def test_sums_of_benchmarks_keep_the_identity(benchmarks: list[Counts]) -> None:
    """The totals are the sums of each state."""
    total = sum(benchmarks, Counts())
    assert total.expected == sum(counts.expected for counts in benchmarks)
    assert total.missing == sum(counts.missing for counts in benchmarks)


@given(COUNTS)
def test_a_benchmark_is_complete_when_all_succeeded_and_there_was_one(counts: Counts) -> None:
    """Then, and only then, its metrics are released."""
    others = counts.failed + counts.omitted + counts.running + counts.missing
    assert counts.complete == (others == 0 and counts.succeeded > 0)
    assert (why_withheld(counts) == "") == counts.complete


@pytest.mark.parametrize(
    ("counts", "doubts", "reason"),
    [
        (Counts(succeeded=2), [], ""),
        (Counts(), [], "nothing expected"),
        (Counts(succeeded=1, failed=2), [], "2 failed"),
        (Counts(1, 2, 3, 4, 5), [], "2 failed, 3 omitted, 4 running, 5 missing"),
        (Counts(succeeded=2), ["1 unattributed failures"], "1 unattributed failures"),
        (Counts(missing=1), ["a torn row"], "1 missing, a torn row"),
    ],
)
def test_the_reason_names_every_state_that_withholds_and_every_doubt(
    counts: Counts, doubts: list[str], reason: str
) -> None:
    """In the contract's words; unknown is not complete."""
    assert why_withheld(counts, doubts) == reason


def test_withheld_metrics_hold_the_counts_and_no_number_of_the_benchmark() -> None:
    """All under Rollcall's own prefix."""
    metrics = withheld_metrics(Counts(succeeded=3, failed=1), "1 failed")
    assert (metrics["rollcall/metrics_withheld"], metrics["rollcall/reason"]) == (1, "1 failed")
    assert (metrics["rollcall/expected"], metrics["rollcall/succeeded"], metrics["rollcall/failed"]) == (4, 3, 1)
    assert all(key.startswith("rollcall/") for key in metrics)


WHOLE, FAILED = Counts(succeeded=2), Counts(succeeded=1, failed=1)


@pytest.mark.parametrize(
    ("benchmarks", "status"),
    [
        ([], ExitStatus.NOTHING_EXPECTED),
        ([(Counts(), False)], ExitStatus.NOTHING_EXPECTED),
        ([(WHOLE, True)], ExitStatus.SUCCEEDED),
        ([(WHOLE, True), (WHOLE, True)], ExitStatus.SUCCEEDED),
        ([(WHOLE, True), (FAILED, False)], ExitStatus.INCOMPLETE),
        ([(FAILED, True)], ExitStatus.INCOMPLETE),  # released with failures
        ([(WHOLE, False)], ExitStatus.INCOMPLETE),  # complete, but something is unknown
        ([(Counts(missing=3), False)], ExitStatus.INCOMPLETE),
        ([(WHOLE, True), (Counts(), False)], ExitStatus.INCOMPLETE),
    ],
)
def test_the_exit_status_is_0_only_when_every_benchmark_is_released_whole(
    benchmarks: list[tuple[Counts, bool]], status: ExitStatus
) -> None:
    """3 when one is not, 5 when nothing was expected."""
    assert exit_status(benchmarks) is status


def test_the_exit_statuses_are_the_contracts_numbers() -> None:
    """Scripts depend on them."""
    assert {status.name: int(status) for status in ExitStatus} == {
        "SUCCEEDED": 0,
        "WRONG_USE": 2,
        "INCOMPLETE": 3,
        "ROLLCALL_FAILED": 4,
        "NOTHING_EXPECTED": 5,
    }
