"""What the hostile suite shares: both services as processes, and a run of which nothing may be lost."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "collector", HERE.parent / "runner", HERE.parent / "proxy"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from hostile_place import Place, opened  # noqa: E402
from postgresql_server import serving  # noqa: E402


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One place for the cases of a module: each leaves it as it was."""
    folder = tmp_path_factory.mktemp("hostile")
    with opened(folder, f"sqlite:///{folder}/x.sqlite3") as started:
        yield started


@pytest.fixture(scope="module")
def place_on_postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The same, whose database refuses other things."""
    with serving() as server, opened(tmp_path_factory.mktemp("hostile"), server.empty()) as started:
        yield started
