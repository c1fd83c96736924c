"""The collector's policy is the proxy's: at the start, later, and while the collector is away."""

from typing import Any

import pytest
from proxystage.fakes import RESULT, Caller, FakeServer, Said
from proxystage.world import TOOLS, Stage, World, cause, eventually, told

VISIBLE = {"tool_errors": "model_visible_4xx"}


async def wrong_tool(call: Caller) -> object:
    await call("tools", "/made_up")
    return RESULT


async def using_tools(world: World, **answers: Any) -> None:
    tools = FakeServer("resources", TOOLS | {f"/{path}": said for path, said in answers.items()})
    await world.plays(wrong_tool, tools=tools)
    await world.expects(("agent", 0, 0))


async def test_the_policy_is_there_at_the_start(stage: Stage) -> None:
    """A tool's 404 is the model's own, with the collector and when it has gone."""
    world = await stage(policy=VISIBLE)
    await using_tools(world)
    assert told(await world.run()) == (200, None)
    await world.collector_stops()
    assert told(await world.run(1)) == (200, None)


async def test_a_proxy_that_starts_alone_knows_what_an_earlier_one_was_told(stage: Stage) -> None:
    """Policy and session: the dispatcher that was registered before goes on, and is judged as before."""
    world = await stage(policy=VISIBLE)
    await using_tools(world)
    await world.proxy_stops()
    await world.collector_stops()
    await world.proxy_starts()
    await using_tools_again(world)
    assert told(await world.run()) == (200, None)


async def using_tools_again(world: World) -> None:
    await world.plays(wrong_tool, tools=FakeServer("resources", dict(TOOLS)))


async def test_a_policy_that_comes_later_is_taken_up(stage: Stage) -> None:
    """The collector was away at the proxy's start."""
    world = await stage(policy=VISIBLE)
    await world.collector_stops()
    await world.proxy_stops()
    (world.spool / "policy.json").unlink()
    await world.proxy_starts()
    await world.collector_starts()
    await eventually(lambda: _kept(world))


async def _kept(world: World) -> bool:
    path = world.spool / "policy.json"
    return path.exists() and b"model_visible_4xx" in path.read_bytes()


@pytest.mark.parametrize("kept", [b"", b"[]", b'{"no_such_rule": 1}', b'{"tool_errors": "x"}'])
async def test_a_kept_policy_that_cannot_be_read_is_none(stage: Stage, kept: bytes) -> None:
    """The defaults hold."""
    world = await stage(policy=VISIBLE)
    await using_tools(world)
    await world.proxy_stops()
    await world.collector_stops()
    (world.spool / "policy.json").write_bytes(kept)
    await world.proxy_starts()
    await using_tools_again(world)
    assert cause((await world.run()).value) == ("tools", "tool", "http_status", 404)


@pytest.mark.parametrize("away", [False, True])
async def test_under_last_wins_a_later_good_call_heals_another(stage: Stage, away: bool) -> None:
    """By the collector's ruling, and by the proxy's own verdict."""
    world = await stage(policy={"model_errors": "last_wins"})
    await _prompting(world, Said("bad", 400), Said({}))
    if away:
        await world.collector_stops()
    assert told(await world.run()) == (200, None)


async def test_under_last_wins_the_last_call_must_be_good(stage: Stage) -> None:
    """A good one before it heals nothing."""
    world = await stage(policy={"model_errors": "last_wins"})
    await _prompting(world, Said({}), Said("bad", 400))
    assert cause((await world.run()).value) == ("model", "model", "http_status", 400)


async def test_another_call_heals_nothing_by_default(world: World) -> None:
    """Each call counts by its own last exchange."""
    await _prompting(world, Said("bad", 400), Said({}))
    assert cause((await world.run()).value) == ("model", "model", "http_status", 400)


async def _prompting(world: World, *said: Said) -> None:
    """An agent that sends its model two prompts, one after the other."""

    async def play(call: Caller) -> object:
        for prompt in ("first", "second"):
            await call("model", "/v1/responses", {"input": prompt})
        return RESULT

    await world.plays(play, model=FakeServer("model", {"/v1/responses": list(said)}))
    await world.expects(("agent", 0, 0))


async def test_without_the_collector_a_swallowed_failure_is_known(stage: Stage) -> None:
    """No model call, where another rollout of the benchmark made one."""
    world = await stage(policy={"no_model_call": "fail"})

    async def play(call: Caller) -> object:
        if call.row["_ng_task_index"] == 0:
            await call("model", "/v1/responses")
        return RESULT

    await world.plays(play)
    await world.expects(("agent", 0, 0), ("agent", 1, 0))
    await world.collector_stops()
    assert told(await world.run(0)) == (200, None)
    assert (await world.run(1)).value["_ng_failure_type"] == "no_model_call"
