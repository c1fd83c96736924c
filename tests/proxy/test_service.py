"""The main port: health, registration, the head server's stand-in, the way to the collector."""

import asyncio
import json
from typing import Any

import pytest
import yaml
from proxystage.fakes import RESULT, Caller, FakeServer, Heard, Said
from proxystage.world import Stage, World, told

PROBLEM = "application/problem+json"


def config(**addresses: tuple[str, str, int]) -> dict[str, Any]:
    """A config in Gym's shape: the name, and the kind, host and port of each server."""
    named = {
        name: {kind: {"impl": {"host": host, "port": port, "entrypoint": "app.py"}}}
        for name, (kind, host, port) in addresses.items()
    }
    return {"head_server": {"host": "127.0.0.1", "port": 11000}, **named, "policy_model_name": "m"}


TWO = config(policy=("responses_api_models", "10.0.0.5", 8001), agent=("responses_api_agents", "127.0.0.1", 8002))


def place(rewritten: Heard, name: str) -> str:
    """Where a rewritten config says a server is."""
    [group] = yaml.safe_load(rewritten.value["config"])[name].values()
    return f"http://{group['impl']['host']}:{group['impl']['port']}"


def is_problem(answer: Heard, status: int) -> bool:
    assert answer.fields["Content-Type"] == PROBLEM, answer.body
    assert set(answer.value) == {"type", "title", "status", "detail"}
    return bool(answer.status == answer.value["status"] == status)


async def test_healthz_and_readyz_say_that_all_is_well(world: World) -> None:
    """The process lives; the collector is there and has everything."""
    assert [(await world.main("GET", path)).status for path in ("/healthz", "/readyz")] == [200, 200]


async def test_readyz_says_503_while_the_collector_is_away(world: World) -> None:
    """Known before the first event is lost; alive all the same."""
    await world.collector_stops()
    assert is_problem(await world.main("GET", "/readyz"), 503)
    assert (await world.main("GET", "/healthz")).status == 200


async def test_a_config_comes_back_with_the_listeners_in_place_of_its_servers(world: World) -> None:
    """All else stays, the head server and the own entry included; every server is listed."""
    answer = await world.config(TWO, own="agent")
    listed = {each["name"]: (each["kind"], each["url"]) for each in answer.value["listeners"]}
    assert listed == {"policy": ("model", "http://10.0.0.5:8001"), "agent": ("agent", "http://127.0.0.1:8002")}
    assert place(answer, "policy") == world.listeners["policy"]
    assert place(answer, "agent") == "http://127.0.0.1:8002"
    rewritten = yaml.safe_load(answer.value["config"])
    assert (rewritten["head_server"], rewritten["policy_model_name"]) == (TWO["head_server"], "m")
    assert (await world.main("GET", "/v1/upstreams")).value == {"upstreams": answer.value["listeners"]}
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


async def test_the_stand_in_hands_out_the_head_servers_config_with_other_addresses(stage: Stage) -> None:
    """A JSON string that holds YAML, as Gym's head server gives it; its instances pass through."""
    instances = [{"name": "policy", "url": "http://10.0.0.5:8001"}]
    world = await stage()
    answers = {"/global_config_dict_yaml": Said(yaml.safe_dump(TWO)), "/server_instances": Said(instances)}
    head = await world.serves(FakeServer("model", answers))
    await world.proxy_stops()
    await world.proxy_starts(head_server=head.url)
    found = yaml.safe_load((await world.main("GET", "/global_config_dict_yaml")).value)
    listed = (await world.main("GET", "/v1/upstreams")).value["upstreams"]
    [listener] = [each["listener"] for each in listed if each["name"] == "policy"]
    assert listener.endswith(f":{found['policy']['responses_api_models']['impl']['port']}")
    assert (await world.main("GET", "/server_instances")).value == instances


async def test_a_head_server_that_is_away_is_a_problem_that_says_what_to_do(world: World) -> None:
    """502, and the setting's name."""
    for path in ("/global_config_dict_yaml", "/server_instances"):
        answer = await world.main("GET", path)
        assert is_problem(answer, 502)
        assert "head_server" in answer.value["detail"]


async def test_runs_and_sessions_are_the_collectors_to_answer(world: World) -> None:
    """A client needs to know one of the two addresses: the answers are the same, errors too."""
    await world.expects(("agent", 0, 0))
    for path in (
        "/v1/runs",
        "/v1/runs/r-1",
        "/v1/runs/r-1/gate",
        "/v1/runs/r-1/rollouts?state=missing",
        "/v1/runs/r-2",
    ):
        relayed, direct = await world.main("GET", path), await world.ask("GET", world.collector + path)
        assert (relayed.status, relayed.value.keys()) == (direct.status, direct.value.keys())
    beat = await world.main("POST", "/v1/sessions/s-1/heartbeat", {"state": "ended"})
    assert (beat.status, (await world.status())["state"]) == (200, "ended")


async def test_without_a_collector_the_relay_says_so(world: World) -> None:
    """502 as a problem; nothing hangs."""
    await world.collector_stops()
    assert is_problem(await world.main("GET", "/v1/runs/r-1"), 502)
    assert is_problem(await world.main("PUT", "/v1/sessions/s-2", {"run": "r-1", "mode": "fresh"}), 502)


async def test_a_session_learns_the_mode(stage: Stage) -> None:
    """The attach asks whether it may change answers."""
    world = await stage(mode="observe")
    answer = await world.main("PUT", "/v1/sessions/s-1", {"run": "r-1", "output": "/o", "mode": "fresh"})
    assert answer.value == {"session": "s-1", "run": "r-1", "mode": "observe"}


@pytest.mark.parametrize("path", ["/", "/v1/nothing", "/run"])
async def test_what_the_main_port_does_not_know_is_a_problem(world: World, path: str) -> None:
    """404 in the one form that errors have."""
    assert is_problem(await world.main("GET", path), 404)


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


async def test_a_static_upstream_works_with_its_kind_unknown(stage: Stage) -> None:
    """`--upstream NAME=URL` has a listener before any config; /run through it is judged as any other."""
    world = await stage()
    server = await world.serves(FakeServer("agent", {"/run": Said("trouble", 500)}))
    await world.proxy_stops()
    await world.proxy_starts(upstream=[f"agent={server.url}"])
    [found] = (await world.main("GET", "/v1/upstreams")).value["upstreams"]
    assert (found["name"], found["kind"], found["url"]) == ("agent", "unknown", server.url)
    world.listeners["agent"] = found["listener"]
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, "verdict")


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


async def test_an_address_in_use_is_an_error_that_names_it(stage: Stage, world: World) -> None:
    """The main port is taken: refused at the start."""
    taken = world.proxy.removeprefix("http://")
    with pytest.raises(OSError, match=taken):
        await stage(listen=taken)
