"""Real containers, where ROLLCALL_COMPOSE names the command for them, such as `docker compose`; skipped without."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "gym")]

import install  # noqa: E402
from composing import COMMAND, Project  # noqa: E402


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """A failed test shows the ends of its containers' logs."""
    report = yield
    made = getattr(item, "funcargs", {}).get("project")
    if report.failed and report.when == "call" and isinstance(made, _Maker):
        report.sections.append(("containers", "\n".join(each.logs() for each in made.made)))
    return report


@pytest.fixture(scope="session")
def image() -> str:
    """The image, built once."""
    if COMMAND not in os.environ:
        pytest.skip(f"{COMMAND} names no command for containers, such as 'docker compose'")
    assert shutil.which(shlex.split(os.environ[COMMAND])[0]), f"{COMMAND}={os.environ[COMMAND]!r} is not there"
    Project(HERE).does("build", "collector", limit=600)
    return "gym-rollcall"


class _Maker:
    def __init__(self, results: Path) -> None:
        self.results, self.made = results, list[Project]()

    def __call__(self, *files: str, **about: Any) -> Project:
        extra = {"files": ("docker-compose.yml", *files)} if files else {}
        self.made.append(Project(self.results, **extra, **about))
        return self.made[-1]


@pytest.fixture
def project(image: str, tmp_path: Path) -> Iterator[Callable[..., Project]]:
    """Makes projects on a folder of results of their own, and ends them."""
    results = tmp_path / "results"
    results.mkdir()
    maker = _Maker(results)
    yield maker
    for each in reversed(maker.made):
        each.end()


@pytest.fixture(scope="session")
def home() -> Path:
    """The environment of NeMo Gym 0.7.0."""
    try:
        return install.environment("0.7.0").resolve()
    except install.InstallError as error:
        if os.environ.get("ROLLCALL_REQUIRE_GYM") == "1":
            pytest.fail(str(error))
        pytest.skip(str(error))
