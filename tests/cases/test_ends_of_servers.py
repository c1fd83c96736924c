"""Servers that are away, go away or never answer, and connections that end: one rollout each, told apart."""

import asyncio
import json
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web
from attachlab import run_gym
from case_run import GymRun, names
from case_wire import head
from collector_events import T0, begun, ended, tag
from collector_store import Store
from proxystage.fakes import RESULT, Caller, FakeServer, Said
from proxystage.process import proxy_process
from proxystage.raw import Peer
from proxystage.world import Stage, World, cause, eventually, told
from rollcall_collector.contract.exchange import Tag
from rollcall_proxy.settings import Limits

ZERO = RESULT | {"reward": 0.0}
HOUR = 3600


class Working:
    """An agent that has seeded and made a failing model call, and then waits until it is let go on."""

    def __init__(self) -> None:
        self.seeded, self.goes_on, self.runs = asyncio.Event(), asyncio.Event(), 0

    async def __call__(self, call: Caller) -> object:
        self.runs += 1
        await call("tools", "/seed_session")
        await call("model", "/v1/probe" if self.runs > 1 else "/v1/responses", {"first": self.runs == 1})
        self.seeded.set()
        await self.goes_on.wait()
        return RESULT


async def dispatched(gym: GymRun, working: Working, model: FakeServer | None = None) -> "asyncio.Task[list[object]]":
    """One rollout, on its way as far as the agent comes."""
    await gym.world.plays(working, model=model or FakeServer("model", {"/v1/responses": Said({})}))
    await gym.starts("4-0")
    running = asyncio.ensure_future(gym.dispatches())
    await working.seeded.wait()
    return running  # type: ignore[return-value]  # what is in it does not matter


async def test_a_run_sent_again_joins_the_one_that_runs(gym: GymRun) -> None:
    """Its connection was cut before any answer: one execution, one row (NVIDIA-NeMo/Gym#2554)."""
    working = Working()
    first = await dispatched(gym, working)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    again = asyncio.ensure_future(gym.dispatches())
    await asyncio.sleep(0.05)
    working.goes_on.set()
    assert [told(each) for each in await again] == [(200, None)]
    assert (working.runs, names(gym.output), names(gym.failures)) == (1, ["4-0"], [])
    assert len((await gym.world.rollout("4-0"))["dispatches"]) == 1


async def test_two_callers_of_one_run_get_the_same_answer(gym: GymRun) -> None:
    """While the first still waits, too (NVIDIA-NeMo/Gym#2554)."""
    working = Working()
    await gym.world.plays(working)
    await gym.starts("4-0")
    both = [asyncio.ensure_future(gym.world.run(4)) for _ in range(2)]
    await working.seeded.wait()
    await asyncio.sleep(0.05)
    working.goes_on.set()
    assert [(await each).value for each in both] == [RESULT, RESULT]
    assert working.runs == 1


async def test_a_run_that_a_restarted_proxy_lost_is_a_dispatch_of_its_own(gym: GymRun) -> None:
    """The first one's tags stay with it and decide nothing; one row is written (NVIDIA-NeMo/Gym#2554)."""
    working, world = Working(), gym.world
    first = await dispatched(gym, working, FakeServer("model", {"/v1/responses": Said("no", 500)}))
    await world.proxy_stops()
    await asyncio.gather(first, return_exceptions=True)
    await world.proxy_starts()
    working.goes_on.set()
    await world.plays(working, model=FakeServer("model", {"/v1/probe": Said({})}))
    await gym.dispatches()
    assert (working.runs, names(gym.output), names(gym.failures)) == (2, ["4-0"], [])
    dispatches = (await world.rollout("4-0"))["dispatches"]
    assert [[each["what"] for each in dispatch["tags"]] for dispatch in dispatches] == [["http_status"], []]
    assert len({dispatch["dispatch"] for dispatch in dispatches}) == 2


async def test_a_refused_connection_is_answered_and_never_dropped(world: World) -> None:
    """A 502 that says in JSON whose it is and why (NVIDIA-NeMo/Gym#2216)."""
    answers = []

    async def play(call: Caller) -> object:
        answers.append(await call("away", "/seed_session"))
        return ZERO

    await world.stands_at("http://127.0.0.1:9", "resources", "away")
    await world.plays(play)
    await world.expects(("agent", 0, 0))
    assert cause((await world.run()).value) == ("away", "seed_session", "unreachable", None)
    assert told(answers[0]) == (502, "unreachable")
    assert (answers[0].value["error"], answers[0].value["server"]) == ("unreachable", "away")
    assert "connect_window" in answers[0].value["detail"]


async def test_a_proxy_that_dies_ends_the_run_with_4(stage: Stage, tmp_path: Path) -> None:
    """Gym's clients would try for ever: its command is stopped, and says why (NVIDIA-NeMo/Gym#2216)."""
    world = await stage()
    await world.proxy_stops()
    async with proxy_process(world) as proxy:
        await world.plays(Working())
        servers = {"agent": {"responses_api_agents": {"fake": {"host": "127.0.0.1", "port": 1}}}}
        wanted = {"rows": [{"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "agent"}}], "takes": 60}
        variables = {
            "ROLLCALL_PROXY": world.proxy,
            "ROLLCALL_PROXY_GRACE": "0.5",
            "FAKE_HEAD_SERVER": json.dumps(servers),
            "FAKE_GYM": json.dumps(wanted),
            "FAKE_CONFIG": json.dumps({"output": str(tmp_path / "rollouts.jsonl")}),
        }
        code = "import nemo_gym.cli.eval as e; e.collect_rollouts(); print('ended')"
        running = asyncio.ensure_future(asyncio.to_thread(run_gym, code, **variables))
        await eventually(lambda: _has_run(world))
        await proxy.kill()
        done = await running
    assert (done.status, "ended" in done.out) == (4, False)
    assert "has not answered for 0.5 s (ROLLCALL_PROXY_GRACE); stopping this run" in done.err


async def _has_run(world: World) -> bool:
    runs = (await world.ask("GET", f"{world.collector}/v1/runs")).value["runs"]
    return any(run["totals"]["expected"] for run in runs)


class Parked:
    """A model that takes the request of task 1, reads it whole and sends nothing."""

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if (await request.json())["task"] == 1:
            await asyncio.Event().wait()
        return Said({"status": "completed", "output": []}).response()


async def asking(call: Caller) -> object:
    await call("model", "/v1/responses", {"task": call.row["_ng_task_index"]})
    return ZERO


async def test_a_model_that_never_answers_fails_one_rollout_alone(stage: Stage) -> None:
    """After the limit it is a 504 of the proxy's, and the others have finished (NVIDIA-NeMo/RL#3470)."""
    world = await stage(first_byte_timeout=0.5)
    await world.plays(asking, model=FakeServer("model", {"/v1/responses": Parked()}))
    await world.expects(*[("agent", task, 0) for task in range(4)])
    answers = await asyncio.gather(*[world.run(task) for task in range(4)])
    assert [each.answered_by_rollcall for each in answers] == [None, "verdict", None, None]
    assert cause(answers[1].value) == ("model", "model", "timeout", None)
    assert await world.totals() == {"expected": 4, "succeeded": 3, "failed": 1}


async def test_a_rollout_that_is_parked_is_running_and_not_missing(world: World) -> None:
    """Asked while it waits, the gate counts it as open (NVIDIA-NeMo/RL#3470)."""
    await world.plays(asking, model=FakeServer("model", {"/v1/responses": Parked()}))
    await world.expects(*[("agent", task, 0) for task in range(4)])
    parked = asyncio.ensure_future(world.run(1))
    await asyncio.gather(*[world.run(task) for task in (0, 2, 3)])
    gate = (await world.main("GET", "/v1/runs/r-1/gate")).value
    [benchmark] = gate["benchmarks"]
    assert (benchmark["succeeded"], benchmark["running"], benchmark["missing"]) == (3, 1, 0)
    assert (gate["complete"], benchmark["reason"]) == (False, "1 running")
    parked.cancel()


def test_a_rollout_that_is_open_for_long_shows_as_stalled(tmp_path: Path) -> None:
    """Ten minutes after its begin, while its dispatcher lives (NVIDIA-NeMo/RL#3470)."""
    store = Store(tmp_path / "x.sqlite3")
    store.session()
    store.expects(0, 1)
    store.sends(begun("d-0", "0-0"), begun("d-1", "1-0", started_at=T0 + 300))
    found = []
    for after in (599, 601, 901):
        store.beats(now=T0 + after)
        found.append(store.reader.status("r-1", T0 + after)["stalled"])
    store.close()
    assert found == [0, 1, 2]


def test_the_limits_are_longer_than_any_healthy_generation() -> None:
    """Four hours for a model, twelve for a rollout (marin-community/marin#7173)."""
    limits = Limits.model_validate({})
    assert {limits.first_byte_timeout, limits.idle_timeout, limits.total_timeout} == {4 * HOUR}
    assert limits.run_timeout == 12 * HOUR


ROLLOUTS = 150


@pytest.fixture
def _open_files() -> Iterator[None]:
    """All ends of all connections are in this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("_open_files")
async def test_150_rollouts_that_need_three_more_connections_each_all_end(world: World) -> None:
    """None waits for a connection that another one holds (BerriAI/litellm#19711)."""
    all_hold = asyncio.Barrier(ROLLOUTS)

    async def play(call: Caller) -> object:
        await all_hold.wait()
        for server, path in (("agent", "/v1/responses"), ("model", "/v1/responses"), ("tools", "/get_weather")):
            assert (await call(server, path)).status == 200
        return RESULT

    player = await world.plays(play)
    player.answers["/v1/responses"] = Said({})
    await world.expects(*[("agent", task, 0) for task in range(ROLLOUTS)])
    answers = await asyncio.gather(*[world.run(task) for task in range(ROLLOUTS)])
    assert {told(each) for each in answers} == {(200, None)}
    assert await world.totals() == {"expected": ROLLOUTS, "succeeded": ROLLOUTS}


@pytest.mark.parametrize("path", ["/run", "/v1/responses"])
async def test_a_kept_connection_that_closes_under_a_request_is_said_and_not_tried_again(
    world: World, path: str
) -> None:
    """Whether the request was delivered is unknown, and a POST is sent once (NVIDIA-NeMo/Gym#1555)."""
    requests = []

    async def script(peer: Peer) -> None:
        requests.append(await peer.request())
        await peer.say(head("Content-Length: 13") + b'{"reward": 1}')
        requests.append(await peer.request())

    await world.stands_at((await world.serves_raw(script)).url, "agent", "agent")
    await world.expects(("agent", 0, 0), ("agent", 1, 0))
    row = {"_ng_rollout_index": 0, "agent_ref": {"name": "agent"}}
    answers = [await world.post("agent", path, row | {"_ng_task_index": task}) for task in (0, 1)]
    assert ([told(each)[0] for each in answers], len(requests)) == ([200, 200 if path == "/run" else 502], 2)
    said = answers[1].value["_ng_failure_message"] if path == "/run" else answers[1].value["detail"]
    assert "lost before any answer; whether the request was delivered is unknown" in said


LIMITED = Said({"error": {"type": "rate_limit_error"}}, 429, fields={"Retry-After": "7"})
TRIES = 200


async def test_retries_are_the_callers_own_and_so_is_their_pace(world: World) -> None:
    """Retry-After passes, no try is added, and it is one call that failed (NVIDIA-NeMo/Gym#2527)."""
    told_to_wait = []

    async def play(call: Caller) -> object:
        for _ in range(TRIES):
            answer = await call("model", "/v1/responses", {"the": "same"})
            told_to_wait.append((answer.status, answer.fields["Retry-After"]))
        return ZERO

    model = FakeServer("model", {"/v1/responses": LIMITED})
    await world.plays(play, model=model)
    await world.expects(("agent", 0, 0))
    answer = await world.run()
    assert told_to_wait == [(429, "7")] * TRIES
    assert len(model.heard) == TRIES
    assert cause(answer.value) == ("model", "model", "http_status", 429)
    [record] = await world.tags()
    assert (record["count"], record["last_at"] > record["ended_at"], len(answer.body) < 4000) == (TRIES, True, True)


def test_a_rollout_that_tries_for_ever_shows_as_stalled_meanwhile(tmp_path: Path) -> None:
    """Five thousand tries are one record with first and last time, and the row is small (NVIDIA-NeMo/Gym#2527)."""
    store = Store(tmp_path / "x.sqlite3")
    store.session()
    store.expects(0)
    store.sends(begun("d-0", "0-0"))
    for first in range(0, 5000, 500):
        store.sends(*[refused(number) for number in range(first, first + 500)])
    store.beats(now=T0 + 700)
    status, shown = store.reader.status("r-1", T0 + 700), store.rollout("0-0", now=T0 + 700)
    [ruling] = store.sends(ended("d-0", answer_began_at=T0 + 700, ended_at=T0 + 701))
    store.close()
    assert (status["stalled"], status["totals"]["running"]) == (1, 1)
    [record] = shown["dispatches"][0]["tags"]
    assert [record[word] for word in ("count", "started_at", "last_at")] == [5000, T0, refused(4999).ended_at]
    assert (ruling["state"], len(json.dumps(ruling["row"])) < 4000) == ("failed", True)


def refused(number: int) -> Tag:
    """One of the tries of a loop."""
    times = {"started_at": T0 + number / 10, "ended_at": T0 + number / 10 + 0.05}
    return tag("d-0", f"x-{number}", call="c-1", status=429, **times)
