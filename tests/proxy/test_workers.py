"""Two processes and one contract: calls of one rollout pass through both, and it is judged as if there were one."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from proxystage.crew import carriers, turns
from proxystage.fakes import RESULT, Caller, FakeServer, Heard, Play, Said
from proxystage.raw import Peer, connect
from proxystage.world import GONE, TOOLS, Stage, World, cause, eventually, told

GOOD, BAD = Said({"status": "completed", "output": []}), Said("busy", 500)
PROXY = {"workers": 2}
RESPONSES = "/v1/responses"


@pytest.fixture
async def world(stage: Stage) -> World:
    """A world whose proxy is two processes, which take turns at each listener."""
    return await stage(**PROXY)


def model(*said: Said) -> FakeServer:
    return FakeServer("model", {RESPONSES: list(said)})


def calling(times: int, *bodies: Any) -> Play:
    """An agent that calls its model so many times, with the same body or with these."""

    async def play(call: Caller) -> object:
        for number in range(times):
            await call("model", RESPONSES, bodies[number] if bodies else None)
        return RESULT

    return play


async def played(world: World, play: Play, **others: FakeServer) -> Heard:
    await world.plays(play, "agent", **others)
    await world.expects(("agent", 0, 0))
    return await world.run()


async def test_the_processes_take_turns_and_every_call_is_counted(world: World) -> None:
    """Six calls at once, so that it matters not how soon it is heard that one has gone: three each, and the status says
    six exchanges, all with an owner."""
    together = asyncio.Barrier(6)

    async def respond(_: web.Request) -> web.Response:
        await together.wait()
        return GOOD.response()

    async def play(call: Caller) -> object:
        await asyncio.gather(*(call("model", RESPONSES, {"number": number}) for number in range(6)))
        return RESULT

    server = FakeServer("model", {RESPONSES: respond})
    assert told(await played(world, play, model=server)) == (200, None)
    assert sorted(turns(server)) == [0, 0, 0, 1, 1, 1]
    await world.metrics()
    [seen] = [each for each in (await world.status())["servers"] if each["server"] == "model"]
    assert (seen["exchanges"], seen["owned"]) == (6, 6)
    [agent] = [each for each in (await world.status())["servers"] if each["server"] == "agent"]
    assert agent["made"] == 6
    shown = await eventually(lambda: _shown(world, 7))
    assert len({span["exchange"].partition(".")[0] for span in shown}) == 2
    metrics = (await world.main("GET", "/metrics")).body.decode()
    assert 'rollcall_exchanges_total{outcome="good",role="model",server="model"} 6.0' in metrics


async def _shown(world: World, wanted: int) -> list[dict[str, Any]] | None:
    spans = (await world.rollout())["dispatches"][-1]["spans"]
    return spans if len(spans) == wanted else None


async def test_what_workers_carry_is_in_flight(world: World) -> None:
    """Two calls that wait for their answers, one in each process."""
    asked, opened = asyncio.Semaphore(0), asyncio.Event()

    async def respond(_: web.Request) -> web.Response:
        asked.release()
        await opened.wait()
        return GOOD.response()

    async def play(call: Caller) -> object:
        waiting = [asyncio.ensure_future(call("model", RESPONSES, {"number": number})) for number in range(2)]
        for _ in waiting:
            await asked.acquire()
        assert await eventually(lambda: _in_flight(world, "model", 2))
        opened.set()
        await asyncio.gather(*waiting)
        return RESULT

    assert told(await played(world, play, model=FakeServer("model", {RESPONSES: respond}))) == (200, None)
    assert await eventually(lambda: _in_flight(world, "model", 0))


async def _in_flight(world: World, server: str, wanted: int) -> bool:
    metrics = (await world.main("GET", "/metrics")).body.decode()
    return f'rollcall_exchanges_in_flight{{server="{server}"}} {wanted}.0' in metrics


@pytest.mark.parametrize("before", [0, 1], ids=["first process first", "worker first"])
async def test_a_call_that_fails_in_one_process_and_is_repeated_in_the_other_has_recovered(
    world: World, before: int
) -> None:
    """500, then 200 to the same request, which came another way."""
    bodies = [{"number": number} for number in range(before)] + [{"again": True}] * 2
    server = model(*[GOOD] * before, BAD, GOOD)
    assert told(await played(world, calling(before + 2, *bodies), model=server)) == (200, None)
    assert len(set(carriers(server)[-2:])) == 2
    assert [(tag["status"], tag["recovered"]) for tag in await world.tags()] == [(500, True)]


@pytest.mark.parametrize("before", [0, 1], ids=["first process first", "worker first"])
async def test_tries_in_both_processes_are_one_call(world: World, before: int) -> None:
    """429, 429, 500: one call that stands failed, by its last exchange."""
    bodies = [{"number": number} for number in range(before)] + [{"again": True}] * 3
    server = model(*[GOOD] * before, Said("slow", 429), Said("slow", 429), BAD)
    row = (await played(world, calling(before + 3, *bodies), model=server)).value
    assert cause(row) == ("model", "model", "http_status", 500)
    assert set(turns(server)) == {0, 1}
    assert len({tag["call"] for tag in await world.tags()}) == 1


@pytest.mark.parametrize("before", [0, 1], ids=["first process first", "worker first"])
async def test_a_later_good_answer_heals_across_processes_under_last_wins(stage: Stage, before: int) -> None:
    """Another body, another process."""
    world = await stage(policy={"model_errors": "last_wins"}, **PROXY)
    server = model(*[GOOD] * before, BAD, GOOD)
    bodies = [{"number": number} for number in range(before + 2)]
    assert told(await played(world, calling(before + 2, *bodies), model=server)) == (200, None)
    assert await world.totals() == {"expected": 1, "succeeded": 1}


async def test_only_a_workers_calls_count_as_model_calls(stage: Stage) -> None:
    """`no_model_call = fail`: one call of each rollout, by turns in either process, saves it; without any it fails."""
    world = await stage(policy={"no_model_call": "fail"}, **PROXY)
    server = model(GOOD)

    async def play(call: Caller) -> object:
        if call.row["_ng_task_index"] < 4:
            await call("model", RESPONSES)
        return RESULT

    await world.plays(play, "agent", model=server)
    await world.expects(*[("agent", task, 0) for task in range(5)])
    answers = [await world.run(task) for task in range(5)]
    assert turns(server) == [0, 1, 0, 1]
    assert [each.answered_by_rollcall for each in answers] == [None] * 4 + ["verdict"]
    assert answers[4].value["_ng_failure_type"] == "no_model_call"


async def test_a_resent_run_joins_in_whichever_process_it_arrives(world: World) -> None:
    """Four times the same body, by turns at both: one execution, and all get its answer."""
    opened, runs = asyncio.Event(), 0

    async def play(_: Caller) -> object:
        nonlocal runs
        runs += 1
        await opened.wait()
        return RESULT

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    running = [asyncio.ensure_future(world.run()) for _ in range(4)]
    await eventually(lambda: _runs_at(world, "agent", 4))
    opened.set()
    assert [told(each) for each in await asyncio.gather(*running)] == [(200, None)] * 4
    assert runs == 1
    assert len((await world.rollout())["dispatches"]) == 1


async def _runs_at(world: World, server: str, wanted: int) -> bool:
    """Whether all of these connections are with the first process: none is a worker's any more."""
    processes = (await world.main("GET", "/v1/upstreams")).value["processes"]
    first, second = (each["connections"][world.listeners[server]] for each in processes)
    return (first, second) == (wanted // 2, 0)


async def test_what_only_the_first_process_can_name_is_named_wherever_it_arrives(world: World) -> None:
    """Gym's path prefix, without any token: two failed calls, one at each process, and both are the rollout's."""
    server = FakeServer("model", {f"/ng-rollout/0-0{RESPONSES}": Said("bad", 400)})

    async def play(call: Caller) -> object:
        for number in range(2):
            await call("model", f"/ng-rollout/0-0{RESPONSES}", {"number": number}, fields={})
        return RESULT

    row = (await played(world, play, model=server)).value
    assert [tag["owner_by"] for tag in await world.tags()] == ["path", "path"]
    assert cause(row)[2:] == ("http_status", 400)
    assert len(set(carriers(server))) == 1


async def test_a_failed_call_without_an_owner_is_unattributed_wherever_it_arrives(world: World) -> None:
    """Nothing is guessed, in no process."""

    async def play(call: Caller) -> object:
        for _ in range(2):
            await call("model", RESPONSES, fields={})
        return RESULT

    assert told(await played(world, play, model=model(Said("bad", 400)))) == (200, None)
    assert told(await world.metrics()) == (200, "withheld")
    assert (await world.status())["unattributed"] == 2


async def test_a_connection_goes_to_the_process_that_may_answer_and_comes_back(world: World) -> None:
    """Calls on one connection that begins at the worker: what is judged goes to the first process, tools return."""
    tools, passed = FakeServer("resources", TOOLS.copy()), list[bytes]()

    async def play(call: Caller) -> object:
        await call("tools", "/get_weather")  # the first process has the turn
        peer = await connect(world.listeners["tools"])
        for path in ("/get_weather", "/verify", "/get_weather", "/verify"):
            fields = f"Host: gym\r\nContent-Length: 2\r\nRollcall-Owner: {call.owner}"
            await peer.say(f"POST {path} HTTP/1.1\r\n{fields}\r\n\r\n{{}}".encode())
            passed.append(await peer.request())
        peer.close()
        return RESULT

    assert told(await played(world, play, tools=tools)) == (200, None)
    assert turns(tools) == [0, 1, 0, 1, 0]
    assert all(each.startswith(b"HTTP/1.1 200 OK\r\n") for each in passed)


async def test_a_large_run_that_arrives_at_a_worker_reaches_the_agent_whole(world: World) -> None:
    """A megabyte, most of it not read yet when its connection moves."""
    note = "x" * 2**20

    async def play(call: Caller) -> object:
        assert call.row["note"] == note
        return RESULT

    agent = await world.plays(play)
    await world.expects(("agent", 0, 0), ("agent", 1, 0))
    assert [told(await world.run(task, note=note)) for task in (0, 1)] == [(200, None)] * 2
    assert len(agent.heard) == 2


async def test_a_server_that_one_process_hears_leaving_is_leaving_for_the_other(world: World) -> None:
    """One answer says so; the next call, of another process, is refused: the rollout is omitted, not failed."""
    said = b'"Request was cancelled"'

    async def leaves(peer: Peer) -> None:
        await peer.request()
        head = b"HTTP/1.1 500 Oh\r\nRollcall-Shutdown: 1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        await peer.say(head % len(said) + said)

    async def play(call: Caller) -> object:
        await call("model", RESPONSES, {"number": 1})
        await server.stop()
        await call("model", RESPONSES, {"number": 2})
        return RESULT

    server = await world.serves_raw(leaves)
    await world.plays(play)
    await world.stands_at(server.url)
    await world.expects(("agent", 0, 0))
    assert (await world.run()).value["_ng_no_persist"] is True
    tags = [(tag["what"], tag["shutdown"]) for tag in await world.tags()]
    assert tags == [("http_status", True), ("unreachable", True)]


async def test_a_dead_server_costs_its_window_once_for_all_processes(stage: Stage) -> None:
    """The first call waits for the whole window; the next, in the other process, fails at once."""
    world = await stage(connect_window=1.0, **PROXY)
    loop, took = asyncio.get_running_loop(), list[float]()

    async def play(call: Caller) -> object:
        for number in range(4):
            begun = loop.time()
            await call("model", RESPONSES, {"number": number})
            took.append(loop.time() - begun)
        return RESULT

    gone = model()
    gone.url = GONE
    row = (await played(world, play, model=gone)).value
    assert cause(row)[:3] == ("model", "model", "unreachable")
    assert took[0] > 1.0 > max(took[1:])


async def test_a_users_rule_speaks_in_every_process(stage: Stage, tmp_path: Path) -> None:
    """A good status whose body says that it is none."""
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nname = "empty"\nserver = "model"\npattern = "no tokens left"\neffect = "failure"\n')
    world = await stage(policy={"rules": rules}, **PROXY)
    server = model(Said({"output": "no tokens left"}))
    await played(world, calling(2, {"number": 1}, {"number": 2}), model=server)
    assert turns(server) == [0, 1]
    assert [tag["what"] for tag in await world.tags()] == ["body_failure"] * 2


async def test_a_caller_that_leaves_a_worker_is_cancelled(world: World) -> None:
    """Recorded, and no failure; its server's connection is closed."""
    asked, left = asyncio.Event(), list[bytes]()

    async def silent(peer: Peer) -> None:
        await peer.request()
        asked.set()
        left.append(await peer.until_lost())

    async def play(call: Caller) -> object:
        for _ in range(2):
            asked.clear()
            waiting = asyncio.ensure_future(call("model", RESPONSES))
            await asked.wait()
            waiting.cancel()
        return RESULT

    server = await world.serves_raw(silent)
    await world.plays(play)
    await world.stands_at(server.url)
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, None)
    assert await eventually(lambda: _cancelled(world, 2))
    assert left == [b"", b""]


async def _cancelled(world: World, wanted: int) -> bool:
    return [tag["what"] for tag in await world.tags()] == ["cancelled"] * wanted


def plan(chance: random.Random) -> list[list[bool]]:
    """Five calls; for each of its tries, whether it fails."""
    return [[chance.random() < 0.3 for _ in range(chance.randint(1, 3))] for _ in range(5)]


async def test_64_rollouts_at_once_with_faults_end_as_they_should(world: World) -> None:
    """Each makes calls that fail by chance and are tried again by chance: failed is what has one whose last try did."""
    chance = random.Random(64)
    plans = [plan(chance) for _ in range(64)]

    async def respond(request: web.Request) -> web.Response:
        return (BAD if request.headers["Fails"] == "1" else GOOD).response()

    async def play(call: Caller) -> object:
        async def tries(number: int, fails: list[bool]) -> None:
            for each in fails:
                fields = {"Rollcall-Owner": call.owner, "Fails": str(int(each))}
                await call("model", RESPONSES, {"number": number}, fields=fields)

        await asyncio.gather(*[tries(*each) for each in enumerate(plans[call.row["_ng_task_index"]])])
        return RESULT

    await world.plays(play, "agent", model=FakeServer("model", {RESPONSES: respond}))
    await world.expects(*[("agent", task, 0) for task in range(64)])
    answers = await asyncio.gather(*[world.run(task) for task in range(64)])
    truth = [not any(call[-1] for call in each) for each in plans]
    assert [each.answered_by_rollcall is None for each in answers] == truth
    assert await world.totals() == {"expected": 64, "succeeded": sum(truth), "failed": 64 - sum(truth)}
