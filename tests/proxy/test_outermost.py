"""The outermost `/run`: what its dispatcher is answered, and what becomes of the rollout."""

import json
from typing import Any

import pytest
from proxystage.fakes import RESULT, Caller, FakeServer, Said, agent
from proxystage.world import World, cause, told

EPISODE = {"episode_id": {"rollout_id": "3-0", "attempt": 1}, "task": {"task_id": {"taskset": "t", "task_id": "3"}}}


async def answers(world: World, said: Said) -> None:
    """An agent whose `/run` makes no call and answers this."""

    async def play(_: Caller) -> Said:
        return said

    await world.plays(play)
    await world.expects(("agent", 0, 0))


async def test_a_good_rollout_passes_with_its_bytes_untouched(world: World) -> None:
    """All calls went well: the agent's own bytes reach the dispatcher, and the rollout has succeeded."""
    body = b'{ "reward":1.0,\n "response": {"id": "resp_1"}, "note": "\xc3\xa9" }'

    async def play(call: Caller) -> Said:
        for server, path in (("tools", "/seed_session"), ("model", "/v1/responses"), ("tools", "/verify")):
            assert (await call(server, path)).status == 200
        return Said(body=body)

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    answer = await world.run()
    assert (told(answer), answer.body) == ((200, None), body)
    assert await world.totals() == {"expected": 1, "succeeded": 1}


@pytest.mark.parametrize(
    ("said", "what", "status", "failure_class"),
    [
        (Said("RuntimeError('x')", 500), "http_status", 500, "agent_run_error"),
        (Said("overloaded", 503), "http_status", 503, "agent_request_failed"),
        (Said(body=b"<html>"), "invalid_result", 200, "agent_run_error"),
        (Said(body=b""), "invalid_result", 200, "agent_run_error"),
        (Said([1.0]), "invalid_result", 200, "agent_run_error"),
        (Said({"response": {}}), "invalid_result", 200, "agent_run_error"),
        (Said({"reward": True}), "invalid_result", 200, "agent_run_error"),
        (Said(body=b'{"reward": NaN}'), "invalid_result", 200, "agent_run_error"),
        (Said(body=b'{"reward": 1.0, "resp'), "invalid_result", 200, "agent_run_error"),
    ],
)
async def test_a_run_without_a_result_is_answered_with_its_failure_row(
    world: World, said: Said, what: str, status: int, failure_class: str
) -> None:
    """Not 2xx, no JSON, no object, no finite reward, half a JSON that ends cleanly: 200 and the row of a failure."""
    await answers(world, said)
    answer = await world.run()
    assert told(answer) == (200, "verdict")
    row = answer.value
    assert cause(row) == ("agent", "run", what, status)
    assert (row["_ng_failure_class"], row["_ng_failure_type"]) == (failure_class, what)
    assert (await world.totals(), [tag["what"] for tag in await world.tags()]) == ({"expected": 1, "failed": 1}, [what])


async def test_a_failure_row_has_the_rollouts_identity_and_no_number_that_gym_would_average(world: World) -> None:
    """The row repeats Gym's identity keys; outside of keys that begin with `_` it holds no number nor truth value."""
    await answers(world, Said("RuntimeError('x')", 500))
    row = (await world.run(task=0, _ng_attempt_index=2, verbose=True)).value
    assert (row["_ng_task_index"], row["_ng_rollout_index"], row["_ng_attempt_index"]) == (0, 0, 2)
    assert row["agent_ref"] == {"name": "agent"}
    assert row["_ng_failure_response_body"] == "RuntimeError('x')"
    assert not {"reward", "response"} & set(row)
    assert [key for key, value in row.items() if not key.startswith("_") and isinstance(value, int | float)] == []


@pytest.mark.parametrize(
    ("body", "state"),
    [
        (b'{"_ng_failure_class":"agent_timeout",  "reward":0.0}', "failed"),
        (b'{"_ng_no_persist": true,  "note": "\xc3\xa9"}', "omitted"),
    ],
)
async def test_what_an_agent_declares_itself_is_passed_on_byte_for_byte(world: World, body: bytes, state: str) -> None:
    """An agent's own failure row, and its wish to leave no row, reach Gym as they are and are counted."""
    await answers(world, Said(body=body))
    answer = await world.run()
    assert (told(answer), answer.body) == ((200, None), body)
    assert await world.totals() == {"expected": 1, state: 1}


async def test_an_own_failure_row_stays_as_it_is_beside_a_failed_call(world: World) -> None:
    """The agent saw its model fail and said so: its row passes, and the status names the call as root cause."""
    body = b'{"_ng_failure_class": "agent_run_error", "mine": true}'

    async def play(call: Caller) -> Said:
        await call("model", "/v1/responses")
        return Said(body=body)

    await world.plays(play, model=FakeServer("model", {"/v1/responses": Said("bad", 400)}))
    await world.expects(("agent", 0, 0))
    assert (await world.run()).body == body
    assert (await world.rollout())["root_cause"]["server"] == "model"


async def episode(world: World, value: object) -> tuple[tuple[int, str | None], dict[str, Any]]:
    """The answer to an episode's `/run`, whose server answers `value`."""

    async def play(_: Caller) -> object:
        return value

    await world.plays(play)
    await world.expects(("agent", 3, 0))
    answer = await world.post("agent", "/run", EPISODE)
    return told(answer), answer.value


async def test_an_episode_with_a_reward_has_succeeded(world: World) -> None:
    """`result.reward` is the episode's reward; its answer passes."""
    value = {"episode_id": EPISODE["episode_id"], "result": RESULT}
    assert await episode(world, value) == ((200, None), value)
    assert await world.totals() == {"expected": 1, "succeeded": 1}


async def test_an_episode_that_declares_a_failure_is_answered_with_a_flat_row(world: World) -> None:
    """The row has Gym's keys at its top, so that Gym writes it whole; the episode lies under `withheld_result`."""
    failure = {"failure_reason": "sandbox lost", "terminal": True, "failure_kind": "kill_shaped"}
    value = {"episode_id": EPISODE["episode_id"], "failure": failure}
    answered, row = await episode(world, value)
    assert answered == (200, "verdict")
    assert (row["_ng_task_index"], row["_ng_rollout_index"]) == (3, 0)
    assert (row["_ng_failure_message"], row["_ng_failure_terminal"]) == ("sandbox lost", True)
    assert row["_rollcall"]["withheld_result"] == value
    assert await world.totals() == {"expected": 1, "failed": 1}


async def test_an_episode_that_is_to_be_written_nowhere_is_answered_with_a_flat_row(world: World) -> None:
    """nemo_gym 0.7 ends the run where an episode's result has a key of Gym's own."""
    value = {"episode_id": EPISODE["episode_id"], "result": RESULT | {"_ng_no_persist": True}}
    answered, row = await episode(world, value)
    assert answered == (200, "verdict")
    assert (row["_ng_no_persist"], "result" in row) == (True, False)
    assert await world.totals() == {"expected": 1, "omitted": 1}


async def test_an_episode_whose_call_failed_is_answered_with_a_flat_row(world: World) -> None:
    """A swallowed failure of an episode's call: the failure row, with the episode that it withholds."""

    async def play(call: Caller) -> object:
        await call("model", "/v1/responses")
        return {"episode_id": EPISODE["episode_id"], "result": RESULT}

    await world.plays(play, model=FakeServer("model", {"/v1/responses": Said("bad", 400)}))
    await world.expects(("agent", 3, 0))
    row = (await world.post("agent", "/run", EPISODE)).value
    assert cause(row) == ("model", "model", "http_status", 400)
    assert row["_rollcall"]["withheld_result"]["result"] == RESULT


@pytest.mark.parametrize("failing", [False, True])
async def test_of_two_nested_runs_only_the_outermost_is_answered_with_a_row(world: World, failing: bool) -> None:
    """Environment server before agent: the inner answer passes as it is, whatever it says; one dispatch in all."""
    inner = Said("inner trouble", 500) if failing else Said(RESULT)
    passed = []

    async def environment(call: Caller) -> Said:
        passed.append(await call("agent", "/run", {"_ng_task_index": 0, "_ng_rollout_index": 0}))
        return Said(RESULT)

    async def play(_: Caller) -> Said:
        return inner

    front = agent(world.http, world.listeners, environment)
    front.kind = "environment"
    await world.plays(play, front=front)
    await world.expects(("front:agent", 0, 0))
    answer = await world.run(agent="front", agent_ref={"name": "agent"}, _ng_environment_server="front")
    assert [(told(each), each.body) for each in passed] == [((inner.status, None), json.dumps(inner.value).encode())]
    assert told(answer) == (200, "verdict" if failing else None)
    assert len((await world.rollout())["dispatches"]) == 1
