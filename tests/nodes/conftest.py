"""The tests of many machines: proxies and collectors are processes, and share one PostgreSQL."""

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
for folder in (HERE.parent / "collector", HERE.parent / "proxy", HERE, HERE.parents[1]):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from nodes_world import Nodes, started  # noqa: E402
from postgresql_server import Server, serving  # noqa: E402


@pytest.fixture(scope="module")
def postgresql() -> Iterator[Server]:
    """A real PostgreSQL server."""
    with serving() as server:
        yield server


@pytest.fixture
async def nodes(postgresql: Server, tmp_path: Path) -> AsyncIterator[Nodes]:
    """Three machines with a proxy each, and two collectors."""
    async with started(postgresql.empty(), tmp_path) as nodes:
        yield nodes
