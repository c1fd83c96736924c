"""The status as text: 80 columns whatever the names are."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.gate import Counts, why_withheld
from rollcall_collector.status_text import benchmark_table, status_text

NAMES = st.text(max_size=120)
DOUBTS = ["expected is what was seen so far", "12 unattributed failures"]


def benchmark(name: str, counts: Counts, doubts: list[str] | None = None) -> dict[str, Any]:
    reason = why_withheld(counts, doubts or [])
    return {
        "benchmark": name,
        **counts.as_dict(),
        "metrics": "withheld" if reason else "released",
        "reason": reason,
    }


def status(*benchmarks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    known = {"run": "r-1", "state": "ended", "sessions": 2, "output": "/data/x.jsonl", "unattributed": 0}
    return known | {"benchmarks": list(benchmarks)} | fields


def test_the_text_shows_run_counts_and_what_withholds() -> None:
    """The whole text of a small run."""
    shown = status(benchmark("math_agent", Counts(3)), benchmark("code_agent", Counts(1, 2)), unattributed=4)
    assert status_text(shown).splitlines() == [
        "run r-1 (ended, sessions: 2)",
        "output /data/x.jsonl",
        "",
        "benchmark           expected succeeded  failed omitted running missing   metrics",
        "math_agent                 3         3       0       0       0       0  released",
        "code_agent                 3         1       2       0       0       0  withheld",
        "  math_agent: metrics released",
        "  code_agent: metrics withheld: 2 failed",
        "",
        "4 failed calls have no owner (unattributed)",
    ]


def test_without_any_benchmark_the_text_says_so() -> None:
    """Instead of an empty table; an unknown output is said too."""
    text = status_text(status(output=None))
    assert "nothing expected yet" in text
    assert "output unknown" in text


def test_a_long_name_is_cut_in_the_table_and_stays_whole_below() -> None:
    """What withholds is said of the benchmark by its whole name, on as many lines as that takes."""
    name = "environment_of_a_long_name:agent_of_a_longer_name"
    lines = benchmark_table([benchmark(name, Counts(missing=1), DOUBTS)])
    assert lines[1].startswith("environment_of_a_… ")
    assert " ".join(line.strip() for line in lines[2:]) == (
        f"{name}: metrics withheld: 1 missing, {DOUBTS[0]}, {DOUBTS[1]}"
    )


TOOLS_ALONE = (
    "math_agent: 2 rollouts failed for error statuses of tools alone (tool_errors: failure). Where the model is "
    "meant to see these, put them back without a new model call: "
    "rollcall divert --reapply --tool-errors model_visible_4xx --output RESULTS"
)


def test_failures_for_tools_alone_come_first_with_the_command_that_takes_them_back() -> None:
    """Whole on a line of its own, to be copied; other warnings follow the counts, in 80 columns."""
    other = "math_agent: " + "a word " * 20
    shown = status(benchmark("math_agent", Counts(1, 2)), output="/data/my runs/x.jsonl", warnings=[TOOLS_ALONE, other])
    lines = status_text(shown).splitlines()
    command = "  rollcall divert --reapply --tool-errors model_visible_4xx --output '/data/my runs/x.jsonl'"
    assert lines[3].startswith("math_agent: 2 rollouts failed for error statuses of tools alone")
    assert lines.index(command) < lines.index(next(line for line in lines if line.startswith("benchmark ")))
    assert [line for line in lines if len(line) > 80] == [command]
    assert next(line for line in reversed(lines) if line.startswith("warning: math_agent: a word"))


@given(NAMES, st.lists(st.integers(0, 999_999), min_size=5, max_size=5), st.booleans())
def test_every_line_of_the_table_fits_80_columns(name: str, numbers: list[int], doubtful: bool) -> None:
    """Hostile names too: none breaks a line or writes to the terminal."""
    lines = benchmark_table([benchmark(name, Counts(*numbers), DOUBTS if doubtful else [])])
    assert [line for line in lines if len(line) > 80 or not line.isprintable()] == []
