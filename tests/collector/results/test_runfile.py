"""The run file: read with errors that name it, renewed without losing what others wrote."""

import json
from pathlib import Path

import pytest
from result_files import main_row, write
from rollcall_collector.results import runfile
from rollcall_collector.results.errors import ResultsError


@pytest.fixture
def path(output: Path) -> Path:
    return output.with_name("rollouts_rollcall.json")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not a run file"),
        ("[]", "names no run"),
        ('{"version": 1, "run": 3}', "names no run"),
        ('{"version": 2, "run": "r-1"}', "of version 2, this program knows 1; use the gym-rollcall that wrote it"),
    ],
)
def test_a_run_file_that_cannot_be_understood_is_refused_by_name(
    output: Path, path: Path, text: str, said: str
) -> None:
    """With the reason."""
    path.write_text(text)
    with pytest.raises(ResultsError, match=said) as refused:
        runfile.read(output)
    assert str(refused.value).startswith(str(path))


def test_no_run_file_is_an_error_of_its_own(output: Path) -> None:
    """It says that the run is not known."""
    with pytest.raises(runfile.NoRunError, match=r"the run of .* is not known"):
        runfile.read(output)


def test_the_gate_is_kept_with_the_files_it_speaks_of(output: Path, path: Path) -> None:
    """Until one of them changes; other names stay."""
    path.write_text(json.dumps({"version": 1, "run": "r-1", "proxy": "http://x:1"}))
    write(output, main_row(0))
    runfile.renew(output, {"exit_status": 0})
    kept = runfile.read(output)
    assert (kept["proxy"], kept["gate"], kept["files"]["rollouts_failures.jsonl"]) == (
        "http://x:1",
        {"exit_status": 0},
        None,
    )
    assert runfile.is_current(kept, output)
    write(output, main_row(0), main_row(1))
    assert not runfile.is_current(kept, output)
