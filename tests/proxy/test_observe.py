"""Observing: every answer is the server's own, and the status tells the truth."""

import aiohttp
import pytest
from proxystage.fakes import METRICS, RESULT, Caller, FakeServer, Said
from proxystage.raw import Peer, asked, post
from proxystage.world import GONE, Stage, World, told


@pytest.fixture
async def world(stage: Stage) -> World:
    """A world whose proxy observes."""
    return await stage(mode="observe")


@pytest.mark.parametrize(
    "said", [Said("RuntimeError('x')", 500), Said(body=b"<html>"), Said({"_ng_failure_class": "judge_failed"})]
)
async def test_a_failed_run_is_answered_as_its_server_answered_it(world: World, said: Said) -> None:
    """Status and bytes are the agent's; the rollout has failed all the same."""

    async def play(_: Caller) -> Said:
        return said

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    answer = await world.run()
    assert (told(answer), answer.body) == ((said.status, None), said.response().body)
    assert await world.totals() == {"expected": 1, "failed": 1}


async def test_a_swallowed_failure_changes_no_answer_and_no_metric(world: World) -> None:
    """The agent's result passes, the metrics go through, and the gate says that they should not have."""

    async def play(call: Caller) -> object:
        await call("model", "/v1/responses")
        return RESULT

    await world.plays(play, model=FakeServer("model", {"/v1/responses": Said("bad", 400)}))
    await world.expects(("agent", 0, 0))
    answer = await world.run()
    assert (told(answer), answer.value) == ((200, None), RESULT)
    assert (await world.metrics()).value == METRICS
    assert await world.totals() == {"expected": 1, "failed": 1}
    gate = (await world.main("GET", "/v1/runs/r-1/gate")).value
    assert (gate["exit_status"], gate["benchmarks"][0]["metrics"]) == (3, "withheld")


async def test_a_refused_connection_is_a_dropped_one(world: World) -> None:
    """As without Rollcall: the caller gets no answer; the tag says unreachable."""

    async def play(call: Caller) -> object:
        with pytest.raises(aiohttp.ClientConnectionError):
            await call("gone", "/v1/responses")
        return RESULT

    await world.stands_at(GONE, name="gone")
    await world.plays(play)
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, None)
    assert [tag["what"] for tag in await world.tags()] == ["unreachable"]


async def test_a_run_whose_server_refuses_is_dropped_and_counted(world: World) -> None:
    """No row and no 502: Gym's own client does what it does without Rollcall."""
    await world.stands_at(GONE, "agent", "agent")
    await world.expects(("agent", 0, 0))
    with pytest.raises(aiohttp.ClientConnectionError):
        await world.run()
    assert await world.totals() == {"expected": 1, "failed": 1}


async def test_a_server_that_goes_before_its_answer_is_a_dropped_connection(world: World) -> None:
    """Nothing is said in its place."""

    async def gone(peer: Peer) -> None:
        await peer.request()

    await world.stands_at((await world.serves_raw(gone)).url)
    assert await asked(world.listeners["model"], post("/v1/responses")) == b""


async def test_a_good_run_is_counted_and_a_session_nobody_registered_changes_nothing(world: World) -> None:
    """Rollcall's own ignorance is no reason for an answer of its own."""

    async def play(_: Caller) -> object:
        return RESULT

    await world.plays(play)
    row = {"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "agent"}}
    assert told(await world.post("agent", "/run", row, session="s-nobody")) == (200, None)
