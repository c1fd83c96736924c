"""What the runner's tests share: the collector's helper modules, and no variable of Rollcall's from outside."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

HERE = Path(__file__).parent
for folder in (HERE.parent / "collector", HERE):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

if TYPE_CHECKING:
    from runner_world import World


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ROLLCALL_") and name != "ROLLCALL_REQUIRE_GYM"]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def collector_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The real command `rollcall collector`, with nothing in its database."""
    from collector_process import running

    with running(tmp_path_factory.mktemp("collector") / "x.sqlite3") as (_, url):
        yield url


@pytest.fixture
def world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> "Iterator[World]":
    """A run that has ended."""
    from runner_world import World

    made = World(tmp_path, capsys)
    yield made
    made.close()
