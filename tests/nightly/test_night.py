"""What a night writes down, and what an audit says of the data that it has or has not."""

import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
sys.path.insert(0, str(PROJECT))

from nightly.audit import verdict  # noqa: E402
from nightly.document import Facts, Outcome, text  # noqa: E402
from nightly.stages import Stage, stages  # noqa: E402

NIGHT = stages(date(2026, 1, 2))
KNOWN = {"name": "one", "version": "1.0", "vulns": []}
SKIPPED = {"name": "two", "skip_reason": "Dependency not found on PyPI and could not be audited: two (2.0)"}
BAD = {"name": "three", "version": "3.0", "vulns": [{"id": "CVE-1", "fix_versions": ["3.1"], "description": "long"}]}


@pytest.mark.parametrize(
    ("packages", "reasons", "lines", "bad", "unknown"),
    [
        ([KNOWN], [], ["no vulnerability of 1 locked packages is known"], False, False),
        ([BAD, KNOWN], [], ["three 3.0: CVE-1; mended in 3.1"], True, False),
        ([SKIPPED], [], ["1 of 1 locked packages NOT AUDITED: the data on them cannot be had here"], False, True),
        ([], ["a.lock: no network"], ["NOT AUDITED: a.lock: no network"], False, True),
    ],
)
def test_an_audit_never_takes_missing_data_for_good_data(
    packages: list[dict[str, object]], reasons: list[str], lines: list[str], bad: bool, unknown: bool
) -> None:
    """pip-audit itself ends well where it knows nothing of any package."""
    assert verdict(packages, reasons) == (lines, bad, unknown)


def test_a_night_is_written_down_as_it_was() -> None:
    """What was not played is not said to have passed."""
    outcomes = {"cases": Outcome(0, 90, "3 passed"), "bytes": Outcome(1, 6, "1 failed | x")}
    shown = text(Facts("abc1234", datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "2 cores"), NIGHT, outcomes)
    rows = {line.split(" | ")[0].strip("| "): line for line in shown.splitlines() if line.startswith("| ")}
    assert "- commit abc1234, begun 2026-01-02 03:04 UTC\n- 2 cores\n" in shown
    assert "| passed | 1.5 min | 3 passed |" in rows["cases"]
    assert "| **failed** (1) | 0.1 min | 1 failed / x |" in rows["bytes"]
    assert {name for name, row in rows.items() if "not played" in row} == {"hostile", "chaos", "bench", "audit"}


def test_each_night_draws_other_seeds() -> None:
    """And those of a day again, where it is played again."""
    commands = {day: [stage.command for stage in stages(date(2026, 1, day))] for day in (2, 3)}
    assert commands[2] == [stage.command for stage in NIGHT]
    assert commands[2] != commands[3]


@pytest.mark.parametrize("stage", NIGHT, ids=lambda stage: stage.name)
def test_each_stage_is_a_command_that_is_there(stage: Stage) -> None:
    """The tests that it names are there, or the tool knows its flags."""
    if "pytest" in stage.command:
        named = [part for part in stage.command if part.startswith("tests/")]
        assert named
        assert [part for part in named if not (PROJECT / part).exists()] == []
        return
    asked = [*stage.command, "--help"]
    done = subprocess.run(asked, cwd=PROJECT, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout[:6]) == (0, "usage:")


def test_a_stage_that_is_none_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nightly", "--only", "byte"], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "byte: not among cases, bytes" in done.stderr) == (2, True)
