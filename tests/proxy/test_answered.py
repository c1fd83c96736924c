"""What Gym was answered is told, where it is not what the collector ruled: its row lies in the file of that answer."""

from typing import Any

from proxystage.fakes import RESULT, Caller, FakeServer, Said
from proxystage.world import Stage, World, eventually, told


async def moves(world: World) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = (await world.main("GET", "/v1/runs/r-1/moves")).value
    return found


async def swallowing(call: Caller) -> object:
    await call("model", "/v1/responses")
    return RESULT


async def failing(world: World) -> None:
    await world.plays(swallowing, model=FakeServer("model", {"/v1/responses": Said("bad", 400)}))
    await world.expects(("agent", 0, 0))


async def test_in_observe_mode_a_failed_rollouts_row_lies_among_the_results(stage: Stage) -> None:
    """The server's own answer passed: the row has to be moved."""
    world = await stage(mode="observe")
    await failing(world)
    assert told(await world.run()) == (200, None)

    async def to_move() -> list[str]:
        return [each["benchmark"] for each in (await moves(world))["to_failures"]]

    assert await eventually(to_move) == ["agent"]


async def test_in_the_normal_case_every_row_lies_where_it_belongs(world: World) -> None:
    """The answer is the ruling."""
    await failing(world)
    assert told(await world.run()) == (200, "verdict")
    assert await moves(world) == {"to_failures": [], "to_results": []}


async def test_what_was_answered_while_the_collector_was_away_is_told_later(world: World) -> None:
    """The proxy's own verdict was failed, and so the row lies among the failures: there is nothing to move."""
    await failing(world)
    await world.collector_stops()
    assert told(await world.run()) == (200, "verdict")
    await world.collector_starts()
    await eventually(lambda: _delivered(world))
    assert await world.totals() == {"expected": 1, "failed": 1}
    assert await moves(world) == {"to_failures": [], "to_results": []}


async def test_a_verdict_that_turns_out_otherwise_says_where_the_row_lies(world: World) -> None:
    """Failed for the proxy; a success by the policy with which the collector comes back."""

    async def play(call: Caller) -> object:
        await call("tools", "/made_up")
        return RESULT

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    await world.collector_stops()
    assert told(await world.run()) == (200, "verdict")
    world.policy["tool_errors"] = "model_visible"
    await world.collector_starts()
    await eventually(lambda: _delivered(world))
    assert [each["task_index"] for each in (await moves(world))["to_results"]] == [0]


async def _delivered(world: World) -> bool:
    return (await world.main("GET", "/readyz")).status == 200
