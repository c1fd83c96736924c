"""One table of cases, held against the contract as pure code and against real services on real sockets."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import uvloop

TESTS = Path(__file__).parent.parent
for folder in (TESTS / "contract", TESTS / "proxy"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}
