"""POST /v1/config: Gym's servers get listeners, and the config comes back with their addresses."""

import asyncio
import json

import pytest
import yaml
from proxystage.configs import TWO, config, is_problem, place
from proxystage.fakes import RESULT, Caller
from proxystage.world import Stage, World


async def test_a_config_comes_back_with_the_listeners_in_place_of_its_servers(world: World) -> None:
    """All else stays, the head server and the own entry included; every server is listed."""
    answer = await world.config(TWO, own="agent")
    listed = {each["name"]: (each["kind"], each["url"]) for each in answer.value["listeners"]}
    assert listed == {"policy": ("model", "http://10.0.0.5:8001"), "agent": ("agent", "http://127.0.0.1:8002")}
    assert place(answer, "policy") == world.listeners["policy"]
    assert place(answer, "agent") == "http://127.0.0.1:8002"
    rewritten = yaml.safe_load(answer.value["config"])
    assert (rewritten["head_server"], rewritten["policy_model_name"]) == (TWO["head_server"], "m")
    assert (await world.main("GET", "/v1/upstreams")).value["upstreams"] == answer.value["listeners"]
    assert answer.value["mode"] == "enforce"


async def test_a_config_registered_again_changes_nothing(world: World) -> None:
    """Each of Gym's processes registers the same config; so may many of them at once."""
    answers = await asyncio.gather(*[world.config(TWO) for _ in range(6)])
    assert len({answer.body for answer in answers}) == 1
    assert len((await world.main("GET", "/v1/upstreams")).value["upstreams"]) == 2


@pytest.mark.parametrize("own", [None, "policy"])
async def test_a_rewritten_config_is_known_for_what_it_is(world: World, own: str | None) -> None:
    """A worker inherits the rewritten config: a listener never becomes its own upstream, and the own entry is real."""
    first = await world.config(TWO)
    again = await world.config(yaml.safe_load(first.value["config"]), own=own)
    assert again.value["listeners"] == first.value["listeners"]
    assert place(again, "policy") == ("http://10.0.0.5:8001" if own else world.listeners["policy"])


async def test_a_listeners_address_under_another_name_is_refused(world: World) -> None:
    """409: it would be passed round in a circle."""
    await world.config(TWO)
    port = int(world.listeners["policy"].rpartition(":")[2])
    answer = await world.config(config(other=("resources_servers", "localhost", port)))
    assert is_problem(answer, 409)
    assert "policy" in answer.value["detail"]


@pytest.mark.parametrize(
    "body",
    [
        {"config": "a: [1", "own": None},
        {"config": "- just\n- a list", "own": None},
        {"config": {"not": "text"}, "own": None},
        {"config": "{}", "own": 7},
        {"own": None},
        ["config"],
        b"{not json",
    ],
)
async def test_what_is_no_config_is_refused_with_what_to_send(world: World, body: object) -> None:
    """Not YAML, not a mapping, wrong fields, not JSON: 400."""
    answer = await world.main("POST", "/v1/config", body)
    assert is_problem(answer, 400)
    assert answer.value["detail"]


async def test_listeners_take_their_ports_from_the_range_until_it_is_used_up(stage: Stage) -> None:
    """A range of two ports holds two servers; the third is a problem that names the setting."""
    low = await two_free_ports()
    world = await stage(port_range=f"{low}-{low + 1}")
    assert (await world.config(TWO)).status == 200
    ports = {int(listener.rpartition(":")[2]) for listener in world.listeners.values()}
    assert ports == {low, low + 1}
    third = await world.config(TWO | config(third=("resources_servers", "10.0.0.5", 8003)))
    assert is_problem(third, 503)
    assert "port_range" in third.value["detail"]
    assert (await world.config(TWO)).status == 200, "those that have a listener keep it"


async def two_free_ports() -> int:
    """The lower of two neighbouring ports that are free."""
    for low in range(21000, 60000, 2):
        try:
            servers = [await asyncio.start_server(lambda *_: None, "127.0.0.1", port) for port in (low, low + 1)]
        except OSError:
            continue
        for server in servers:
            server.close()
        return low
    raise AssertionError


async def test_listeners_are_advertised_under_the_given_host(stage: Stage) -> None:
    """Bound where the proxy listens, named as others reach it; rewritten again it is still known."""
    world = await stage(advertised_host="localhost")
    first = await world.config(TWO)
    assert all(each["listener"].startswith("http://localhost:") for each in first.value["listeners"])
    assert place(first, "policy") == world.listeners["policy"]
    again = await world.config(yaml.safe_load(first.value["config"]))
    assert again.value["listeners"] == first.value["listeners"]


async def test_a_server_that_moved_gets_a_listener_of_its_own(world: World) -> None:
    """The same name at another address, as a second evaluation starts it: both work."""

    async def good(_: Caller) -> object:
        return RESULT

    await world.plays(good)
    before = world.listeners["agent"]
    await world.plays(good)
    assert world.listeners["agent"] != before
    await world.expects(("agent", 0, 0))
    assert json.loads((await world.run()).body) == RESULT
