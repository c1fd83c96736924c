"""Tests of the engine over raw sockets: both sides of it are scripts of bytes."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from wirestage.through import Wire


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    """An engine in front of a scripted server."""
    async with Wire() as started:
        yield started
