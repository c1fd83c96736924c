"""The proxy's tests: each starts a collector, a proxy and fake servers on real sockets, on the services' own loop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvloop

sys.path.insert(0, str(Path(__file__).parent))

from proxystage.world import Stage, World


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Starts a world; its proxy has the settings that are given, its collector the policy.

    `collecting=False` leaves the collector away.
    """
    async with AsyncExitStack() as stack:

        async def start(collecting: bool = True, policy: Mapping[str, Any] | None = None, **settings: Any) -> World:
            connector = aiohttp.TCPConnector(limit=0, force_close=True)
            http = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
            world = World(stack, http, tmp_path)
            world.policy |= policy or {}
            stack.push_async_callback(world.collector_stops)
            if collecting:
                await world.collector_starts()
            stack.push_async_callback(world.proxy_stops)
            await world.proxy_starts(**settings)
            return world

        yield start


@pytest.fixture
async def world(stage: Stage) -> World:
    """A world with the settings' defaults, but for the window: nothing waits for a server that refuses."""
    return await stage()
