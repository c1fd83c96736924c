"""Trouble of Rollcall's own changes no verdict, and one cause below is not three failures above."""

import asyncio
import resource
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from case_run import GymRun
from collector_locks import held
from proxystage.fakes import RESULT, Caller, FakeServer, Said
from proxystage.world import Stage, World, cause, eventually, told

ZERO = RESULT | {"reward": 0.0}


async def third_fails(call: Caller) -> object:
    """Task 3 swallows a failed model call; the others are good."""
    await call("model", "/v1/responses", {"task": call.row["_ng_task_index"]})
    return ZERO


async def model(request: web.Request) -> web.StreamResponse:
    bad = (await request.json())["task"] == 3
    return (Said("no such model", 400) if bad else Said({"status": "completed", "output": []})).response()


class CollectorProcess:
    """`rollcall collector` at the world's address and database."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    def disk(self, *, full: bool) -> None:
        """While it is full no file of the process grows."""
        limit = 0 if full else resource.RLIM_INFINITY
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    async def ends(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self.process.returncode is None:
            self.process.send_signal(number)
        await self.process.wait()


@asynccontextmanager
async def collecting(world: World, database: str = "c.sqlite3") -> AsyncIterator[CollectorProcess]:
    listen = world.collector.removeprefix("http://")
    command = [sys.executable, "-m", "rollcall_runner", "collector", "--listen", listen]
    process = await asyncio.create_subprocess_exec(
        *command,
        "--database",
        f"sqlite:///{world.folder / database}",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    started = CollectorProcess(process)
    try:
        assert process.stdout is not None
        assert b"listening on" in await process.stdout.readline()
        yield started
    finally:
        await started.ends()


async def begins(world: World) -> None:
    """The world's own collector makes place; a run of tasks 2 and 3."""
    await world.plays(third_fails, model=FakeServer("model", {"/v1/responses": model}))
    await world.expects(("agent", 2, 0), ("agent", 3, 0))


async def not_ready(world: World) -> bool:
    """The collector has noticed; what wakes it are the proxy's reports."""
    return (await world.ask("GET", f"{world.collector}/readyz")).status == 503


async def ready(world: World) -> bool:
    return (await world.main("GET", "/readyz")).status == 200


async def test_a_full_disk_of_the_collectors_changes_no_verdict(world: World) -> None:
    """Traffic flows, nothing is green until what was seen is stored (PrimeIntellect-ai/prime-rl#1589)."""
    await world.collector_stops()
    async with collecting(world) as collector:
        await begins(world)
        collector.disk(full=True)
        assert [told(await world.run(task)) for task in (2, 3)] == [(200, None), (200, "verdict")]
        assert told(await world.metrics()) == (200, "withheld")
        collector.disk(full=False)
        await eventually(lambda: ready(world))
        assert await world.totals() == {"expected": 2, "succeeded": 1, "failed": 1}
        assert [tag["status"] for tag in await world.tags("3-0")] == [400]


async def test_a_database_that_another_process_holds_changes_no_verdict(world: World) -> None:
    """Traffic flows meanwhile, nothing is green until what was seen is stored (PrimeIntellect-ai/prime-rl#1589)."""
    await world.collector_stops()
    async with collecting(world):
        await begins(world)
        with held(world.folder / "c.sqlite3"):
            await eventually(lambda: not_ready(world))
            assert [told(await world.run(task)) for task in (2, 3)] == [(200, None), (200, "verdict")]
            assert told(await world.metrics()) == (200, "withheld")
        await eventually(lambda: ready(world))
        assert await world.totals() == {"expected": 2, "succeeded": 1, "failed": 1}
        assert [tag["status"] for tag in await world.tags("3-0")] == [400]


async def test_a_collector_killed_before_a_tag_was_stored_gets_it_afterwards(world: World) -> None:
    """Killed between a call's end and its rollout's: what it missed is delivered (PrimeIntellect-ai/prime-rl#1589)."""
    await world.collector_stops()
    called, goes_on = asyncio.Event(), asyncio.Event()

    async def play(call: Caller) -> object:
        called.set()
        await goes_on.wait()
        return await third_fails(call)

    async with collecting(world) as collector:
        await begins(world)
        await world.plays(play, model=FakeServer("model", {"/v1/responses": model}))
        running = asyncio.ensure_future(world.run(3))
        await called.wait()
        await collector.ends()
        goes_on.set()
        assert told(await running) == (200, "verdict")
    async with collecting(world):
        await eventually(lambda: ready(world))
        assert await world.totals() == {"expected": 2, "failed": 1, "missing": 1}
        assert [tag["status"] for tag in await world.tags("3-0")] == [400]


async def test_an_empty_journal_never_hides_an_older_one(world: World) -> None:
    """A new one knows no run and is not green, the old one is as ever (PrimeIntellect-ai/prime-rl#1589)."""
    await world.collector_stops()
    async with collecting(world):
        await begins(world)
        await asyncio.gather(world.run(2), world.run(3))
    async with collecting(world, "new.sqlite3"):
        assert (await world.ask("GET", f"{world.collector}/v1/runs/r-1/gate")).status == 404
        assert told(await world.metrics()) == (200, "withheld")
    async with collecting(world):
        assert await world.totals() == {"expected": 2, "succeeded": 1, "failed": 1}


REFUSED = Said({"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}, 401)
ROLLOUTS = 4


async def wrapped(stage: Stage, *, watched: bool) -> World:
    """Provider 401, model 500, agent's own 500, /run 500: each wraps the text of the one below."""
    world = await stage(watch_providers=watched)
    provider = await world.serves(FakeServer("model", {"/v1/chat": REFUSED}))
    at = {"provider": provider.url}

    async def responses(request: web.Request) -> web.StreamResponse:
        below = await Caller(world.http, at, request)("provider", "/v1/chat")
        return Said(f"Hit an exception in model: Error code: {below.status} - {below.body.decode()}", 500).response()

    async def own(request: web.Request) -> web.StreamResponse:
        below = await Caller(world.http, world.listeners, request)("model", "/v1/responses")
        return Said(f"Hit an exception in agent: {below.body.decode()}", 500).response()

    async def play(call: Caller) -> object:
        below = await call("agent", "/v1/responses")
        return Said(f"Hit an exception in agent: {below.body.decode()}", 500)

    server = FakeServer("model", {"/v1/responses": responses})
    player = await world.plays(play, model=server)
    player.answers["/v1/responses"] = own
    if watched:
        named = server.entry["responses_api_models"]["fake"] | {"openai_base_url": provider.url + "/v1"}
        await world.config({"model": {"responses_api_models": {"fake": named}}})
        at["provider"] = world.listeners["model.provider"]
    return world


@pytest.mark.parametrize("watched", [True, False])
async def test_the_innermost_failure_is_the_cause(stage: Stage, watched: bool) -> None:
    """With its status and its own words, not the wrapping (NVIDIA-NeMo/Gym#2218)."""
    world = await wrapped(stage, watched=watched)
    await world.expects(("agent", 0, 0))
    row = (await world.run()).value
    expected = ("model.provider", "provider", "http_status", 401) if watched else ("model", "model", "http_status", 500)
    assert cause(row) == expected
    excerpt = row["_rollcall"]["root_cause"]["excerpt"]
    assert ("Incorrect API key provided" in excerpt, len(excerpt) <= 2000, '\\"' in excerpt) == (True, True, False)


async def test_how_many_rollouts_share_a_cause_is_said(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """One line for all four (NVIDIA-NeMo/Gym#2218)."""
    gym = GymRun(await wrapped(stage, watched=True), capsys)
    await gym.starts(*[f"{task}-0" for task in range(ROLLOUTS)])
    await gym.dispatches()
    await gym.ends()
    status, said, _ = await gym.asks("failures")
    assert status == 0, said
    assert f"{ROLLOUTS:6}  provider call to model.provider: http_status 401" in said
    assert said.count("http_status") == 1
