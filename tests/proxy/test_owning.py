"""Whose call is it? Each way to name an owner, where ways disagree, and where nothing may be guessed."""

from collections.abc import Awaitable, Callable

import pytest
from proxystage.fakes import RESULT, Caller, FakeServer, Said
from proxystage.world import World, eventually

Naming = Callable[[Caller, World], Awaitable[object]]
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
BROKEN = {"/v1/responses": Said({"error": "no"}, 500)}


def broken_model() -> FakeServer:
    return FakeServer("model", {path: Said({"error": "no"}, 500) for path in ("/v1/responses", *PREFIXED)})


PREFIXED = ("/ng-rollout/0-0/v1/responses", "/ng-rollout/0-0/training-token-capture/v1/responses")


async def by_header(call: Caller, _: World) -> None:
    await call("model", "/v1/responses")


async def by_url(call: Caller, _: World) -> None:
    await call("model", f"/rollcall-owner/{call.owner}/v1/responses?x=1", fields={})


async def by_path(call: Caller, _: World) -> None:
    await call("model", PREFIXED[0], fields={})


async def by_path_with_token_capture(call: Caller, _: World) -> None:
    await call("model", PREFIXED[1], fields={})


async def by_trace_given_to_run(call: Caller, _: World) -> None:
    trace = call.incoming.headers["traceparent"].split("-")[1]
    await call("model", "/v1/responses", fields={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})


async def by_baggage(call: Caller, _: World) -> None:
    await call("model", "/v1/responses", fields={"baggage": "tenant=a, " + call.incoming.headers["baggage"]})


WAYS = {
    "header": by_header,
    "url": by_url,
    "path": by_path,
    "path, token capture": by_path_with_token_capture,
    "trace": by_trace_given_to_run,
    "baggage": by_baggage,
}


@pytest.mark.parametrize("way", WAYS)
async def test_each_way_names_the_owner_and_the_tag_says_which(world: World, way: str) -> None:
    """A model call that fails and is swallowed: the tag belongs to the rollout, by this way."""

    async def play(call: Caller) -> object:
        await WAYS[way](call, world)
        return RESULT

    await world.plays(play, model=broken_model())
    await world.expects(("agent", 0, 0))
    assert (await world.run()).value["_ng_failure_type"] == "inner_call_failed"
    assert [tag["owner_by"] for tag in await world.tags()] == [way.partition(",")[0]]


async def test_the_owner_in_a_url_is_taken_out_before_the_server_sees_it(world: World) -> None:
    """Path, query and Gym's own prefix arrive as the server's routes expect them."""

    async def play(call: Caller) -> object:
        await call("model", f"/rollcall-owner/{call.owner}/ng-rollout/0-0/v1/responses?a=b%20c", fields={})
        return RESULT

    model = FakeServer("model", {"/ng-rollout/0-0/v1/responses": Said({})})
    await world.plays(play, model=model)
    await world.expects(("agent", 0, 0))
    await world.run()
    assert model.paths() == ["/ng-rollout/0-0/v1/responses?a=b%20c"]


@pytest.mark.parametrize("path", ["/seed_session", "/verify"])
async def test_the_body_names_the_owner_of_seed_session_and_verify(world: World, path: str) -> None:
    """An agent without the attach repeats the row's keys; its failed call is the rollout's."""

    async def play(call: Caller) -> object:
        await call("tools", path, call.row, fields={})
        return RESULT

    await world.plays(play, tools=FakeServer("resources", {path: Said("broken", 500)}))
    await world.expects(("agent", 0, 0))
    assert (await world.run()).value["_ng_failure_type"] == "inner_call_failed"
    assert [(tag["owner_by"], tag["role"]) for tag in await world.tags()] == [("body", path[1:])]


async def test_a_cookie_rides_along_an_agents_calls_of_resources_servers(world: World) -> None:
    """seed_session is owned by its body and answered with a cookie; the tool call sends it back; no server sees it."""

    async def play(call: Caller) -> object:
        seeded = await call("tools", "/seed_session", call.row, fields={"Cookie": "a=1"})
        cookie = seeded.fields["Set-Cookie"].partition(";")[0]
        await call("tools", "/get_weather", {}, fields={"Cookie": f"a=1; {cookie}; b=2"})
        return RESULT

    tools = FakeServer("resources", {"/seed_session": Said({}), "/get_weather": Said("storm", 500)})
    await world.plays(play, tools=tools)
    await world.expects(("agent", 0, 0))
    await world.run()
    assert [tag["owner_by"] for tag in await world.tags()] == ["cookie"]
    assert [heard.fields["Cookie"] for heard in tools.heard] == ["a=1", "a=1; b=2"]


async def test_a_policy_base_url_in_the_run_body_names_the_owner(world: World) -> None:
    """The agent gets a base URL of its rollout's own; all else of its body is as it was sent."""

    async def play(call: Caller) -> object:
        async with world.http.post(call.row["policy_base_url"] + "/responses", data=b"{}") as answer:
            assert answer.status == 500
        return RESULT

    model = broken_model()
    agent = await world.plays(play, model=model)
    await world.expects(("agent", 0, 0))
    row = b'{"_ng_task_index": 0, "policy_base_url" :"%s/v1", "_ng_rollout_index":0, "agent_ref": {"name": "agent"}}'
    await world.post("agent", "/run", row % model.url.encode())
    assert [tag["owner_by"] for tag in await world.tags()] == ["policy_base_url"]
    before, _, after = agent.heard[0].body.partition(b'"http://')
    assert (before, after.partition(b'"')[2]) == (row.partition(b'"%s')[0], row.partition(b'/v1"')[2])


async def test_where_ways_disagree_the_earlier_wins_and_the_conflict_is_recorded(world: World) -> None:
    """The header says this rollout, the path another that runs as well."""

    async def play(call: Caller) -> object:
        if call.row["_ng_task_index"] == 0:
            await world.run(1)
            return RESULT
        await call("model", PREFIXED[0])
        return RESULT

    await world.plays(play, model=broken_model())
    await world.expects(("agent", 0, 0), ("agent", 1, 0))
    await world.run()
    assert await world.tags("0-0") == []
    (tag,) = await world.tags("1-0")
    assert (tag["owner_by"], tag["conflict"].split()[0:2]) == ("header", ["path", "names"])


async def test_a_rollout_id_shared_by_two_sessions_names_nobody(world: World) -> None:
    """Two runs have 0-0 open at once; what only the path names has no owner and withholds both."""

    async def play(call: Caller) -> object:
        if call.row.get("second"):
            await call("model", PREFIXED[0], fields={})
            return RESULT
        row = {"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "agent"}, "second": True}
        await world.post("agent", "/run", row, "s-2")
        return RESULT

    await world.plays(play, model=broken_model())
    await world.expects(("agent", 0, 0))
    await world.expects(("agent", 0, 0), session="s-2", run="r-2")
    await world.run()
    assert [(await world.status(run))["unattributed"] for run in ("r-1", "r-2")] == [1, 1]
    assert await world.totals() == {"expected": 1, "succeeded": 1}


async def test_a_trace_that_turns_out_to_be_shared_gives_back_what_it_had_bound(world: World) -> None:
    """The first rollout had failed by its trace; the second's /run shows the same one: nobody owns the call."""

    async def play(call: Caller) -> object:
        if call.row["_ng_task_index"] == 0:
            await call("model", "/v1/responses", fields={"traceparent": TRACE})
        return RESULT

    await world.plays(play, model=broken_model())
    await world.expects(("agent", 0, 0), ("agent", 1, 0))
    for task in (0, 1):
        row = {"_ng_task_index": task, "_ng_rollout_index": 0, "agent_ref": {"name": "agent"}}
        fields = {"Rollcall-Session": "s-1", "traceparent": TRACE}
        await world.ask("POST", world.listeners["agent"] + "/run", row, fields)
        assert (
            await world.totals() == [{"expected": 2, "failed": 1, "missing": 1}, {"expected": 2, "succeeded": 2}][task]
        )
    assert (await world.status())["unattributed"] == 1


@pytest.mark.parametrize("owner", ["v1~d-nobody~x.1~0~run~agent", "nonsense", "v1;d-1;x;0;run", ""])
async def test_an_id_that_no_run_knows_creates_no_rollout(world: World, owner: str) -> None:
    """The failure is kept, counted and shown as unattributed."""

    async def play(call: Caller) -> object:
        await call("model", "/v1/responses", fields={"Rollcall-Owner": owner})
        return RESULT

    await world.plays(play, model=broken_model())
    await world.expects(("agent", 0, 0))
    await world.run()
    assert await world.totals() == {"expected": 1, "succeeded": 1}
    assert (await world.status())["unattributed"] == 1


async def test_unattributed_failures_can_be_accepted(world: World) -> None:
    """Until a person accepts them they withhold the metrics; the reason is kept."""

    async def play(call: Caller) -> object:
        await call("model", "/v1/responses", fields={})
        return RESULT

    await world.plays(play, model=broken_model())
    await world.expects(("agent", 0, 0))
    await world.run()
    assert (await world.metrics()).value["agent_metrics"]["rollcall/reason"] == "1 unattributed failure at model"
    accepted = await world.main("POST", "/v1/runs/r-1/accept", {"what": "unattributed", "reason": "a probe"})
    assert (accepted.value["unattributed"], accepted.value["accepted"]) == (0, "a probe")
    assert "rollcall/reason" not in (await world.metrics()).value["agent_metrics"]


async def test_an_unattributed_failure_withholds_only_what_can_reach_the_server(world: World) -> None:
    """By the config's references one agent can call the broken model, the other cannot."""
    model = FakeServer("model", BROKEN)
    for server in (
        model,
        one := FakeServer("agent", {"/run": Said(RESULT)}),
        two := FakeServer("agent", {"/run": Said(RESULT)}),
    ):
        await world.serves(server)
    config = {
        "model": model.entry,
        "one": one.entry,
        "two": two.entry,
        "other": (await world.serves(FakeServer("model"))).entry,
    }
    config["one"]["responses_api_agents"]["fake"]["model_server"] = {"type": "responses_api_models", "name": "model"}
    config["two"]["responses_api_agents"]["fake"]["model_server"] = {"type": "responses_api_models", "name": "other"}
    await world.config(config)
    await world.expects(("one", 0, 0), ("two", 1, 0))
    await world.run(0, agent="one")
    await world.run(1, agent="two")
    await world.ask("POST", world.listeners["model"] + "/v1/responses", {})
    found = {each["benchmark"]: each["metrics"] for each in (await world.status())["benchmarks"]}
    assert found == {"one": "withheld", "two": "released"}


async def test_the_status_says_what_was_watched(world: World) -> None:
    """For each server what was seen and owned; an agent whose inner calls were never seen is named."""

    async def play(call: Caller) -> object:
        if call.row["_ng_task_index"] == 0:
            await call("model", "/v1/responses")
        await call("model", "/v1/responses", fields={})
        return RESULT

    await world.plays(play)
    await world.expects(("agent", 0, 0), ("agent", 1, 0), ("blind", 2, 0))
    await world.run(0)
    await world.run(1)
    await world.metrics()
    status = await eventually(world.status)
    seen = {each["server"]: (each["exchanges"], each["owned"], each["made"]) for each in status["servers"]}
    assert seen == {"agent": (2, 2, 1), "model": (3, 1, 0)}
    assert not [text for text in status["warnings"] if text.startswith("agent: its inner calls")]
    assert "agent: 1 rollout without any model call" in status["warnings"]


async def test_an_agent_whose_inner_calls_were_never_seen_is_named(world: World) -> None:
    """Outer hop only: blindness is not health."""

    async def play(_: Caller) -> object:
        return RESULT

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    await world.run(0)
    await world.metrics()
    assert any(text.startswith("agent: its inner calls were never seen") for text in (await world.status())["warnings"])
