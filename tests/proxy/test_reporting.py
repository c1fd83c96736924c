"""No metrics are released while a proxy may know of failures that the collector does not."""

from proxystage.fakes import RESULT, Caller
from proxystage.process import free_address, proxy_process
from proxystage.world import Stage, World, eventually, told


async def good(_: Caller) -> object:
    return RESULT


async def reasons(world: World) -> list[str]:
    gate = await world.ask("GET", f"{world.collector}/v1/runs/r-1/gate")
    return [str(reason) for reason in gate.value["reasons"]]


async def test_a_collector_that_comes_back_waits_for_all_proxies_to_report(stage: Stage) -> None:
    """One was killed meanwhile: what it has left may be failures, until the next one has delivered it."""
    world, listen = await stage(), free_address()
    await world.proxy_stops()
    async with proxy_process(world, listen) as proxy:
        await world.plays(good)
        await world.expects(("agent", 0, 0))
        assert told(await world.run()) == (200, None)
        assert told(await world.metrics()) == (200, None)
        await world.collector_stops()
        await proxy.kill()
    await world.collector_starts()
    [reason] = await reasons(world)
    assert "does not report: its spool may hold failures" in reason
    async with proxy_process(world, listen):
        await eventually(lambda: _released(world))
        assert told(await world.metrics()) == (200, None)


async def _released(world: World) -> bool:
    return await reasons(world) == []
