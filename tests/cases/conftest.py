"""What the tests of reported problems share: worlds of real services, and the neighbours' helper modules by name."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

HERE = Path(__file__).parent
for folder in (HERE, *(HERE.parent / name for name in ("proxy", "collector", "runner", "attach"))):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

if TYPE_CHECKING:
    from case_run import GymRun
    from proxystage.world import Stage, World


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ROLLCALL_") and name != "ROLLCALL_REQUIRE_GYM"]:
        monkeypatch.delenv(name)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Starts a world; its proxy has the settings that are given, its collector the policy."""
    from case_run import started

    async with AsyncExitStack() as stack:

        async def start(**settings: Any) -> World:
            return await started(stack, tmp_path, **settings)

        yield start


@pytest.fixture
async def world(stage: Stage) -> World:
    """A world with the settings' defaults, but for the window: nothing waits for a server that refuses."""
    return await stage()


@pytest.fixture
def gym(world: World, capsys: pytest.CaptureFixture[str]) -> GymRun:
    """A run whose files lie where Gym has them."""
    from case_run import GymRun

    return GymRun(world, capsys)
