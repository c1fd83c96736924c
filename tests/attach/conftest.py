from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import attachlab


@pytest.fixture
def proxy() -> Iterator[attachlab.FakeProxy]:
    with attachlab.proxy() as fake:
        yield fake
