"""Tests on the real NeMo Gym, once for each version; `-m "not gym"` leaves them out.

A start of Gym's servers costs more than a run, so a module's tests share one, which its fixture `lab` starts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import install  # noqa: E402
from gymlab import contract, plain, sidecar  # noqa: E402
from gymlab.contract import Bench  # noqa: E402
from gymlab.lab import Lab  # noqa: E402
from gymlab.plain import Plain  # noqa: E402
from gymlab.sidecar import Collector  # noqa: E402

VERSIONS = ("0.4.0", "0.7.0")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and "version" in getattr(item, "fixturenames", ()):
            item.add_marker("gym")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """A failed test shows the ends of the logs of all that took part."""
    report = yield
    lab = getattr(item, "funcargs", {}).get("lab")
    if report.failed and isinstance(lab, Lab):
        report.sections.append(("logs", lab.tails()))
    return report


@pytest.fixture(scope="session", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def home(version: str) -> Path:
    """The environment that holds this version of Gym, and not Rollcall."""
    try:
        return install.environment(version).resolve()
    except install.InstallError as error:
        if os.environ.get("ROLLCALL_REQUIRE_GYM") == "1":
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    running = sidecar.collector(tmp_path_factory.mktemp("collector"))
    yield running
    running.process.end()


@pytest.fixture(scope="session")
def without_rollcall(version: str, home: Path, collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Plain:
    """What this version leaves behind by itself."""
    return plain.run_all(tmp_path_factory.mktemp("plain") / version, home, collector)


@pytest.fixture(scope="session")
def bench(version: str, home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """The contract's laboratory, one start of Gym's servers for all tests of the contract on this version."""
    with contract.opened(tmp_path_factory.mktemp("contract") / version, home, version) as opened:
        yield opened


@pytest.fixture(scope="module")
def place(request: pytest.FixtureRequest, version: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for this module's laboratory of this version."""
    return tmp_path_factory.mktemp(request.module.__name__.rpartition(".")[2]) / version
