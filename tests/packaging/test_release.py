"""The version stands in one place, and the changelog has it."""

import re
from importlib.metadata import version
from pathlib import Path

from rollcall_collector import __version__

PROJECT = Path(__file__).parents[2]


def test_the_installed_version_is_the_one_in_the_sources() -> None:
    """Else the environment is older than the sources: make setup"""
    assert version("gym-rollcall") == __version__


def test_the_changelog_begins_with_the_version() -> None:
    """Released on a day, or not yet."""
    headings = re.findall(r"^## (\S+) \((\d{4}-\d\d-\d\d|unreleased)\)$", (PROJECT / "CHANGELOG.md").read_text(), re.M)
    assert headings[0][0] == __version__
    assert len({number for number, _ in headings}) == len(headings)
