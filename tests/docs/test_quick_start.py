"""The README's quick start is what the Makefile does."""

import subprocess

from doclab.blocks import ROOT


def recipe(target: str) -> str:
    """What make would run."""
    command = ["make", "--dry-run", "--always-make", target]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_two_commands_are_the_whole_set_up() -> None:
    """`make setup` installs the project; `make demo` runs what tests/runner/test_demo.py tries."""
    assert "pip install" in recipe("setup")
    assert recipe("demo").splitlines()[-1] == ".venv/bin/rollcall demo --output .demo"


def test_the_demo_on_gym_has_a_command_of_its_own() -> None:
    assert "tests/gym/demo.py" in recipe("demo-gym")
