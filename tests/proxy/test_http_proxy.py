"""The main port as a plain HTTP proxy: `HTTP_PROXY` alone covers the outermost hop, and nothing else is reached."""

import asyncio
import json
from urllib.parse import urlsplit

import pytest
from proxystage.fakes import RESULT, FakeServer, Said
from proxystage.raw import connect
from proxystage.world import Stage, World


async def through(world: World, method: str, url: str, body: object = None) -> tuple[int, bytes]:
    """A request in absolute-form to the main port."""
    peer = await connect(world.proxy)
    sent = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{method} {url} HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\nContent-Length: {len(sent)}\r\nConnection: close"
    )
    await peer.say(f"{head}\r\n\r\n".encode() + sent)
    answer = await peer.until_eof()
    return int(answer.split()[1]), answer.partition(b"\r\n\r\n")[2]


async def test_the_fetch_of_the_config_is_answered_with_listeners(stage: Stage) -> None:
    """An absolute-form GET to the head server's own address."""
    world = await stage()
    agent = await world.serves(FakeServer("agent", {"/run": Said(RESULT)}))
    config = json.dumps({"agent": agent.entry})
    head = await world.serves(FakeServer("head", {"/global_config_dict_yaml": Said(config)}))
    await world.proxy_stops()
    await world.proxy_starts(head_server=head.url)
    status, body = await through(world, "GET", head.url + "/global_config_dict_yaml")
    assert (status, agent.url.rpartition(":")[2].encode() in body) == (200, False)


async def test_a_registered_server_is_reached_and_watched(world: World) -> None:
    """An absolute-form POST to its real address is an exchange like any other."""
    agent = FakeServer("agent", {"/run": Said(RESULT)})
    await world.registers(agent=agent)
    row = {"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "agent"}}
    status, body = await through(world, "POST", agent.url + "/run", row)
    assert (status, json.loads(body), agent.paths()) == (200, RESULT, ["/run"])
    runs = (await world.ask("GET", f"{world.collector}/v1/runs")).value["runs"]
    assert [run["totals"]["succeeded"] for run in runs] == [1]


@pytest.mark.parametrize("url", ["http://example.com/", "http://169.254.169.254/latest", "http://127.0.0.1:1/x"])
async def test_anything_else_is_refused(world: World, url: str) -> None:
    """A clear 403 that names the place and the setting."""
    status, body = await through(world, "GET", url)
    assert status == 403
    assert "allow_hosts" in json.loads(body)["detail"]


async def test_connect_to_anything_else_is_refused(world: World) -> None:
    """Also as a tunnel."""
    peer = await connect(world.proxy)
    await peer.say(b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\nConnection: close\r\n\r\n")
    assert (await peer.until_eof()).split()[1] == b"403"


async def test_a_tunnel_to_a_registered_server_leads_to_its_listener(world: World) -> None:
    """So that what passes through it is watched."""
    model = FakeServer("model", {"/v1/responses": Said({"id": "resp_1"})})
    await world.registers(model=model)
    place = urlsplit(model.url).netloc
    peer = await connect(world.proxy)
    await peer.say(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
    await peer.say(b"POST /v1/responses HTTP/1.1\r\nHost: m\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
    answer = await asyncio.wait_for(peer.until_eof(), 10)
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b'{"id": "resp_1"}')
    assert "Rollcall-Owner" in model.heard[0].fields


async def test_an_allowed_host_is_passed_through_unwatched(stage: Stage) -> None:
    """Its failures are nobody's."""
    world = await stage()
    other = await world.serves(FakeServer("model", {"/x": Said("no", 500)}))
    await world.proxy_stops()
    await world.proxy_starts(allow_hosts=[urlsplit(other.url).netloc])
    assert await through(world, "GET", other.url + "/x") == (500, b'"no"')
    assert "Rollcall-Owner" not in other.heard[0].fields
