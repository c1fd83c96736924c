"""The arithmetic of the table."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.load.wrk import parsed
from bench.measures import Row, percentile, ratio
from bench.measures.latency import Taken
from bench.table import BEGIN, END, Facts, written

FACTS = Facts(("- commit 1", "- 2 cores", "- load 0"))
LATER = Facts(("- commit 2", "- 2 cores", "- load 1"))
ROW = Row("requests per second", "0.5", "7,000/s", "nginx 9,000", True)


def test_a_ratio_is_the_median_of_each_rounds_own() -> None:
    calm, disturbed = {"a": 100.0, "b": 50.0}, {"a": 10.0, "b": 5.0}
    assert ratio([calm, disturbed, disturbed, {"a": 1.0, "b": 9.0}, calm], "a", "b") == 2.0


def test_a_peer_that_was_left_out_has_no_ratio() -> None:
    assert ratio([{"a": 1.0}], "a", "b") is None


@given(st.lists(st.floats(0, 1e6), min_size=1), st.integers(1, 100))
def test_a_percentile_is_a_value_that_its_share_does_not_exceed(values: list[float], share: int) -> None:
    found = percentile(values, share)
    below = sum(value <= found for value in values)
    assert found in values
    assert 100 * below >= share * len(values)


def test_the_99th_of_a_hundred_is_the_last_but_one() -> None:
    assert percentile([float(number) for number in range(100)], 99) == 98.0


def test_the_scripts_line_is_found_in_what_wrk_prints() -> None:
    result = parsed("Running 2s test\nRequests/sec: 1.0\nbench 500 2000000 3 50\n")
    assert result is not None
    assert (result.rate, result.errors, result.refused) == (250.0, 3, 50)
    assert parsed("unable to connect") is None


def test_the_table_goes_between_its_markers_and_nothing_else_changes() -> None:
    text = f"above\n{BEGIN}\nold\n{END}\nbelow\n"
    new = written(text, [ROW], FACTS)
    assert new.startswith(f"above\n{BEGIN}\n- commit 1\n- 2 cores\n- load 0\n")
    assert new.endswith(f"| requests per second | 0.5 | 7,000/s | nginx 9,000 | yes |\n{END}\nbelow\n")
    assert written(new, [ROW], FACTS) == new


def test_rows_of_a_part_take_the_place_of_those_that_tell_the_same() -> None:
    """Others stay, new ones come last, and the facts say when the part was measured; the last time counts."""
    text = written(f"{BEGIN}\n{END}", [ROW, replace(ROW, what="latency")], FACTS)
    more = [replace(ROW, rollcall="8,000/s"), replace(ROW, what="a | million")]
    for _ in range(2):
        text = written(text, more, LATER, "throughput, million")
    assert text.splitlines()[1:] == [
        *FACTS.lines,
        "- throughput, million alone: commit 2; load 1",
        "",
        "| what | reach | Rollcall | beside it | reached |",
        "| --- | --- | --- | --- | --- |",
        "| requests per second | 0.5 | 8,000/s | nginx 9,000 | yes |",
        "| latency | 0.5 | 7,000/s | nginx 9,000 | yes |",
        "| a \\| million | 0.5 | 7,000/s | nginx 9,000 | yes |",
        END,
    ]


def test_the_facts_tell_of_each_measure_once_and_of_another_machine() -> None:
    """Of what has been made anew since they say nothing any more."""
    other = Facts(("- commit 3", "- 4 cores", "- load 2"))
    text = written(f"{BEGIN}\n{END}", [ROW], FACTS)
    for part, facts in (("tags", LATER), ("throughput, million, page", LATER), ("tags, million", other)):
        text = written(text, [ROW], facts, part)
    assert text.splitlines()[1:6] == [
        *FACTS.lines,
        "- throughput, page alone: commit 2; load 1",
        "- tags, million alone: commit 3; 4 cores; load 2",
    ]


def test_a_document_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="put them back"):
        written(f"{BEGIN} but no end", [ROW], FACTS)


def test_latency_is_judged_by_what_is_added_and_beside_envoy() -> None:
    quick = {"direct": 0.1, "envoy": 0.2, "rollcall": 0.35}
    taken = Taken(quick, {"direct": 1.0, "envoy": 1.5, "rollcall": 2.4}, {}, {})
    assert (taken.words("rollcall"), taken.reached) == ("+0.25/+1.40 ms", True)
    assert replace(taken, p50=quick | {"rollcall": 0.45}).reached is False
    assert replace(taken, p99={"direct": 1.0, "envoy": 1.5, "rollcall": 2.6}).reached is False
    assert replace(taken, errors={"rollcall": 1}).reached is False
    assert replace(taken, p50={"direct": 0.1, "rollcall": 0.2}).reached is None
