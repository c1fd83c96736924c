"""The README's quick start is what the Makefile does."""

import shlex
import subprocess
import sys

import pytest
from doclab.blocks import ROOT


def recipe(*target: str) -> str:
    """What make would run."""
    command = ["make", "--dry-run", "--always-make", *target]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_two_commands_are_the_whole_set_up() -> None:
    """`make setup` installs the project; `make demo` runs what tests/runner/test_demo.py tries."""
    assert "pip install" in recipe("setup")
    assert recipe("demo").splitlines()[-1] == ".venv/bin/rollcall demo --output .demo"


def test_the_demo_on_gym_has_a_command_of_its_own() -> None:
    assert "tests/gym/demo.py" in recipe("demo-gym")


@pytest.mark.parametrize(
    ("verb", "flags"),
    [
        ("bench", "--only throughput,latency"),
        ("bench", "--only gym --gym"),
        ("chaos", "--seeds 17 --keep"),
        ("chaos", "--seeds 1-20 --jobs 2"),
    ],
)
def test_make_hands_its_flags_on(verb: str, flags: str) -> None:
    """And the tool behind it knows them: it is asked for help behind them, which it gives only where they are right."""
    assert recipe(verb, f"{verb.upper()}={flags}").splitlines()[-1] == f".venv/bin/python -m {verb} {flags}"
    asked = [sys.executable, "-m", verb, *shlex.split(flags)]
    assert subprocess.run([*asked, "--help"], cwd=ROOT, capture_output=True).returncode == 0
    assert subprocess.run([*asked, "--unknown"], cwd=ROOT, capture_output=True).returncode == 2
