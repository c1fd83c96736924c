"""Proxies as processes: killed with a filled spool, and on a disk that takes nothing more."""

import pytest
from proxystage.fakes import RESULT, Caller, FakeServer, Said
from proxystage.process import proxy_process
from proxystage.world import Stage, World, eventually, told


async def play(call: Caller) -> object:
    """Task 1 swallows a failed model call."""
    if call.row["_ng_task_index"] == 1:
        await call("model", "/v1/responses")
    return RESULT


@pytest.fixture
async def world(stage: Stage) -> World:
    """A world whose proxy is still to be started as a process."""
    world = await stage()
    await world.proxy_stops()
    return world


async def takes_up(world: World) -> None:
    """The dispatcher's start at the proxy that runs now."""
    await world.plays(play, model=FakeServer("model", {"/v1/responses": Said("no such model", 400)}))
    await world.expects(("agent", 0, 0), ("agent", 1, 0))


async def ready(world: World) -> bool:
    return (await world.main("GET", "/readyz")).status == 200


async def test_what_a_killed_proxy_left_in_its_spool_the_next_one_delivers(world: World) -> None:
    """Two rollouts ended while the collector was away, then kill -9: the next proxy delivers both, and the tag."""
    async with proxy_process(world) as proxy:
        await takes_up(world)
        await world.collector_stops()
        assert [(await world.run(task)).answered_by_rollcall for task in (0, 1)] == [None, "verdict"]
        await proxy.kill()
    [left] = world.spool.glob("*.jsonl")
    left.write_bytes(left.read_bytes() + b'{"sender":"p-torn","first":9,"eve')
    await world.collector_starts()
    assert await world.totals() == {"expected": 2, "missing": 2}
    await world.proxy_starts()
    await eventually(lambda: ready(world))
    assert await world.totals() == {"expected": 2, "succeeded": 1, "failed": 1}
    assert [tag["status"] for tag in await world.tags("1-0")] == [400]
    assert not left.exists()


async def test_without_collector_and_spool_traffic_goes_on_and_metrics_are_withheld(world: World) -> None:
    """The disk is full while the collector is away: verdicts stand, nothing is lost silently."""
    async with proxy_process(world) as proxy:
        await takes_up(world)
        await world.collector_stops()
        proxy.disk_full()
        assert [told(await world.run(task)) for task in (0, 1)] == [(200, None), (200, "verdict")]
        metrics = await world.metrics()
        assert told(metrics) == (200, "withheld")
        await world.collector_starts()
        assert told(await world.metrics()) == (200, "withheld"), "what was not stored is not known"
