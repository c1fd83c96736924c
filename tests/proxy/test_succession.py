"""A proxy that comes back at its address: the same listeners, the same sessions, and what the last one had open."""

import asyncio
import logging
import os
import socket
from pathlib import Path

import aiohttp
import orjson
import pytest
from proxystage.fakes import RESULT, Caller, FakeServer, Said
from proxystage.process import free_address, proxy_process
from proxystage.world import Stage, World, cause, eventually, told
from rollcall_proxy.succession import Place, Succession, forget


@pytest.fixture
async def world(stage: Stage) -> World:
    """A world whose proxy is still to be started, at an address of its own."""
    world = await stage()
    await world.proxy_stops()
    return world


async def good(_: Caller) -> object:
    return RESULT


async def states(world: World, rollout: str = "0-0") -> list[str]:
    return [each["state"] for each in (await world.rollout(rollout))["dispatches"]]


async def test_a_killed_proxy_comes_back_at_the_same_listeners(world: World) -> None:
    """kill -9, twice: what the dispatcher and the servers know of addresses stays true, and nobody registers again."""
    listen = free_address()
    async with proxy_process(world, listen) as first:
        await world.plays(good)
        await world.expects(("agent", 0, 0), ("agent", 1, 0), ("agent", 2, 0))
        assert told(await world.run(0)) == (200, None)
        await first.kill()
    for task in (1, 2):
        async with proxy_process(world, listen):
            assert told(await world.run(task)) == (200, None)
    assert await world.totals() == {"expected": 3, "succeeded": 3}


async def test_what_was_open_at_a_killed_proxy_is_closed_and_runs_again(world: World) -> None:
    """Its caller sees a lost connection, not an answer; the rollout is missing until Gym's client has sent it again.

    What the old execution still does passes, and changes nothing of the new one's verdict.
    """
    listen, owners = free_address(), list[str]()

    async def play(call: Caller) -> object:
        owners.append(call.owner)
        if len(owners) == 1:
            await asyncio.Event().wait()
        return RESULT

    async with proxy_process(world, listen) as first:
        await world.plays(play, model=FakeServer("model", {"/v1/responses": Said("no such model", 400)}))
        await world.expects(("agent", 0, 0))
        asking = asyncio.ensure_future(world.run())
        await eventually(lambda: _is_open(world, owners))
        await first.kill()
    with pytest.raises(aiohttp.ClientError):
        await asking
    async with proxy_process(world, listen):
        await eventually(lambda: _states_are(world, ["abandoned"]))
        assert await world.totals() == {"expected": 1, "missing": 1}
        assert told(await world.run()) == (200, None)
        late = await world.ask("POST", world.listeners["model"] + "/v1/responses", {}, {"Rollcall-Owner": owners[0]})
        assert told(late) == (400, None)
        assert await states(world) == ["abandoned", "succeeded"]
        assert await world.totals() == {"expected": 1, "succeeded": 1}


async def test_a_failure_that_was_answered_just_before_a_kill_is_of_a_run_that_nobody_has_an_answer_to(
    world: World,
) -> None:
    """The agent has its 500, the proxy is killed, the agent swallows the 500: no success comes of that.

    What the killed proxy had not told is of a dispatch that another one replaces, in which the call fails again.
    """
    listen, killed = free_address(), list[int]()

    async def play(call: Caller) -> object:
        await eventually(lambda: _is_open(world, [call.owner]))
        killed.append((await call("model", "/v1/responses")).status)
        if len(killed) == 1:
            await first.kill()
        return RESULT

    async with proxy_process(world, listen) as first:
        await world.plays(play, model=FakeServer("model", {"/v1/responses": Said("trouble", 500)}))
        await world.expects(("agent", 0, 0))
        with pytest.raises(aiohttp.ClientError):
            await world.run()
    async with proxy_process(world, listen):
        await eventually(lambda: _states_are(world, ["abandoned"]))
        assert await world.totals() == {"expected": 1, "missing": 1}
        assert cause((await world.run()).value) == ("model", "model", "http_status", 500)
        assert killed == [500, 500]
        assert await world.totals() == {"expected": 1, "failed": 1}


async def _is_open(world: World, owners: list[str]) -> bool:
    return bool(owners) and (await states(world))[-1:] == ["running"]


async def _states_are(world: World, wanted: list[str]) -> bool:
    return await states(world) == wanted


async def test_without_the_attach_a_run_goes_on_at_its_own_listeners(world: World) -> None:
    """A dispatcher that fetched the config, and one of servers named by hand: neither has a second run."""
    listen = free_address()
    await world.proxy_starts(listen=listen)
    await world.plays(good)
    row = {"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "agent"}}
    await world.post("agent", "/run", row, session=None)
    await world.proxy_stops()
    await world.proxy_starts(listen=listen)
    await world.post("agent", "/run", row | {"_ng_task_index": 1}, session=None)
    runs = (await world.main("GET", "/v1/runs")).value["runs"]
    assert [run["totals"]["succeeded"] for run in runs] == [2]


async def test_a_session_that_aggregates_is_known_for_that_after_a_restart(world: World) -> None:
    """`gym eval aggregate` over the files of runs that had no gate: released before and after."""
    listen = free_address()
    await world.proxy_starts(listen=listen)
    await world.plays(good)
    about = {"run": "r-shards", "output": "/out/all.jsonl", "mode": "aggregate", "gate": None}
    assert (await world.main("PUT", "/v1/sessions/s-1", about)).status == 200
    assert told(await world.metrics()) == (200, None)
    await world.proxy_stops()
    await world.proxy_starts(listen=listen)
    assert told(await world.metrics()) == (200, None)


async def test_a_port_that_is_taken_is_said_and_opened_once_it_is_free(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The message names the server, the port and the cure; the other listeners are open, and nothing is forgotten."""
    listen = free_address()
    await world.proxy_starts(listen=listen)
    await world.plays(good)
    await world.expects(("agent", 0, 0))
    await world.proxy_stops()
    port = int(world.listeners["model"].rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)), caplog.at_level(logging.ERROR, "rollcall_proxy.listeners"):
        await world.proxy_starts(listen=listen)
        assert told(await world.run()) == (200, None)
    [said] = [record.getMessage() for record in caplog.records if "cannot be opened again" in record.getMessage()]
    assert ("model" in said, f":{port}" in said, "End the process that has it" in said) == (True, True, True)
    await eventually(lambda: _answers(world, "model"))


async def _answers(world: World, name: str) -> bool:
    try:
        return (await world.post(name, "/v1/responses", {}, session=None)).status == 200
    except aiohttp.ClientConnectorError:
        return False


async def test_a_server_that_registers_again_gets_a_port_that_is_free(world: World) -> None:
    """It does not wait for the one that is taken."""
    listen = free_address()
    await world.proxy_starts(listen=listen)
    await world.plays(good)
    await world.proxy_stops()
    port = int(world.listeners["model"].rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        await world.proxy_starts(listen=listen)
        upstreams = (await world.main("GET", "/v1/upstreams")).value["upstreams"]
        assert "model" not in [each["name"] for each in upstreams]
        await world.plays(good)
        assert not world.listeners["model"].endswith(f":{port}")


async def test_what_cannot_be_kept_is_said_at_readyz_and_traffic_goes_on(stage: Stage) -> None:
    """A folder stands in the file's place."""
    listen = free_address()
    host, port = listen.split(":")
    world = await stage()
    await world.proxy_stops()
    (world.spool / f"proxy-{host}-{port}.json").mkdir()
    await world.proxy_starts(listen=listen)
    await world.plays(good)
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, None)
    ready = await world.main("GET", "/readyz")
    assert (ready.status, "cannot be written" in ready.value["detail"]) == (503, True)
    assert list(world.spool.glob("*.new")) == [], "nothing half is left"


MODEL = Place("model", "model", "http://h:1", 4001, used_at=2_000_000_000.0)


async def test_each_address_has_its_own(tmp_path: Path) -> None:
    """Two proxies on one machine; and a main port that may be any one leaves nothing."""
    for port in (7077, 0):
        await Succession(tmp_path, "127.0.0.1", port).keep([MODEL], {"agent": ("model",)})
    assert os.listdir(tmp_path) == ["proxy-127.0.0.1-7077.json"]
    next_one, other = Succession(tmp_path, "127.0.0.1", 7077), Succession(tmp_path, "127.0.0.1", 7079)
    assert (next_one.to_open(), next_one.left.references) == ([MODEL], {"agent": ("model",)})
    assert (other.to_open(), other.left.gone) == ([], ())
    forget(tmp_path, "127.0.0.1", 7077)
    assert Succession(tmp_path, "127.0.0.1", 7077).to_open() == []


async def test_every_process_that_died_is_told_of_until_the_collector_has_heard(tmp_path: Path) -> None:
    """Three die one after the other, and the collector is away all the while."""
    lives = []
    for _ in range(3):
        lives.append(Succession(tmp_path, "127.0.0.1", 7077))
        await lives[-1].keep([], {})
    assert lives[-1].left.gone == tuple(life.proxy for life in lives[:2])
    await lives[-1].told()
    assert Succession(tmp_path, "127.0.0.1", 7077).left.gone == (lives[-1].proxy,)


async def test_a_listener_that_nothing_has_used_for_a_week_stays_closed(tmp_path: Path) -> None:
    """Gym's servers have other ports each time; their listeners must not pile up."""
    await Succession(tmp_path, "127.0.0.1", 7077).keep(
        [MODEL, Place("old", "model", "http://h:2", 4002, used_at=1_000_000_000.0)], {}
    )
    assert Succession(tmp_path, "127.0.0.1", 7077).to_open() == [MODEL]


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"proxy": 1}', orjson.dumps({"places": [{"port": 70000}]})])
async def test_a_file_that_cannot_be_read_counts_as_none(tmp_path: Path, text: bytes) -> None:
    """A help and no record: the proxy starts as it would without."""
    (tmp_path / "proxy-127.0.0.1-7077.json").write_bytes(text)
    assert Succession(tmp_path, "127.0.0.1", 7077).left.places == ()
