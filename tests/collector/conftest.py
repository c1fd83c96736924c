"""What the collector's tests share; the helper modules beside this file are imported by name."""

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# No test is timed: a machine that is busy with others breaks no promise.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

HERE = Path(__file__).parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

from collector_client import Client, running  # noqa: E402
from collector_store import Store  # noqa: E402


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A new store with session s-1 of run r-1."""
    opened = Store(tmp_path / "x.sqlite3")
    opened.session()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One store for many generated histories, each of which has a run of its own."""
    opened = Store(tmp_path_factory.mktemp("shared") / "x.sqlite3")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def second_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Another one, to compare with."""
    opened = Store(tmp_path_factory.mktemp("second") / "x.sqlite3")
    yield opened
    opened.close()


@pytest.fixture
async def collector(tmp_path: Path) -> AsyncIterator[Client]:
    """A collector that knows nothing yet."""
    async with running(tmp_path / "x.sqlite3") as client:
        yield client
