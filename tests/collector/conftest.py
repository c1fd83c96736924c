"""What the collector's tests share; the helper modules beside this file are imported by name."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
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
from postgresql_server import Server, serving  # noqa: E402


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A real PostgreSQL server."""
    with serving() as server:
        yield server


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def new_database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], str]:
    """Makes databases: every test that asks for one runs against both kinds."""
    if request.param == "postgresql":
        server: Server = request.getfixturevalue("postgresql")
        return server.new
    return lambda: f"sqlite:///{tmp_path_factory.mktemp('store')}/x.sqlite3"


@pytest.fixture
def store(new_database: Callable[[], str]) -> Iterator[Store]:
    """A new store with session s-1 of run r-1."""
    opened = Store(new_database())
    opened.session()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def shared_store(new_database: Callable[[], str]) -> Iterator[Store]:
    """One store for many generated histories, each of which has a run of its own."""
    opened = Store(new_database())
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def second_store(new_database: Callable[[], str]) -> Iterator[Store]:
    """Another one, to compare with."""
    opened = Store(new_database())
    yield opened
    opened.close()


@pytest.fixture
async def collector(tmp_path: Path) -> AsyncIterator[Client]:
    """A collector that knows nothing yet."""
    async with running(tmp_path / "x.sqlite3") as client:
        yield client
