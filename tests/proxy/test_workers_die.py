"""Workers and first processes that die: nothing that was in flight counts as a success, and no process stays behind."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from proxystage.crew import pids, turns
from proxystage.fakes import RESULT, Caller, FakeServer, Said
from proxystage.process import ProxyProcess, proxy_process
from proxystage.world import Stage, World, cause, eventually, told

RESPONSES = "/v1/responses"


class Held:
    """A model server that answers when it is let; an agent whose call of it may end in any way."""

    def __init__(self) -> None:
        self.asked, self.opened = asyncio.Event(), asyncio.Event()
        self.server = FakeServer("model", {RESPONSES: self.respond})

    async def respond(self, _: object) -> object:
        self.asked.set()
        await self.opened.wait()
        return Said({"status": "completed", "output": []}).response()

    async def play(self, call: Caller) -> object:
        """Task 0 calls: it swallows a cut-off. The others call nobody."""
        if call.row["_ng_task_index"] == 0:
            try:
                await call("model", "/v1/models", method="GET")  # the first process has the turn
                await call("model", RESPONSES)
            except OSError:
                return RESULT
            raise AssertionError("an answer")
        return RESULT


async def test_what_was_in_flight_in_a_killed_worker_is_no_success(stage: Stage) -> None:
    """The agent swallows the cut-off and gives a reward: the rollout fails, the one before and the one after do not."""
    world, held = await stage(workers=2), Held()
    await world.plays(held.play, "agent", model=held.server)
    await world.expects(*[("agent", task, 0) for task in range(3)])
    assert told(await world.run(1)) == (200, None)
    running = asyncio.ensure_future(world.run(0))
    await held.asked.wait()
    first, worker = await pids(world)
    os.kill(worker, signal.SIGKILL)
    row = (await running).value
    assert cause(row) == ("rollcall worker", "other", "peer_drop", None)
    assert f"worker process {worker} " in row["_ng_failure_message"]
    again = await eventually(lambda: _two(world))
    assert again[0] == first
    assert again[1] != worker
    assert told(await world.run(2)) == (200, None)
    assert await world.totals() == {"expected": 3, "succeeded": 2, "failed": 1}


async def _two(world: World) -> list[int] | None:
    found = await pids(world)
    return found if len(found) == 2 else None


async def test_a_worker_that_takes_another_ones_place_knows_what_stood_failed(stage: Stage) -> None:
    """A call fails, and is repeated with success at a worker that has been started since: recovered."""
    world, repeated = await stage(workers=2), asyncio.Event()
    server = FakeServer("model", {RESPONSES: [Said("busy", 500), Said("busy", 500), Said({}), Said({})]})

    async def play(call: Caller) -> object:
        await call("model", RESPONSES)
        await repeated.wait()
        for _ in range(3):
            await call("model", RESPONSES)
        return RESULT

    await world.plays(play, "agent", model=server)
    await world.expects(("agent", 0, 0))
    running = asyncio.ensure_future(world.run())
    await eventually(lambda: _heard(server, 1))
    _, worker = await pids(world)
    os.kill(worker, signal.SIGKILL)
    await eventually(lambda: _replaced(world, worker))
    repeated.set()
    answer = await running
    assert turns(server)[1:] in ([0, 1, 0], [1, 0, 1])
    tags = {tag["what"]: tag["recovered"] for tag in await world.tags()}
    assert tags == {"http_status": True, "peer_drop": False}, "what was open when a worker died fails all the same"
    assert told(answer) == (200, "verdict")


async def _heard(server: FakeServer, wanted: int) -> bool:
    return len(server.heard) == wanted


async def _replaced(world: World, worker: int) -> bool:
    found = await pids(world)
    return len(found) == 2 and worker not in found


def ended(pid: int) -> bool:
    """Whether a process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


async def _all_ended(pids: list[int]) -> bool:
    return all(ended(pid) for pid in pids)


async def kills(proxy: ProxyProcess) -> None:
    await proxy.kill()


async def terminates(proxy: ProxyProcess) -> None:
    proxy.process.terminate()
    assert await proxy.process.wait() == 0


@pytest.mark.parametrize("end", [kills, terminates])
async def test_workers_end_with_the_first_process(stage: Stage, end: Callable[[ProxyProcess], Awaitable[None]]) -> None:
    """kill -9 and SIGTERM: none stays behind, with a call in flight in one of them."""
    world, held = await stage(), Held()
    await world.proxy_stops()
    async with proxy_process(world, workers="3") as proxy:
        await world.plays(held.play, "agent", model=held.server)
        await world.expects(("agent", 0, 0))
        running = asyncio.ensure_future(world.run(0))
        await held.asked.wait()
        processes = await pids(world)
        assert len(processes) == 3
        await end(proxy)
        assert await eventually(lambda: _all_ended(processes))
    await asyncio.gather(running, return_exceptions=True)


async def test_a_call_that_a_worker_carries_may_end_before_the_proxy_does(stage: Stage) -> None:
    """SIGTERM while it is in flight: it is answered, its rollout succeeds, and the proxy ends with 0."""
    world, asked, opened = await stage(), asyncio.Event(), asyncio.Event()
    await world.proxy_stops()

    async def respond(_: object) -> object:
        asked.set()
        await opened.wait()
        return Said({"status": "completed", "output": []}).response()

    async def play(call: Caller) -> object:
        await call("model", "/v1/models", method="GET")  # the first process has the turn
        assert (await call("model", RESPONSES)).status == 200
        return RESULT

    async with proxy_process(world, workers="2") as proxy:
        await world.plays(play, "agent", model=FakeServer("model", {RESPONSES: respond}))
        await world.expects(("agent", 0, 0))
        running = asyncio.ensure_future(world.run())
        await asked.wait()
        proxy.process.terminate()
        await eventually(lambda: _drains(world))
        opened.set()
        assert told(await running) == (200, None)
        assert await proxy.process.wait() == 0
    assert await world.totals() == {"expected": 1, "succeeded": 1}


async def _drains(world: World) -> bool:
    return (await world.main("GET", "/readyz")).status == 503


async def test_a_signal_for_the_whole_group_is_the_first_processs_to_obey(stage: Stage) -> None:
    """What a terminal's Ctrl-C sends to all: a worker that gets one alone goes on."""
    world = await stage(workers=2)
    _, worker = await pids(world)
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(worker, number)
    await asyncio.sleep(0.2)
    assert (await pids(world))[1] == worker
    assert not ended(worker)
