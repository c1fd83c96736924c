"""Sessions and runs: two at once never mix, and without the attach each fetch of the config is one of its own."""

import json

import yaml
from proxystage.fakes import RESULT, Caller, FakeServer, Said
from proxystage.world import World, told

ROW = {"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "agent"}}


async def head_server(world: World, **servers: FakeServer) -> None:
    """Gym's head server, in whose place the main port stands."""
    for server in servers.values():
        await world.serves(server)
    config = yaml.safe_dump({name: server.entry for name, server in servers.items()})
    head = await world.serves(FakeServer("head", {"/global_config_dict_yaml": Said(config)}))
    await world.proxy_stops()
    await world.proxy_starts(head_server=head.url)


async def fetched(world: World) -> str:
    """The agent's address in the config that a dispatcher fetches."""
    config = yaml.safe_load(json.loads((await world.main("GET", "/global_config_dict_yaml")).body))
    entry = config["agent"]["responses_api_agents"]["fake"]
    return f"http://{entry['host']}:{entry['port']}"


async def test_each_fetch_of_the_config_is_a_session_and_run_of_its_own(world: World) -> None:
    """Two dispatchers without the attach send equal rollouts; each run has one."""
    await head_server(world, agent=FakeServer("agent", {"/run": Said(RESULT)}))
    first, second = await fetched(world), await fetched(world)
    assert first != second
    for address in (first, second):
        assert told(await world.ask("POST", address + "/run", ROW)) == (200, None)
    runs = (await world.ask("GET", f"{world.collector}/v1/runs")).value["runs"]
    assert [run["totals"]["succeeded"] for run in runs] == [1, 1]


async def test_two_runs_at_once_with_equal_indices_never_mix(world: World) -> None:
    """The first run's rollout fails, the second's does not."""

    async def play(call: Caller) -> object:
        if call.row["which"] == 1:
            await call("tools", "/broken")
        return RESULT

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    await world.expects(("agent", 0, 0), session="s-2", run="r-2")
    await world.post("agent", "/run", ROW | {"which": 1})
    await world.post("agent", "/run", ROW | {"which": 2}, "s-2")
    assert (await world.status("r-1"))["totals"]["failed"] == 1
    assert (await world.status("r-2"))["totals"]["succeeded"] == 1


async def test_a_run_that_was_killed_and_resumed_gets_the_new_verdict(world: World) -> None:
    """The same attempt number in a new session of the same run: its verdict replaces the old."""
    answers = [Said("broken", 500), Said(RESULT)]
    await world.registers(agent=FakeServer("agent", {"/run": answers}))
    await world.expects(("agent", 0, 0))
    await world.run()
    assert await world.totals() == {"expected": 1, "failed": 1}
    await world.expects(("agent", 0, 0), session="s-2")
    await world.post("agent", "/run", ROW, "s-2")
    assert await world.totals() == {"expected": 1, "succeeded": 1}


async def test_a_verify_without_a_run_belongs_to_no_old_dispatch(world: World) -> None:
    """`gym eval reverify` posts the rows again; what fails there is not the rollout's."""

    async def play(call: Caller) -> object:
        return RESULT

    await world.plays(play, tools=FakeServer("resources", {"/verify": Said("broken", 500)}))
    await world.expects(("agent", 0, 0))
    await world.run()
    assert (await world.ask("POST", world.listeners["tools"] + "/verify", ROW)).status == 500
    assert await world.totals() == {"expected": 1, "succeeded": 1}
    assert await world.tags() == []


async def test_a_reverification_is_a_session_of_its_own(world: World) -> None:
    """`gym eval reverify`, attached, names its session: what fails there fails there, and answers pass as they are."""

    async def play(call: Caller) -> object:
        return RESULT

    verify = [Said("broken", 500), Said({"reward": 1.0})]
    await world.plays(play, tools=FakeServer("resources", {"/verify": verify}))
    await world.expects(("agent", 0, 0))
    await world.run()
    about = {"run": "r-again", "mode": "reverify", "output": None}
    await world.main("PUT", "/v1/sessions/s-again", about)
    assert told(await world.post("tools", "/verify", ROW, "s-again")) == (500, None)
    assert (await world.status("r-again"))["totals"]["failed"] == 1
    assert told(await world.post("tools", "/verify", ROW, "s-again")) == (200, None)
    assert (await world.status("r-again"))["totals"]["succeeded"] == 1
    assert await world.totals() == {"expected": 1, "succeeded": 1}


async def test_agents_that_fetch_the_config_again_and_again_open_no_end_of_listeners(world: World) -> None:
    """A set that nobody dispatched through goes to the next; the ports of a dispatcher stay its own servers'."""
    await head_server(world, agent=FakeServer("agent", {"/run": Said(RESULT)}))
    dispatcher = await fetched(world)
    assert told(await world.ask("POST", dispatcher + "/run", ROW)) == (200, None)
    addresses = [await fetched(world) for _ in range(80)]
    assert len(set(addresses)) == 32
    assert dispatcher not in addresses
    assert told(await world.ask("POST", dispatcher + "/run", ROW | {"_ng_task_index": 1})) == (200, None)
    assert told(await world.ask("POST", addresses[-1] + "/run", ROW)) == (200, None)
    runs = (await world.ask("GET", f"{world.collector}/v1/runs")).value["runs"]
    assert sorted(run["totals"]["succeeded"] for run in runs) == [1, 2]
