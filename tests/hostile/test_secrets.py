"""Secrets that come in through every way are in nothing that Rollcall keeps, shows or says.

What is searched: the database and the spool byte by byte, every answer of both services, the failure rows, and the
log at its finest. What a run's own answer says is the run's, and stays whole in its row: it is no way in.
"""

import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from proxystage.fakes import Caller, FakeServer, Said
from proxystage.world import World, eventually
from rollcall_collector.routes import ROUTES
from secret_forms import FORMS, secret

READ = [
    route.path
    for route in ROUTES
    if route.method == "GET" and "{file}" not in route.path and "events" not in route.path
]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A collector, a proxy and no server yet."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession())
        started = World(stack, http, tmp_path)
        stack.push_async_callback(started.collector_stops)
        await started.collector_starts()
        stack.push_async_callback(started.proxy_stops)
        await started.proxy_starts()
        yield started


class Secrets:
    """Those that were sent, and where they were found."""

    def __init__(self) -> None:
        self.sent: dict[str, str] = {}

    def new(self, way: str) -> str:
        made = secret()
        self.sent[made] = way
        return made

    def in_form(self, form: str) -> str:
        return FORMS[form].replace("HIDDEN", self.new(form))

    def found(self, where: str, data: bytes) -> list[str]:
        return [f"{way} in {where}" for made, way in self.sent.items() if made.encode() in data]


async def everything_shown(world: World) -> AsyncIterator[tuple[str, bytes]]:
    """Each page of the collector, as JSON and as text, and both services' metrics."""
    names = {"{run}": "r-1", "{rollout}": "0-0", "{session}": "s-1"}
    for path in READ:
        for name, value in names.items():
            path = path.replace(name, value)
        for form in ("json", "text"):
            yield f"{path} as {form}", (await world.ask("GET", f"{world.collector}{path}?format={form}")).body
    for path in ("/metrics", "/v1/upstreams", "/readyz"):
        yield f"the proxy's {path}", (await world.ask("GET", world.proxy + path)).body


def everything_kept(folder: Path) -> list[tuple[str, bytes]]:
    """Each file: the database with its log, the spool, what a successor needs."""
    return [(str(path.relative_to(folder)), path.read_bytes()) for path in folder.rglob("*") if path.is_file()]


def asking(secrets: Secrets, form: str) -> dict[str, str]:
    """Fields of a request that name who asks."""
    return {
        "Authorization": f"Bearer {secrets.new('Authorization')}",
        "Proxy-Authorization": f"Basic {secrets.new('Proxy-Authorization')}",
        "Cookie": f"sid={secrets.new('Cookie')}",
        "X-Api-Key": secrets.new("X-Api-Key"),
        "Api-Key": secrets.new("Api-Key"),
        "X-Any-Field": FORMS[form].split("\n")[0].replace("HIDDEN", secrets.new("a field")),
        "User-Agent": f"agent/{secrets.new('User-Agent')}",
    }


def answering(secrets: Secrets, form: str) -> Said:
    """A failed answer that says too much, in its fields and its body."""
    fields = {
        "Set-Cookie": f"sid={secrets.new('Set-Cookie')}",
        "WWW-Authenticate": f"Bearer {secrets.new('WWW-Authenticate')}",
        "X-Api-Key": secrets.new("an answer's key"),
    }
    return Said(status=500, body=secrets.in_form(form).encode(), fields=fields)


async def all_have_failed(world: World, number: int) -> bool:
    return (await world.totals()).get("failed") == number


async def test_no_secret_is_kept_shown_or_said(
    world: World, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """A rollout for each form, whose model says it as it fails; one fails while the collector is away."""
    caplog.set_level(logging.DEBUG)
    secrets, forms = Secrets(), sorted(FORMS)
    said = [answering(secrets, form) for form in forms]

    async def play(call: Caller) -> Any:
        task = call.row["_ng_task_index"]
        fields = asking(secrets, forms[task % len(forms)]) | {"Rollcall-Owner": call.owner}
        path = f"/v1/responses?api_key={secrets.new('a query')}&x={secrets.new('any value of a query')}"
        await call("model", path, {"api_key": secrets.new("a request's body")}, fields=fields)
        await call("tools", f"/v1/sk-{secrets.new('a path')}/get", fields=fields)
        return {"reward": 0.0, "response": {"output": []}}

    model = FakeServer("model", {"/v1/responses": said})
    await world.plays(play, model=model)
    await world.expects(*(("agent", task, 0) for task in range(len(forms) + 1)))
    for task in range(len(forms)):
        row = (await world.run(task, api_key=secrets.new("a row"))).body
        assert secrets.found("a failure row", row) == []
    await world.collector_stops()
    await world.run(len(forms))
    found = [each for name, data in everything_kept(world.folder) for each in secrets.found(name, data)]
    await world.collector_starts()
    await eventually(lambda: all_have_failed(world, len(forms) + 1))
    async for name, data in everything_shown(world):
        found += secrets.found(name, data)
    found += [each for name, data in everything_kept(world.folder) for each in secrets.found(name, data)]
    found += secrets.found("the log", "\n".join(map(caplog.handler.format, caplog.records)).encode())
    found += secrets.found("the output", "".join(capfd.readouterr()).encode())
    assert len(secrets.sent) > 12 * len(forms)
    assert found == []


async def test_no_secret_of_a_config_is_kept_shown_or_said(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Gym's config holds the keys of its models, and URLs with passwords."""
    caplog.set_level(logging.DEBUG)
    secrets = Secrets()
    config = {
        "policy_api_key": secrets.new("a key"),
        "policy_base_url": f"http://user:{secrets.new('a password in a URL')}@127.0.0.1:9/v1",
        "model": {
            "responses_api_models": {
                "fake": {
                    "host": "127.0.0.1",
                    "port": 9,
                    "openai_api_key": secrets.new("a server's key"),
                    "openai_base_url": f"http://127.0.0.1:9/v1?key={secrets.new('a query in a URL')}",
                }
            }
        },
    }
    rewritten = (await world.config(config)).value["config"]
    assert all(made in rewritten for made in secrets.sent)  # what Gym reads is whole
    broken = json.dumps({"config": f"a: [{secrets.new('a config that is none')}", "own": None}).encode()
    assert (await world.ask("POST", f"{world.proxy}/v1/config", broken)).status == 400
    found = [each for name, data in everything_kept(world.folder) for each in secrets.found(name, data)]
    async for name, data in everything_shown(world):
        found += secrets.found(name, data)
    found += secrets.found("the log", "\n".join(map(caplog.handler.format, caplog.records)).encode())
    assert found == []
