"""A proxy that is told to stop: no new rollout, what is in flight may end, and nothing is lost."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from proxystage.fakes import RESULT, Caller
from proxystage.process import ProxyProcess, free_address, proxy_process
from proxystage.world import Stage, World, eventually, told


class Plays:
    """A play whose first rollout goes on when it is told to, with a model call."""

    def __init__(self) -> None:
        self.begun, self.goes_on = list[int](), asyncio.Event()

    async def __call__(self, call: Caller) -> object:
        self.begun.append(call.row["_ng_task_index"])
        if len(self.begun) == 1:
            await self.goes_on.wait()
            assert (await call("model", "/v1/responses")).status == 200
        return RESULT


@pytest.fixture
async def plays() -> Plays:
    return Plays()


LISTEN = free_address()


@pytest.fixture
async def world(stage: Stage) -> World:
    """A world whose proxy is still to be started."""
    world = await stage()
    await world.proxy_stops()
    return world


@pytest.fixture
async def proxy(world: World, plays: Plays) -> AsyncIterator[ProxyProcess]:
    """A proxy as a process, with one rollout in flight."""
    async with proxy_process(world, LISTEN) as proxy:
        await world.plays(plays)
        await world.expects(("agent", 0, 0), ("agent", 1, 0))
        yield proxy


async def begins(world: World, plays: Plays) -> "asyncio.Future[object]":
    """The first rollout is in flight."""
    first = asyncio.ensure_future(world.run(0))
    await eventually(lambda: has_begun(plays))
    return first


async def has_begun(plays: Plays) -> bool:
    return bool(plays.begun)


async def is_draining(world: World) -> bool:
    answer = await world.main("GET", "/readyz")
    return answer.status == 503 and "no new rollout" in answer.value["detail"]


async def test_what_is_in_flight_ends_with_its_calls_and_the_exit_status_is_0(
    world: World, plays: Plays, proxy: ProxyProcess
) -> None:
    """The rollout's own calls go on meanwhile; its answer is the server's."""
    first = await begins(world, plays)
    proxy.told_to_stop()
    await eventually(lambda: is_draining(world))
    plays.goes_on.set()
    assert told(await first) == (200, None)  # type: ignore[arg-type]
    assert await proxy.ends() == 0
    assert await world.totals() == {"expected": 2, "succeeded": 1, "missing": 1}


async def test_a_new_run_is_neither_begun_nor_answered_and_runs_at_the_successor(
    world: World, plays: Plays, proxy: ProxyProcess
) -> None:
    """Its connection is lost at the end, of which Gym's client thinks nothing: it sends the `/run` again."""
    first = await begins(world, plays)
    proxy.told_to_stop()
    await eventually(lambda: is_draining(world))
    second = asyncio.ensure_future(world.run(1))
    plays.goes_on.set()
    assert told(await first) == (200, None)  # type: ignore[arg-type]
    with pytest.raises(aiohttp.ClientError):
        await second
    assert (await proxy.ends(), plays.begun) == (0, [0])
    async with proxy_process(world, LISTEN):
        assert told(await world.run(1)) == (200, None)
        assert await world.totals() == {"expected": 2, "succeeded": 2}


async def test_a_run_that_is_sent_again_meanwhile_joins_what_it_had_begun(
    world: World, plays: Plays, proxy: ProxyProcess
) -> None:
    """Its connection broke while the proxy was draining: it is no new rollout."""
    first = await begins(world, plays)
    proxy.told_to_stop()
    await eventually(lambda: is_draining(world))
    again = asyncio.ensure_future(world.run(0))
    await asyncio.sleep(0.1)
    plays.goes_on.set()
    assert [told(answer) for answer in await asyncio.gather(first, again)] == [(200, None)] * 2  # type: ignore[arg-type]
    assert (await proxy.ends(), plays.begun) == (0, [0])


async def test_a_second_signal_ends_at_once_and_nothing_is_lost(
    world: World, plays: Plays, proxy: ProxyProcess
) -> None:
    """The rollout is missing, and what was known of it is with the collector after the next start at the latest."""
    first = await begins(world, plays)
    proxy.told_to_stop()
    await eventually(lambda: is_draining(world))
    proxy.told_to_stop()
    with pytest.raises(aiohttp.ClientError):
        await first
    assert await proxy.ends() == 0
    async with proxy_process(world, LISTEN):
        await eventually(lambda: is_missing(world))
        assert told(await world.run(0)) == (200, None)
        await eventually(lambda: has_succeeded(world))  # what the last proxy has left goes first


async def is_missing(world: World) -> bool:
    return await world.totals() == {"expected": 2, "missing": 2}


async def has_succeeded(world: World) -> bool:
    return await world.totals() == {"expected": 2, "succeeded": 1, "missing": 1}


async def test_what_takes_longer_than_the_drain_timeout_is_broken_off(world: World, plays: Plays) -> None:
    """And runs again at the successor."""
    async with proxy_process(world, LISTEN, **{"drain-timeout": "0.2"}) as proxy:
        await world.plays(plays)
        await world.expects(("agent", 0, 0))
        first = await begins(world, plays)
        proxy.told_to_stop()
        with pytest.raises(aiohttp.ClientError):
            await first
        assert await proxy.ends() == 0
    assert await world.totals() == {"expected": 1, "missing": 1}
