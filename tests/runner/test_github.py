"""The gate's answer for GitHub Actions: annotations, the summary, and that no text commands the runner."""

import re
from pathlib import Path

import pytest
from ci_answers import GROUPS, TEXT, benchmark, failures, gate, group
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.gate import Counts
from rollcall_runner import github

COMMAND = re.compile(r"::(error|warning) title=([^:,\r\n]*)::([^\r\n]*)")
"""A command as the runner reads it, with one property."""


def test_each_benchmark_and_each_cause_is_an_annotation() -> None:
    """Errors for what is not whole, warnings for why."""
    whole = benchmark("sums", Counts(3))
    assert list(github.annotations(gate(benchmark(), whole), failures(group(line="100% full")))) == [
        "::error title=rollcall%3A math_agent::metrics withheld: 2 failed",
        "::warning title=2 rollouts%3A model call to policy_model%3A http_status 500"
        "::100%25 full%0Afor example math_agent 3-0",
    ]


def test_a_gate_that_could_not_be_asked_is_an_annotation() -> None:
    said = gate(exit_status=4, reasons=["http://x cannot be asked"])
    assert list(github.annotations(said, failures())) == ["::error title=rollcall::http://x cannot be asked"]


def test_a_run_that_is_whole_has_none() -> None:
    assert list(github.annotations(gate(benchmark(counts=Counts(3))), failures())) == []


def test_the_summary_is_a_table_of_the_counts_and_one_of_the_causes() -> None:
    lines = github.summary(gate(benchmark()), failures(group(), more=2)).splitlines()
    assert lines[0] == "## Rollcall: not complete"
    assert "| math&#95;agent | 3 | 1 | 2 | 0 | 0 | 0 | withheld |" in lines
    assert "| 2 | model call to policy&#95;model: http&#95;status 500 | out of memory | 3-0 |" in lines
    assert "and 2 more causes" in lines


def test_the_summary_is_added_to_what_the_job_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a place for it, that is said."""
    (tmp_path / "summary.md").write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    github.tell(gate(benchmark()), failures())
    assert (tmp_path / "summary.md").read_text().startswith("before\n## Rollcall: not complete\n")
    assert capsys.readouterr().err.startswith("::error title=")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY")
    github.tell(gate(benchmark()), failures())
    assert "GITHUB_STEP_SUMMARY is not set" in capsys.readouterr().err


@given(st.lists(TEXT, max_size=3), st.lists(GROUPS, max_size=3), st.lists(TEXT, max_size=2))
def test_no_text_is_a_command_or_markup(names: list[str], groups: list[dict[str, object]], reasons: list[str]) -> None:
    """Each annotation is one whole line; the summary has the rows and cells that it is to have, and no tag."""
    answer = gate(*map(benchmark, names), reasons=reasons)
    assert all(COMMAND.fullmatch(line) for line in github.annotations(answer, failures(*groups)))
    lines = github.summary(answer, failures(*groups)).split("\n")
    tables = [line for line in lines if line.startswith("|")]
    assert len(tables) == 2 + len(names) + (2 + len(groups) if groups else 0)
    assert {line.count("|") for line in tables} <= {9, 5}
    assert not re.search(r"[<>`]", "\n".join(lines))
