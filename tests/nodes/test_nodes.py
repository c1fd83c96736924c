"""Whichever collector is asked, and whatever is cut or killed: the same verdict, and no metrics before all is told."""

import asyncio
import signal

import aiohttp
import pytest
from nodes_world import AGENTS, DISPATCHERS, Nodes
from proxystage.fakes import RESULT, Caller, FakeServer, Said
from proxystage.world import TOOLS, cause, eventually

GOOD = Said({"status": "completed", "output": []})
NUMBER = 24


async def play(call: Caller) -> object:
    """Every third rollout's model call fails, every fourth one's judge; both are swallowed."""
    task = call.row["_ng_task_index"]
    await call("broken" if task % 3 == 0 else "model", "/v1/responses")
    await call("tools" if task % 4 else "judging", "/verify")
    return RESULT


def right(task: int) -> str:
    return "succeeded" if task % 3 and task % 4 else "failed"


async def stands(nodes: Nodes) -> None:
    models = {"model": FakeServer("model", {"/v1/responses": GOOD})}
    models |= {name: FakeServer("model", {"/v1/responses": Said("quota", 429)}) for name in ("broken", "judge")}
    await nodes.plays(play, **models, judging=nodes.verifier(), tools=FakeServer("resources", TOOLS))


async def all_told(nodes: Nodes) -> bool:
    return (await nodes.gate()).status == 200


async def test_a_run_over_three_machines_is_the_same_for_both_collectors_one_of_which_is_killed(nodes: Nodes) -> None:
    """Tags from the agent's and the verifier's machine; the verdict is the dispatcher's, and is right at once."""
    await stands(nodes)
    await nodes.expects(*(("agent", task, 0) for task in range(NUMBER)))
    first = [nodes.run(task) for task in range(NUMBER // 2)]
    answers = await asyncio.gather(*first)
    await nodes.collector_dies(0)
    answers += await asyncio.gather(*(nodes.run(task) for task in range(NUMBER // 2, NUMBER)))
    assert [_state(answer.value) for answer in answers] == [right(task) for task in range(NUMBER)]
    assert cause(answers[3].value) == ("broken", "model", "http_status", 429)
    assert cause(answers[4].value) == ("judge", "judge", "http_status", 429)
    await eventually(lambda: all_told(nodes))
    assert await nodes.states(1) == {f"{task}-0": right(task) for task in range(NUMBER)}
    await nodes.collecting[0].start()
    await nodes.collecting[0].up()
    assert await nodes.states(0) == await nodes.states(1)


async def test_what_a_machine_saw_while_it_was_cut_off_for_20_s_counts_as_if_it_had_not_been(nodes: Nodes) -> None:
    """The dispatcher's proxy cannot know of the failed call when it answers; nobody is given numbers meanwhile.

    A collector is killed while the machine is cut off, so that another one hears of it.
    """
    await stands(nodes)
    await nodes.expects(("agent", 3, 0), ("agent", 1, 0))
    await nodes.run(1)
    async with nodes.cut_off(AGENTS, for_s=20):
        assert _state((await nodes.run(3)).value) == "succeeded", "for all that this proxy can know"
        assert "the proxy" in await withheld(nodes), "it has not told"
        await nodes.collector_dies(0)
        await eventually(lambda: _silent(nodes), within_s=60)

    async def known() -> bool:
        return (await nodes.states(1)) == {"1-0": "succeeded", "3-0": "failed"}

    assert await eventually(known)
    gate = (await eventually(lambda: _answered(nodes))).value
    assert (gate["exit_status"], gate["benchmarks"][0]["failed"]) == (3, 1)
    moves = (await nodes.main("GET", "/v1/runs/r-1/moves")).value
    assert [cause(entry["row"]) for entry in moves["to_failures"]] == [("broken", "model", "http_status", 429)]


async def withheld(nodes: Nodes) -> str:
    gate = (await nodes.gate()).value
    assert gate["exit_status"] == 3
    return str(gate["benchmarks"][0]["reason"])


async def _silent(nodes: Nodes) -> bool:
    return "does not report" in await withheld(nodes)


@pytest.mark.parametrize("finds_the_collector", [True, False])
async def test_a_retry_heals_what_failed_before_the_proxy_on_its_way_was_killed(
    nodes: Nodes, finds_the_collector: bool
) -> None:
    """kill -9 between the two: the successor learns what stood failed, if need be after the retry has passed it.

    What the dispatcher is answered depends on who is faster to tell the collector; what counts does not.
    """
    failed, back = asyncio.Event(), asyncio.Event()

    async def retries(call: Caller) -> object:
        assert (await call("flaky", "/v1/responses?key=1")).status == 503
        failed.set()
        await back.wait()
        assert (await call("flaky", "/v1/responses?key=1")).status == 200
        return RESULT

    await nodes.plays(retries, flaky=FakeServer("model", {"/v1/responses": [Said("busy", 503), GOOD]}))
    await nodes.expects(("agent", 0, 0))
    running = asyncio.create_task(nodes.run(0), name="run")
    await failed.wait()
    await nodes.proxy_dies(AGENTS)
    if not finds_the_collector:
        await nodes.cables[AGENTS].cut()
    await nodes.proxy_returns(AGENTS)
    back.set()
    await running
    if not finds_the_collector:
        await nodes.cables[AGENTS].start()
    assert await eventually(lambda: _states_are(nodes, {"0-0": "succeeded"}))
    [tag] = await nodes.tags()
    assert (tag["status"], tag["recovered"]) == (503, True)


async def test_a_call_that_fails_again_at_a_successor_is_the_call_that_failed_before(nodes: Nodes) -> None:
    """Twice bad, each time through another process, then good: one call, which has recovered."""
    failed, go_on = asyncio.Queue[int](), asyncio.Queue[None]()

    async def retries(call: Caller) -> object:
        for _ in range(3):
            failed.put_nowait((await call("flaky", "/v1/responses")).status)
            await go_on.get()
        return RESULT

    await nodes.plays(retries, flaky=FakeServer("model", {"/v1/responses": [*[Said("busy", 503)] * 2, GOOD]}))
    await nodes.expects(("agent", 0, 0))
    running = asyncio.create_task(nodes.run(0), name="run")
    for status in (503, 503):
        assert await failed.get() == status
        await nodes.proxy_dies(AGENTS)
        await nodes.proxy_returns(AGENTS)
        go_on.put_nowait(None)
    assert await failed.get() == 200
    go_on.put_nowait(None)
    await running
    assert await eventually(lambda: _states_are(nodes, {"0-0": "succeeded"}))
    assert len({tag["call"] for tag in await nodes.tags()}) == 1


async def test_a_dispatch_that_died_with_its_proxy_before_anybody_knew_of_it_counts_once(nodes: Nodes) -> None:
    """What another machine has told of it is kept, and withholds nothing once its proxy is known to be gone."""
    executions: list[asyncio.Event] = []

    async def hangs_once(call: Caller) -> object:
        executions.append(asyncio.Event())
        if len(executions) == 1:
            assert (await call("broken", "/v1/responses")).status == 429
            executions[0].set()
            await asyncio.Event().wait()
        return RESULT

    await nodes.plays(hangs_once, broken=FakeServer("model", {"/v1/responses": Said("quota", 429)}))
    await nodes.expects(("agent", 0, 0))
    nodes.cables[DISPATCHERS].silence()
    running = asyncio.create_task(nodes.run(0), name="run")
    await eventually(lambda: _fails(executions))
    await nodes.proxy_dies(DISPATCHERS)
    await nodes.cables[DISPATCHERS].cut()
    with pytest.raises(aiohttp.ClientError):
        await running
    assert (await nodes.status())["unattributed"] == 1, "whose call it was is not known yet"
    nodes.cables[DISPATCHERS].speak()
    await nodes.cables[DISPATCHERS].start()
    await nodes.proxy_returns(DISPATCHERS)
    assert _state((await nodes.run(0)).value) == "succeeded"
    assert [each["state"] for each in (await nodes.rollout())["dispatches"]] == ["succeeded"]
    assert (await eventually(lambda: _answered(nodes))).value["exit_status"] == 0
    assert (await nodes.status())["unattributed"] == 0


async def _fails(executions: list[asyncio.Event]) -> bool:
    return bool(executions) and executions[0].is_set()


async def _states_are(nodes: Nodes, wanted: dict[str, str]) -> bool:
    return await nodes.states(0) == wanted


async def test_a_failure_that_another_machines_proxy_saw_counts_although_that_is_killed_behind_its_answer(
    nodes: Nodes,
) -> None:
    """The agent has its 429 and swallows it; the proxy that gave it dies by kill -9 before anything else happens."""

    async def dies(call: Caller) -> object:
        heard = await call("broken", "/v1/responses")
        await nodes.proxying[AGENTS].end(signal.SIGKILL)
        assert heard.status == 429
        return RESULT

    await nodes.plays(dies, broken=FakeServer("model", {"/v1/responses": Said("quota", 429)}))
    await nodes.expects(("agent", 0, 0))
    assert cause((await nodes.run(0)).value) == ("broken", "model", "http_status", 429)
    assert await nodes.states(0) == {"0-0": "failed"}


@pytest.mark.parametrize("ahead", [100.0, -100.0])
async def test_a_machine_whose_clock_is_wrong_changes_no_verdict(nodes: Nodes, ahead: float) -> None:
    """The agent's: what fails there before the answer is no late call, and what fails behind the answer is one."""
    await nodes.proxying[AGENTS].end(signal.SIGTERM)
    nodes.clocks[AGENTS].set(ahead)
    await nodes.proxying[AGENTS].start()
    await nodes.proxying[AGENTS].up()
    behind, told = asyncio.Event(), list[asyncio.Task[object]]()

    async def goes_on(call: Caller) -> object:
        async def cleans_up() -> object:
            await behind.wait()
            return await call("broken", "/v1/responses")

        task = call.row["_ng_task_index"]
        if task == 0:
            await call("broken", "/v1/responses")
        told.append(asyncio.ensure_future(cleans_up()))
        return RESULT

    await nodes.plays(goes_on, broken=FakeServer("model", {"/v1/responses": Said("quota", 429)}))
    await nodes.expects(("agent", 0, 0), ("agent", 1, 0))
    for task in (0, 1):
        await nodes.run(task)
    nodes.clocks[AGENTS].set(-ahead)
    behind.set()
    await asyncio.gather(*told)
    await eventually(lambda: has_told(nodes, AGENTS))
    assert await nodes.states(0) == {"0-0": "failed", "1-0": "succeeded"}


async def has_told(nodes: Nodes, machine: int) -> bool:
    """Nothing waits at this machine's proxy."""
    ready = await nodes.ask("GET", f"{nodes.proxies[machine]}/readyz")
    return ready.status == 200 and (await nodes.gate()).status == 200


async def test_a_clock_that_is_set_while_a_run_goes_on_changes_no_verdict(nodes: Nodes) -> None:
    """Forward and back, by an hour, at each machine, between a call and the answer."""
    await stands(nodes)

    async def is_set(call: Caller) -> object:
        result = await play(call)
        for clock in nodes.clocks:
            clock.set(3600.0 if call.row["_ng_task_index"] % 2 else -3600.0)
        return result

    await nodes.plays(is_set, **{name: each for name, each in nodes.servers.items() if name != "agent"})
    await nodes.expects(*(("agent", task, 0) for task in range(4)))
    for task in range(4):
        await nodes.run(task)
    await eventually(lambda: has_told(nodes, AGENTS))
    assert await nodes.states(0) == {f"{task}-0": right(task) for task in range(4)}


async def _answered(nodes: Nodes) -> object:
    gate = await nodes.gate()
    return gate if gate.status == 200 else None


def _state(answer: dict[str, object]) -> str:
    return "failed" if "_ng_failure_class" in answer else "succeeded"
