"""The benchmark's tests: that it measures right. What it measures is nobody's test."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1] / "collector"))

from bench.children import child
from bench.place import free_port, load_cores


@pytest.fixture
def upstream() -> Iterator[str]:
    """The benchmark's own upstream as a process; its URL."""
    port = free_port()
    with child("test-upstream", [sys.executable, "-m", "bench.load.upstream", str(port)], load_cores()) as started:
        started.wait_for_port(port)
        yield f"http://127.0.0.1:{port}"
