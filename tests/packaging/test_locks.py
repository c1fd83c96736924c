"""What the image installs is locked with hashes, fits pyproject.toml, and names no place that it comes from."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[2]
DECLARED = tomllib.loads((PROJECT / "pyproject.toml").read_text())
INSTALLED = [*DECLARED["project"]["dependencies"], *DECLARED["project"]["optional-dependencies"]["postgresql"]]
LOCKS = {"requirements.lock": INSTALLED, "requirements-build.lock": DECLARED["build-system"]["requires"]}


def locked(name: str) -> dict[str, tuple[str, list[str]]]:
    """The version and the hashes of each package of a lock."""
    text = re.sub(r"#.*", "", (PROJECT / name).read_text()).replace("\\\n", " ")
    pattern = re.compile(
        r"^(?P<name>[\w.-]+)==(?P<version>\S+)(?: ; [^-]+)?(?P<hashes>(?: +--hash=sha256:[0-9a-f]{64})*)$"
    )
    found = [pattern.match(line.strip()) for line in text.splitlines() if line.strip()]
    assert None not in found
    return {each["name"]: (each["version"], each["hashes"].split()) for each in found if each}


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_has_what_is_declared_in_a_version_that_is_allowed(name: str) -> None:
    """Else run: make lock"""
    found = locked(name)
    for requirement in map(Requirement, LOCKS[name]):
        version, _ = found[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), requirement


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_of_a_lock_has_hashes(name: str) -> None:
    """One for each file of the version, of which there is one at least."""
    assert [package for package, (_, hashes) in locked(name).items() if not hashes] == []


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_no_index(name: str) -> None:
    """It holds wherever the packages are taken from."""
    assert re.search(r"://|--(extra-)?index|--find-links", (PROJECT / name).read_text()) is None
