"""Whose call has failed is known or said to be unknown, and never guessed."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from proxystage.fakes import RESULT, Caller, FakeServer, Said, agent
from proxystage.world import Stage, World, cause, told

BUSY = Said({"error": "overloaded"}, 503)


def busy_at(*paths: str) -> FakeServer:
    return FakeServer("model", dict.fromkeys(paths, BUSY))


@pytest.mark.parametrize("in_flight", [1, 2])
async def test_a_failed_call_that_names_nobody_is_nobodys(world: World, in_flight: int) -> None:
    """Kept, counted, and the metrics are withheld, with one rollout in flight as with two (NVIDIA-NeMo/Gym#2610)."""
    all_running = asyncio.Barrier(in_flight)

    async def play(call: Caller) -> object:
        await all_running.wait()
        if call.row["_ng_task_index"] == 0:
            await call("model", "/v1/responses", fields={})
        return RESULT

    await world.plays(play, model=busy_at("/v1/responses"))
    await world.expects(*[("agent", task, 0) for task in range(in_flight)])
    answers = await asyncio.gather(*[world.run(task) for task in range(in_flight)])
    assert [told(each) for each in answers] == [(200, None)] * in_flight
    assert (await world.status())["unattributed"] == 1
    assert (await world.metrics()).value["key_metrics"]["rollcall/reason"] == "1 unattributed failure at model"


@pytest.mark.parametrize("shape", ["/ng-rollout/{}/v1/chat/completions", "/ng-rollout/{}/v1/responses"])
async def test_an_id_that_nobody_knows_makes_no_rollout(world: World, shape: str) -> None:
    """A harness with an id of its own never joins up, and is said (NVIDIA-NeMo/Gym#2610)."""
    path = shape.format(uuid4())

    async def play(call: Caller) -> object:
        await call("model", path, fields={})
        return RESULT

    await world.plays(play, model=busy_at(path))
    await world.expects(("agent", 3, 0))
    assert told(await world.run(3)) == (200, None)
    assert ((await world.status())["unattributed"], await world.totals()) == (1, {"expected": 1, "succeeded": 1})


async def test_the_prefix_of_token_capture_names_its_rollout(world: World) -> None:
    """The longer form of Gym's path prefix is read as well (NVIDIA-NeMo/Gym#2610)."""
    path = "/ng-rollout/3-0/training-token-capture/v1/responses"

    async def play(call: Caller) -> object:
        await call("model", path, fields={})
        return RESULT

    await world.plays(play, model=busy_at(path))
    await world.expects(("agent", 3, 0))
    assert cause((await world.run(3)).value) == ("model", "model", "http_status", 503)
    assert (await world.tags("3-0"))[0]["owner_by"] == "path"


@pytest.mark.parametrize("both", [True, False])
async def test_an_id_that_two_rollouts_share_names_neither(world: World, both: bool) -> None:
    """An id `x-a1`, and attempt 1 of an id `x`: known alone, and not together (NVIDIA-NeMo/Gym#2610)."""
    path, all_running = "/ng-rollout/x-a1/v1/responses", asyncio.Barrier(1 + both)

    async def play(call: Caller) -> object:
        await all_running.wait()
        if call.row["_ng_task_index"] == 0:
            await call("model", path, fields={})
        return RESULT

    await world.plays(play, model=busy_at(path))
    await world.expects(("agent", 0, 0), *[("agent", 1, 0)] * both)
    keys: list[dict[str, Any]] = [{"_ng_rollout_id": "x", "_ng_attempt_index": 1}, {"_ng_rollout_id": "x-a1"}]
    answers = await asyncio.gather(*[world.run(task, **more) for task, more in enumerate(keys[: 1 + both])])
    assert [each.answered_by_rollcall for each in answers] == ([None, None] if both else ["verdict"])
    assert (await world.status())["unattributed"] == int(both)


async def test_an_agent_whose_inner_calls_nobody_sees_is_said(world: World) -> None:
    """All may have gone well, but its failures would not be known (NVIDIA-NeMo/Gym#2610)."""

    async def play(_: Caller) -> object:
        return RESULT

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    await world.run()
    await world.metrics()
    [warning] = [each for each in (await world.status())["warnings"] if "never seen" in each]
    assert warning.startswith("agent: its inner calls were never seen")


EPISODE = {"episode_id": {"rollout_id": "3-0", "attempt": 1}, "task": {"x": 1}}


async def front_world(stage: Stage, failure: object, failing: bool = False) -> tuple[World, list[object]]:
    """An environment server that asks a legacy agent's /run in turn, and answers an episode."""
    world, inner = await stage(), list[object]()

    async def environment(call: Caller) -> object:
        row = {"_ng_task_index": 3, "_ng_rollout_index": 0, "_ng_attempt_index": 1}
        inner.append((await call("agent", "/run", row)).value)
        answer = {"episode_id": EPISODE["episode_id"], "task_id": "t"}
        return answer | ({"failure": failure} if failure else {"result": RESULT})

    async def play(_: Caller) -> object:
        return Said("inner trouble", 500) if failing else RESULT

    front = agent(world.http, world.listeners, environment)
    front.kind = "environment"
    await world.plays(play, front=front)
    await world.expects(("front", 3, 0))
    return world, inner


async def test_two_nested_runs_are_one_dispatch(stage: Stage) -> None:
    """An environment server before the agent: both shapes of body are one rollout (NVIDIA-NeMo/Gym#3491)."""
    world, inner = await front_world(stage, None)
    answer = await world.post("front", "/run", EPISODE)
    assert (told(answer), answer.value["result"], inner) == ((200, None), RESULT, [RESULT])
    assert len((await world.rollout("3-0"))["dispatches"]) == 1
    assert await world.totals() == {"expected": 1, "succeeded": 1}


@pytest.mark.parametrize("terminal", [True, False])
async def test_an_episodes_failure_is_answered_with_the_flat_row(stage: Stage, terminal: bool) -> None:
    """A 200 that declares a failure is one, with its reason (NVIDIA-NeMo/Gym#3491)."""
    world, _ = await front_world(stage, {"failure_reason": "sandbox lost", "terminal": terminal})
    answer = await world.post("front", "/run", EPISODE)
    row = answer.value
    assert (told(answer), row["_ng_failure_message"]) == ((200, "verdict"), "sandbox lost")
    assert row.get("_ng_failure_terminal", False) is terminal
    assert (row["_ng_task_index"], row["_ng_rollout_index"]) == (3, 0)
    assert not {"failure", "result", "reward"} & row.keys()


async def test_an_inner_run_that_failed_is_answered_as_it_is_and_fails_the_episode(stage: Stage) -> None:
    """Only the outermost /run is answered with a row (NVIDIA-NeMo/Gym#3491)."""
    world, inner = await front_world(stage, None, failing=True)
    row = (await world.post("front", "/run", EPISODE)).value
    assert (inner, cause(row)) == (["inner trouble"], ("agent", "run", "http_status", 500))
    assert row["_rollcall"]["withheld_result"]["result"] == RESULT
