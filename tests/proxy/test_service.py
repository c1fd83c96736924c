"""The main port: health, the head server's stand-in, the way to the collector."""

import pytest
import yaml
from proxystage.configs import TWO, is_problem
from proxystage.fakes import FakeServer, Said
from proxystage.world import Stage, World, told


async def test_healthz_and_readyz_say_that_all_is_well(world: World) -> None:
    """The process lives; the collector is there and has everything."""
    assert [(await world.main("GET", path)).status for path in ("/healthz", "/readyz")] == [200, 200]


async def test_readyz_says_503_while_the_collector_is_away(world: World) -> None:
    """Known before the first event is lost; alive all the same."""
    await world.collector_stops()
    assert is_problem(await world.main("GET", "/readyz"), 503)
    assert (await world.main("GET", "/healthz")).status == 200


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


async def test_an_address_in_use_is_an_error_that_names_it(stage: Stage, world: World) -> None:
    """The main port is taken: refused at the start."""
    taken = world.proxy.removeprefix("http://")
    with pytest.raises(OSError, match=taken):
        await stage(listen=taken)
