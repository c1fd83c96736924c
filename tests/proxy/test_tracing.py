"""W3C Trace Context (https://www.w3.org/TR/trace-context/) passes, and a dispatch's trace id is told."""

import logging

import pytest
from proxystage.fakes import RESULT, Caller, FakeServer, Said
from proxystage.world import World

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
STATE = "vendor=t61rcWkgMzE,other=00f067aa0ba902b7 , x@y=~!"
ROW = {"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "agent"}}


async def ends_well(_: Caller) -> object:
    return RESULT


async def told_of(world: World, **fields: str) -> tuple[dict[str, str], str | None]:
    """What the agent is sent of a `/run` with these fields, and the trace id that the API has for its dispatch."""
    agent = await world.plays(ends_well)
    await world.expects(("agent", 0, 0))
    named = {"Rollcall-Session": "s-1"} | fields
    assert (await world.ask("POST", world.listeners["agent"] + "/run", ROW, named)).status == 200
    return agent.heard[0].fields, (await world.rollout())["dispatches"][0]["trace"]


async def test_a_run_keeps_its_own_trace(world: World) -> None:
    """Byte for byte, and its id is the dispatch's."""
    sent, trace = await told_of(world, traceparent=PARENT, tracestate=STATE)
    assert (sent["traceparent"], sent["tracestate"], trace) == (PARENT, STATE, TRACE)


async def test_a_run_without_a_trace_is_given_one(world: World) -> None:
    """Whose id the agent's own spans will have."""
    sent, trace = await told_of(world)
    assert trace is not None
    assert sent["traceparent"].split("-")[1] == trace


@pytest.mark.parametrize("parent", ["", "nonsense", PARENT.upper(), f"00-{'0' * 32}-00f067aa0ba902b7-01", "x" * 4000])
async def test_a_trace_that_cannot_be_read_passes_and_is_not_told(world: World, parent: str) -> None:
    """What a peer makes up stays out of logs and database."""
    sent, trace = await told_of(world, traceparent=parent)
    assert (sent["traceparent"], trace) == (parent, None)


async def test_a_call_passes_its_trace_on(world: World) -> None:
    """Each hop's parent is its own."""

    async def play(call: Caller) -> object:
        await call("model", "/v1/responses", fields={"traceparent": PARENT, "tracestate": STATE})
        return RESULT

    model = FakeServer("model", {"/v1/responses": Said({"status": "completed", "output": []})})
    await world.plays(play, model=model)
    await world.expects(("agent", 0, 0))
    await world.run()
    (heard,) = model.heard
    assert (heard.fields["traceparent"], heard.fields["tracestate"]) == (PARENT, STATE)


async def test_a_failed_rollouts_line_in_the_log_has_its_trace_id(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rollcall_collector.diverted")
    await world.registers(agent=FakeServer("agent", {"/run": Said("trouble", 500)}))
    await world.expects(("agent", 0, 0))
    fields = {"Rollcall-Session": "s-1", "traceparent": PARENT}
    await world.ask("POST", world.listeners["agent"] + "/run", ROW, fields)
    (line,) = [each.getMessage() for each in caplog.records if each.name == "rollcall_collector.diverted"]
    assert line.endswith(f"; trace {TRACE}")
