"""Collector and proxy with tokens: who is let in, and that every part of Rollcall shows its own."""

import asyncio
from base64 import b64encode
from pathlib import Path

import pytest
from access_stage import OTHER, READ, WRITE, Stage

SESSION = {"run": "r-1", "output": "/out/rollouts.jsonl", "mode": "fresh", "gym": "0.7.0"}
READ_ALIKE = ("/", "/v1/runs", "/v1/policy", "/openapi.json", "/page/main.js", "/v1/events/stream", "/nowhere")


async def both(stage: Stage, **settings: str) -> tuple[str, str]:
    """A collector and a proxy with the same tokens."""
    tokens = {"token": WRITE, "read_token": READ} | settings
    return await stage.collects(**tokens), await stage.proxies(**tokens)


async def until(stage: Stage, url: str, status: int) -> str:
    """Wait until a URL answers with a status; its body."""
    async with asyncio.timeout(30):
        while (answer := await stage.asks(url)).status != status:  # noqa: ASYNC110  # only the API shows it
            await asyncio.sleep(0.02)
    return answer.body


async def until_says(stage: Stage, url: str, words: str) -> str:
    """Wait until a URL's answer holds these words; its body."""
    async with asyncio.timeout(30):
        while words not in (answer := await stage.asks(url)).body:  # noqa: ASYNC110  # only the API shows it
            await asyncio.sleep(0.02)
    return answer.body


async def test_without_a_token_nothing_is_told_but_that_the_service_lives(stage: Stage) -> None:
    """401 with the way to show one; 404 is not told either."""
    collector, proxy = await both(stage)
    for url in (*(collector + path for path in READ_ALIKE), proxy + "/v1/upstreams", proxy + "/metrics"):
        answer = await stage.asks(url)
        assert (answer.status, "ROLLCALL_TOKEN" in answer.detail) == (401, True), url
        assert "Bearer " in answer.fields["WWW-Authenticate"]
    for url in (collector, proxy):
        assert [(await stage.asks(url + path)).status for path in ("/healthz", "/readyz")] == [200, 200]


@pytest.mark.parametrize("token", [OTHER, WRITE[:-1], WRITE + "x", READ[:8], ""])
async def test_a_wrong_token_is_refused_everywhere(stage: Stage, token: str) -> None:
    """So is the beginning of the right one."""
    collector, proxy = await both(stage)
    for url in (collector + "/v1/runs", proxy + "/v1/runs", proxy + "/v1/upstreams", collector + "/metrics"):
        assert (await stage.asks(url, token)).status == 401
    assert (await stage.asks(f"{proxy}/v1/sessions/s-1", token, "PUT", SESSION)).status == 401
    assert (await stage.asks(f"{collector}/v1/runs", WRITE)).body == '{"runs":[]}'


async def test_the_token_for_reading_reads_and_changes_nothing(stage: Stage) -> None:
    """By way of the proxy as well, which asks the collector with its own."""
    collector, proxy = await both(stage)
    for url in (collector, proxy):
        assert (await stage.asks(f"{url}/v1/runs", READ)).status == 200
        assert (await stage.asks(f"{url}/metrics", READ)).status == 200
        assert (await stage.asks(f"{url}/v1/sessions/s-1", READ, "PUT", SESSION)).status == 403
        assert (await stage.asks(f"{url}/v1/runs/r-1/gate?told_by=p-1", READ)).status == 403
    assert (await stage.asks(f"{proxy}/global_config_dict_yaml", READ)).status == 403
    assert (await stage.asks(f"{collector}/v1/runs", READ)).body == '{"runs":[]}'
    assert (await stage.asks(f"{proxy}/v1/sessions/s-1", WRITE, "PUT", SESSION)).status == 200
    assert (await stage.asks(f"{proxy}/v1/runs/r-1/gate", READ)).status == 200


async def test_a_token_in_a_url_is_none(stage: Stage) -> None:
    """URLs are written to logs."""
    collector, _ = await both(stage)
    answer = await stage.asks(f"{collector}/v1/runs?token={WRITE}")
    assert (answer.status, "none is taken from a URL" in answer.detail) == (401, True)


async def test_a_browser_shows_it_as_the_password_that_it_asks_for(stage: Stage) -> None:
    """Basic: the browser keeps it for this origin alone, port included, and sends it with streams and links."""
    collector, _ = await both(stage)
    fields = {"Authorization": "Basic " + b64encode(f"me:{READ}".encode()).decode(), "Accept": "text/html"}
    assert (await stage.asks(f"{collector}/", **fields)).fields["Content-Type"] == "text/html; charset=utf-8"
    assert "Basic " in (await stage.asks(f"{collector}/", Accept="text/html")).fields["WWW-Authenticate"]


async def test_refusals_are_counted_by_reason(stage: Stage) -> None:
    """And said once for each peer."""
    collector, proxy = await both(stage)
    for url in (collector, proxy):
        for _ in range(3):
            await stage.asks(f"{url}/v1/runs")
        await stage.asks(f"{url}/v1/sessions/s", READ, "PUT", SESSION)
        await stage.asks(f"{url}/healthz", Host="attacker.example")
        found = (await stage.asks(f"{url}/metrics", READ)).body
        numbers = [line for line in found.splitlines() if line.startswith("rollcall_refused_total")]
        assert numbers == [
            'rollcall_refused_total{reason="host"} 1.0',
            'rollcall_refused_total{reason="right"} 1.0',
            'rollcall_refused_total{reason="token"} 3.0',
        ]


async def test_a_stranger_is_said_once(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """However often it comes; and its token is never said."""
    collector = await stage.collects(token=WRITE)
    for _ in range(5):
        await stage.asks(f"{collector}/v1/runs", OTHER)
    said = [each.getMessage() for each in caplog.records if "refused" in each.getMessage()]
    assert len(said) == 1
    assert "ROLLCALL_COLLECTOR_TOKEN" in said[0]
    assert OTHER not in caplog.text


async def test_a_proxy_with_the_wrong_token_keeps_everything_and_says_so(stage: Stage) -> None:
    """It is not ready, and what it has to tell waits: a collector that refuses the proxy has refused no event."""
    server = await stage.serves()
    await stage.collects(token=WRITE)
    proxy = await stage.proxies(collector_token=OTHER)
    assert "TOKEN" in await until(stage, f"{proxy}/readyz", 503)
    answer = await stage.asks(f"{proxy}/v1/runs")
    assert (answer.status, "set collector_token" in answer.detail) == (502, True)
    await stage.registers(server)
    assert "set collector_token" in await until_says(stage, f"{proxy}/readyz", "events wait for the collector")
    await stage.proxying.aclose()
    await until(stage, await stage.proxies(collector_token=WRITE) + "/readyz", 200)
    assert "rollcall_rejected_batches 0.0" in (await stage.asks(f"{stage.proxy}/metrics")).body


async def test_a_proxy_may_have_no_token_and_show_one(stage: Stage) -> None:
    """On a node's loopback, in front of a collector elsewhere."""
    collector = await stage.collects(token=WRITE)
    proxy = await stage.proxies(collector_token=WRITE)
    assert (await stage.asks(f"{proxy}/v1/sessions/s-1", None, "PUT", SESSION)).status == 200
    assert '"r-1"' in (await stage.asks(f"{collector}/v1/runs", WRITE)).body
    await until(stage, f"{proxy}/readyz", 200)


async def test_the_token_goes_to_no_server_of_gyms(stage: Stage) -> None:
    """Neither to the head server, nor with what passes the main port as an HTTP proxy."""
    head = await stage.serves()
    await stage.collects(token=WRITE)
    proxy = await stage.proxies(token=WRITE, head_server=head, allow_hosts=[head.removeprefix("http://")])
    await stage.asks(f"{proxy}/server_instances", WRITE)
    async with stage.http.get(f"{head}/x", proxy=proxy, proxy_auth=None) as answer:
        assert answer.status == 407
    shown = {"Proxy-Authorization": f"Bearer {WRITE}"}
    async with stage.http.get(f"{head}/server_instances", proxy=proxy, headers=shown) as answer:
        assert answer.status == 200
    assert [request.path for request in stage.heard] == ["/server_instances"] * 2
    assert all(WRITE not in text for request in stage.heard for text in request.headers.values())


async def test_workers_need_no_secret(stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever their variables say: they listen nowhere, and ask nobody."""
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(WRITE)
    monkeypatch.setenv("ROLLCALL_PROXY_READ_TOKEN", READ)
    monkeypatch.setenv("ROLLCALL_PROXY_LISTEN", "0.0.0.0:0")
    proxy = await stage.proxies(collector="http://127.0.0.1:9", token_file=path, workers=2)
    listed = (await stage.asks(f"{proxy}/v1/upstreams", READ)).json["processes"]
    assert len(listed) == 2
