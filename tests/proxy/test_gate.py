"""`/aggregate_metrics`: passed on for a complete benchmark, answered by Rollcall for any other."""

import asyncio
from typing import Any

import pytest
from proxystage.fakes import METRICS, RESULT, Caller, Heard, Said, agent
from proxystage.world import Stage, World, told


async def good(_: Caller) -> object:
    return RESULT


async def bad(_: Caller) -> Said:
    return Said("RuntimeError('x')", 500)


def withheld(answer: Heard) -> dict[str, Any]:
    """What stands in the place of a withheld benchmark's metrics, in the form that Gym takes."""
    assert told(answer) == (200, "withheld")
    value: dict[str, Any] = answer.value
    assert set(value) == {"group_level_metrics", "agent_metrics", "key_metrics"}
    assert value["group_level_metrics"] == []
    assert value["agent_metrics"] == value["key_metrics"]
    assert value["key_metrics"]["rollcall/metrics_withheld"] == 1
    return {key.removeprefix("rollcall/"): number for key, number in value["key_metrics"].items()}


async def test_metrics_of_a_complete_benchmark_go_through(world: World) -> None:
    """Every expected rollout has succeeded: the server computes, and its answer passes."""
    server = await world.plays(good)
    await world.expects(("agent", 0, 0))
    await world.run()
    answer = await world.metrics()
    assert (told(answer), answer.value) == ((200, None), METRICS)
    assert server.paths() == ["/run", "/aggregate_metrics"]


async def test_metrics_of_an_incomplete_benchmark_are_answered_with_its_counts(world: World) -> None:
    """One failed, one missing: no number of the benchmark, and its server is not asked."""
    server = await world.plays(bad)
    await world.expects(("agent", 0, 0), ("agent", 1, 0))
    await world.run()
    found = withheld(await world.metrics())
    assert found["reason"] == "1 failed, 1 missing"
    counts = {word: found[word] for word in ("expected", "succeeded", "failed", "omitted", "running", "missing")}
    assert counts == {"expected": 2, "succeeded": 0, "failed": 1, "omitted": 0, "running": 0, "missing": 1}
    assert server.paths() == ["/run"]


async def test_a_withheld_benchmark_never_withholds_another_ones_metrics(world: World) -> None:
    """Two agents: that of the good benchmark is asked for its metrics."""
    other = agent(world.http, world.listeners, good)
    await world.plays(bad, other=other)
    await world.expects(("agent", 0, 0), ("other", 0, 0))
    await asyncio.gather(world.run(agent="agent"), world.run(agent="other"))
    assert withheld(await world.metrics("agent"))["failed"] == 1
    assert (await world.metrics("other")).value == METRICS


async def test_a_later_success_releases_the_metrics(world: World) -> None:
    """The rollout is sent again, as a resume does, and ends well."""
    ends = [bad, good]

    async def play(call: Caller) -> object:
        return await ends.pop(0)(call)

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    await world.run()
    assert withheld(await world.metrics())["failed"] == 1
    await world.run(_ng_attempt_index=1)
    assert (await world.metrics()).value == METRICS


async def test_metrics_of_a_server_without_a_rollout_are_withheld(world: World) -> None:
    """Nothing expected is not complete."""
    await world.plays(good)
    await world.expects(("elsewhere", 0, 0))
    assert withheld(await world.metrics())["reason"] == "no rollout of this run was sent to this server"


async def test_metrics_for_a_session_that_nobody_registered_are_withheld(world: World) -> None:
    """Unknown is not complete: the answer is in Gym's form and says why."""
    await world.plays(good)
    answer = await world.post("agent", "/aggregate_metrics", {"verify_responses": []}, session="s-nobody")
    assert "s-nobody" in withheld(answer)["reason"]


async def test_an_unattributed_failure_withholds_the_metrics(world: World) -> None:
    """A failed call without an owner may have been any rollout's."""
    await world.plays(good)
    await world.expects(("agent", 0, 0))
    await world.run()
    await world.post("model", "/v1/chat/completions", {}, session=None)
    assert withheld(await world.metrics())["reason"] == "1 unattributed failures at model"


@pytest.mark.parametrize("broken", [500, 404])
async def test_metrics_that_a_server_fails_to_compute_can_be_asked_again(world: World, broken: int) -> None:
    """The failure is the server's answer, belongs to no rollout, and withholds nothing."""
    server = await world.plays(good)
    server.answers["/aggregate_metrics"] = [Said("trouble", broken), Said(METRICS)]
    await world.expects(("agent", 0, 0))
    await world.run()
    assert told(await world.metrics()) == (broken, None)
    assert (await world.metrics()).value == METRICS


async def test_a_large_request_for_metrics_is_read_to_its_end_before_it_is_withheld(world: World) -> None:
    """20 MB of rows: the dispatcher can finish sending, and reads the answer."""
    await world.plays(bad)
    await world.expects(("agent", 0, 0))
    rows = b'{"verify_responses": ["' + b"x" * 20_000_000 + b'"]}'
    assert withheld(await world.ask("POST", world.listeners["agent"] + "/aggregate_metrics", rows, SESSION))


SESSION = {"Rollcall-Session": "s-1"}


async def test_without_the_attach_the_metrics_of_what_was_seen_are_released(stage: Stage) -> None:
    """No session is named: a dispatcher that asks for metrics dispatches nothing more, so what was seen is all."""
    world = await stage()
    await world.plays(good)
    row = {"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "agent"}}
    assert told(await world.post("agent", "/run", row, session=None)) == (200, None)
    answer = await world.post("agent", "/aggregate_metrics", {"verify_responses": []}, session=None)
    assert answer.value == METRICS
