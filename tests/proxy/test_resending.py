"""A `/run` that is sent again: joined, answered from the stored answer, or a new dispatch; one row each way."""

import asyncio

from proxystage.fakes import RESULT, Caller, Said
from proxystage.world import World, eventually, told

ROW = {"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "agent"}}


class Gate:
    """An agent that answers when it is let."""

    def __init__(self) -> None:
        self.entered, self.opened, self.runs = asyncio.Event(), asyncio.Event(), 0

    async def play(self, call: Caller) -> object:
        self.runs += 1
        self.entered.set()
        await self.opened.wait()
        return RESULT


async def a_caller_leaves(world: World, gate: Gate) -> None:
    """Its connection drops while the agent works."""
    first = asyncio.ensure_future(world.run())
    await gate.entered.wait()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


async def test_a_resend_joins_the_execution_that_runs(world: World) -> None:
    """The connection drops and the same body comes again: one execution, one dispatch, both would get its answer."""
    gate = Gate()
    await world.plays(gate.play)
    await world.expects(("agent", 0, 0))
    await a_caller_leaves(world, gate)
    second = asyncio.ensure_future(world.run())
    third = asyncio.ensure_future(world.run())
    await asyncio.sleep(0.1)
    gate.opened.set()
    assert [told(await second), told(await third)] == [(200, None), (200, None)]
    assert gate.runs == 1
    assert len((await world.rollout())["dispatches"]) == 1


async def test_an_answer_that_was_never_passed_on_is_given_to_the_resend(world: World) -> None:
    """The execution ends while nobody waits: missing, until the stored answer is given, within the grace."""
    gate = Gate()
    await world.proxy_stops()
    await world.proxy_starts(resend_grace=10)
    await world.plays(gate.play)
    await world.expects(("agent", 0, 0))
    await a_caller_leaves(world, gate)
    assert await eventually(lambda: _is(world, {"expected": 1, "running": 1}))
    gate.opened.set()
    assert await eventually(lambda: _is(world, {"expected": 1, "missing": 1}))
    assert (await world.run()).value == RESULT
    assert await eventually(lambda: _is(world, {"expected": 1, "succeeded": 1}))
    assert gate.runs == 1


async def test_a_caller_that_does_not_come_back_leaves_its_rollout_missing(world: World) -> None:
    """After the grace the execution is given up, and the server sees its caller go."""
    gate = Gate()
    await world.plays(gate.play)
    await world.expects(("agent", 0, 0))
    await a_caller_leaves(world, gate)
    assert await eventually(lambda: _is(world, {"expected": 1, "missing": 1}))


async def test_another_sessions_run_is_a_new_dispatch_whose_verdict_replaces_the_old(world: World) -> None:
    """A resume of Gym 0.4 sends the same bytes; the first session's execution still runs and decides nothing."""
    gate = Gate()

    async def play(call: Caller) -> object:
        if gate.runs:
            return Said("broken", 500)
        return await gate.play(call)

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    await world.expects(("agent", 0, 0), session="s-2")
    first = asyncio.ensure_future(world.run())
    await gate.entered.wait()
    second = await world.post("agent", "/run", ROW, "s-2")
    assert second.value["_ng_failure_class"] == "agent_run_error"
    gate.opened.set()
    await first
    assert await world.totals() == {"expected": 1, "failed": 1}
    assert [each["state"] for each in (await world.rollout())["dispatches"]] == ["succeeded", "failed"]


async def test_a_run_that_was_answered_is_executed_anew(world: World) -> None:
    """Its answer has been passed on whole: the same body again is a dispatch of its own."""
    gate = Gate()
    gate.opened.set()
    await world.plays(gate.play)
    await world.expects(("agent", 0, 0))
    assert [told(await world.run()), told(await world.run())] == [(200, None)] * 2
    assert (gate.runs, len((await world.rollout())["dispatches"])) == (2, 2)


async def test_a_proxy_that_was_restarted_begins_a_new_dispatch(world: World) -> None:
    """Neither the execution nor its answer is there any more; the old dispatch is no result of anything."""
    gate = Gate()
    await world.plays(gate.play)
    await world.expects(("agent", 0, 0))
    first = asyncio.ensure_future(world.run())
    await gate.entered.wait()
    await world.proxy_stops()
    await asyncio.gather(first, return_exceptions=True)
    await world.proxy_starts()
    gate.opened.set()
    await world.plays(gate.play)
    assert told(await world.run()) == (200, None)
    assert await world.totals() == {"expected": 1, "succeeded": 1}


async def test_late_calls_of_an_old_dispatch_stay_with_it(world: World) -> None:
    """A call that the first session's execution makes after the second's has ended fails nothing."""
    gate = Gate()

    async def play(call: Caller) -> object:
        if gate.runs:
            return RESULT
        result = await gate.play(call)
        await call("model", "/nowhere", method="POST")
        await call("tools", "/broken")
        return result

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    await world.expects(("agent", 0, 0), session="s-2")
    first = asyncio.ensure_future(world.run())
    await gate.entered.wait()
    await world.post("agent", "/run", ROW, "s-2")
    gate.opened.set()
    await first
    assert await world.totals() == {"expected": 1, "succeeded": 1}
    assert [len(each["tags"]) for each in (await world.rollout())["dispatches"]] == [2, 0]


async def test_a_dispatcher_that_ends_gives_up_what_it_waits_for(world: World) -> None:
    """It sends nothing again, so there is no grace."""
    gate = Gate()
    await world.proxy_stops()
    await world.proxy_starts(resend_grace=600)
    await world.plays(gate.play)
    await world.expects(("agent", 0, 0))
    await a_caller_leaves(world, gate)
    await world.main("POST", "/v1/sessions/s-1/heartbeat", {"state": "ended"})
    gate.opened.set()
    assert await eventually(lambda: _is(world, {"expected": 1, "missing": 1}))


async def _is(world: World, totals: dict[str, int]) -> bool:
    return await world.totals() == totals
