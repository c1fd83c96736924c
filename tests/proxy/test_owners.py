"""Whose call it is: said by the call, and never guessed."""

import asyncio

import pytest
from aiohttp import web
from proxystage.fakes import OWNER, RESULT, Caller, FakeServer, Said
from proxystage.world import World, cause, told
from rollcall_proxy.carriers import Carriers
from rollcall_proxy.owners import Head, Owner, find_owner, token_of

FAILING = {"/v1/responses": Said("bad", 400)}
PREFIX = "/ng-rollout/{}/v1/responses"


async def played(world: World, *rollouts: int, **fields: str) -> None:
    """Rollouts whose agent makes one failing model call, with these fields and no others."""

    async def play(call: Caller) -> object:
        await call("model", "/v1/responses", fields=dict(fields))
        return RESULT

    await world.plays(play, model=FakeServer("model", FAILING.copy()))
    await world.expects(*[("agent", task, 0) for task in rollouts])


async def unattributed(world: World) -> int:
    return int((await world.status())["unattributed"])


async def test_each_request_reaches_its_server_with_a_minted_owner_and_no_session(world: World) -> None:
    """The field replaces one that was there; what the dispatcher says to Rollcall reaches no server."""

    async def play(call: Caller) -> object:
        await call("model", "/v1/responses")
        return RESULT

    player = await world.plays(play)
    await world.expects(("agent", 0, 0))
    forged = {"Rollcall-Owner": "forged", "rollcall-owner": "again", "ROLLCALL-SESSION": "s-1"}
    row = {"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "agent"}}
    assert told(await world.ask("POST", world.listeners["agent"] + "/run", row, forged)) == (200, None)
    [heard] = player.heard
    owners = [value for name, value in heard.fields.items() if name.lower() == "rollcall-owner"]
    assert len(owners) == 1
    assert owners[0].startswith("v1~d-")
    assert "rollcall-session" not in {name.lower() for name in heard.fields}


async def test_a_nested_call_is_owned_by_the_call_that_made_it(world: World) -> None:
    """Each hop gets an owner of its own, of the same dispatch: the depth tells the innermost failure."""

    async def generate(request: web.Request) -> web.Response:
        await Caller(world.http, world.listeners, request)("model", "/v1/responses")
        return Said("wrapped", 500).response()

    async def play(call: Caller) -> object:
        await call("agent", "/v1/responses")
        return RESULT

    player = await world.plays(play, model=FakeServer("model", FAILING.copy()))
    player.answers["/v1/responses"] = generate
    await world.expects(("agent", 0, 0))
    assert cause((await world.run()).value) == ("model", "model", "http_status", 400)
    assert sorted((tag["server"], tag["depth"]) for tag in await world.tags()) == [("agent", 1), ("model", 2)]


@pytest.mark.parametrize(
    "field", ["", "nonsense", "v1;d-1;x", "v2;d-1;e;0;run", "v1;d-1;e;0;run\t;", "v1;../x;e;0;run"]
)
async def test_a_failed_call_with_a_malformed_owner_is_nobodys(world: World, field: str) -> None:
    """One rollout in flight, and still it is not guessed: unattributed, and the metrics are withheld."""
    await played(world, 0, **{OWNER: field})
    assert told(await world.run()) == (200, None)
    assert await unattributed(world) == 1
    assert told(await world.metrics()) == (200, "withheld")


@pytest.mark.parametrize(
    "headers", [{OWNER: "v1;d-unknown;e.1;0;run"}, {"X-Rollout": "0-0"}, {}], ids=["unknown", "foreign", "none"]
)
async def test_an_unknown_owner_creates_no_rollout(world: World, headers: dict[str, str]) -> None:
    """An id that no dispatch has: the failure is kept and counted, and belongs to nobody."""
    await played(world, 0, **headers)
    await world.run()
    assert await unattributed(world) == 1
    assert await world.totals() == {"expected": 1, "succeeded": 1}


async def by_path(world: World, path: str) -> None:
    """A rollout whose agent names it by a path prefix alone."""

    async def play(call: Caller) -> object:
        await call("model", path, fields={})
        return RESULT

    answers = {path: Said("bad", 400)}
    await world.plays(play, model=FakeServer("model", answers))
    await world.expects(("agent", 3, 0))


@pytest.mark.parametrize("segment", ["", "/training-token-capture"])
async def test_gyms_path_prefix_names_the_owner(world: World, segment: str) -> None:
    """`/ng-rollout/<id>/`, with the token-capture segment and without; the server gets it, the tag has its own path."""
    path = f"/ng-rollout/3-0{segment}/v1/responses"
    await by_path(world, path)
    row = (await world.run(3)).value
    assert cause(row) == ("model", "model", "http_status", 400)
    assert [(tag["path"], tag["owner_by"]) for tag in await world.tags("3-0")] == [("/v1/responses", "path")]


async def test_a_retrys_path_prefix_carries_its_attempt(world: World) -> None:
    """`3-0-a2` is the second retry of 3-0."""
    await by_path(world, PREFIX.format("3-0-a2"))
    assert told(await world.run(3, _ng_attempt_index=2)) == (200, "verdict")


@pytest.mark.parametrize("name", ["3-0-a1", "9-9", "2f1c9e5e-uuid", "3-0x"])
async def test_a_prefix_that_names_no_running_dispatch_is_nobodys(world: World, name: str) -> None:
    """Another attempt, another rollout, a sandbox's own uuid: unattributed, and no rollout is made."""
    await by_path(world, PREFIX.format(name))
    assert told(await world.run(3)) == (200, None)
    assert await unattributed(world) == 1
    assert await world.totals() == {"expected": 1, "succeeded": 1}


async def test_of_two_dispatches_under_one_id_none_is_named_by_the_prefix(world: World) -> None:
    """Two benchmarks run a rollout 3-0 at once: the prefix is no carrier, and the failure is nobody's."""
    both = asyncio.Barrier(2)

    async def play(call: Caller) -> object:
        await both.wait()
        await call("model", PREFIX.format("3-0"), fields={})
        await both.wait()
        return RESULT

    failing = {PREFIX.format("3-0"): Said("bad", 400)}
    await world.plays(play, model=FakeServer("model", failing))
    await world.expects(("agent", 3, 0), ("other", 3, 0))
    ran = await asyncio.gather(world.run(3), world.run(3, agent_ref={"name": "other"}))
    assert [told(answer) for answer in ran] == [(200, None), (200, None)]
    assert await unattributed(world) == 2


def test_an_owner_is_read_back_as_it_was_minted() -> None:
    """What the attach echoes means what the proxy said."""
    for owner in (Owner("d-1", "abc.7", 2, "verify", "a b/c"), Owner(None, "abc.8", 0, "aggregate_metrics")):
        assert find_owner(Head("/x", {OWNER.lower(): owner.token()}), Carriers()) == owner


async def test_what_a_proxy_mints_another_can_read_however_deep_it_is(world: World) -> None:
    """In a circle of calls too: above 999 the depth is not counted."""
    model = FakeServer("model", {"/v1/responses": Said({})})
    await world.registers(model=model)
    token = "v1~d-1~e.1~998~agent~a"
    for depth in (999, 999, 999):
        await world.ask("POST", world.listeners["model"] + "/v1/responses", {}, {OWNER: token})
        token = model.heard[-1].fields[OWNER]
        owner = find_owner(Head("/x", {OWNER.lower(): token}), Carriers())
        assert owner is not None
        assert (owner.dispatch, owner.depth) == ("d-1", depth)


@pytest.mark.parametrize(("server", "read"), [("é" * 50, "é" * 50), ("é" * 51, "")])
def test_a_server_whose_name_is_too_long_for_an_owner_is_not_named(server: str, read: str) -> None:
    """The dispatch counts, and must be readable."""
    found = find_owner(Head("/x", {OWNER.lower(): token_of("d-1", "e.1", 1, "agent", server)}), Carriers())
    assert found is not None
    assert (found.dispatch, found.server) == ("d-1", read)


def test_digits_of_other_scripts_are_no_depth() -> None:
    """A token is ASCII."""
    assert find_owner(Head("/x", {OWNER.lower(): "v1~d~e~\u0663~x~"}), Carriers()) is None
