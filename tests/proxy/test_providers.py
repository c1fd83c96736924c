"""By setting, the endpoints behind the model servers are watched too: the provider's true status is the root cause."""

import json

import pytest
import yaml
from aiohttp import web
from proxystage.fakes import RESULT, Caller, FakeServer, Said
from proxystage.world import Stage, World, cause

LIMITED = Said({"error": {"message": "rate limit reached"}}, 429)


async def watched(stage: Stage, *provided: Said) -> tuple[World, FakeServer]:
    """An agent, a model server, and the provider behind it; the model server asks twice before it gives up."""
    world = await stage()
    await world.proxy_stops()
    await world.proxy_starts(watch_providers=True)
    provider = await world.serves(FakeServer("model", {"/v1/chat": list(provided)}))

    async def responses(request: web.Request) -> web.StreamResponse:
        call = Caller(world.http, {"provider": world.listeners["model.provider"]}, request)
        for _ in range(2):
            if (await call("provider", "/v1/chat", {"m": 1})).status == 200:
                return Said({}).response()
        return Said("Hit an exception", 500).response()

    async def play(call: Caller) -> object:
        await call("model", "/v1/responses")
        return RESULT

    await world.plays(play, model=FakeServer("model", {"/v1/responses": responses}))
    config = await world_config(world, provider)
    assert config["openai_base_url"].startswith(world.listeners["model.provider"])
    return world, provider


async def world_config(world: World, provider: FakeServer) -> dict[str, str]:
    """Register the model server with its provider; its own entry as it gets it back."""
    upstreams = (await world.main("GET", "/v1/upstreams")).value["upstreams"]
    host, _, port = next(each["url"] for each in upstreams if each["name"] == "model")[len("http://") :].rpartition(":")
    entry = {"host": host, "port": int(port), "openai_base_url": provider.url + "/v1", "name": "m"}
    answer = await world.config({"model": {"responses_api_models": {"fake": entry}}}, own="model")
    found: dict[str, str] = yaml.safe_load(answer.value["config"])["model"]["responses_api_models"]["fake"]
    assert found["port"] == int(port)
    return found


async def test_the_providers_status_is_the_root_cause(stage: Stage) -> None:
    """429 twice, of which the model server makes a 500."""
    world, provider = await watched(stage, LIMITED)
    await world.expects(("agent", 0, 0))
    row = (await world.run()).value
    assert cause(row) == ("model.provider", "provider", "http_status", 429)
    assert "rate limit reached" in row["_rollcall"]["root_cause"]["excerpt"]
    assert not [name for heard in provider.heard for name in heard.fields if name.startswith("Rollcall")]


async def test_what_the_model_server_retried_with_success_has_recovered(stage: Stage) -> None:
    """429, then good: clean, the tag kept as recovered."""
    world, _ = await watched(stage, LIMITED, Said({}))
    await world.expects(("agent", 0, 0))
    assert (await world.run()).value == RESULT
    assert [(tag["role"], tag["recovered"]) for tag in await world.tags()] == [("provider", True)]


@pytest.mark.parametrize("url", ["https://api.example.com/v1", 7, None])
async def test_what_is_no_plain_http_endpoint_is_left_alone(stage: Stage, url: object) -> None:
    """Its address stays as it was."""
    world = await stage()
    entry = {"host": "127.0.0.1", "port": 9, "openai_base_url": url}
    answer = await world.config({"model": {"responses_api_models": {"fake": entry}}})
    assert json.dumps(url) in json.dumps(yaml.safe_load(answer.value["config"]))
