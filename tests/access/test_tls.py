"""TLS by files: both services, the clients between them, and what is said where only one side speaks it."""

import asyncio
import ssl
from pathlib import Path

import aiohttp
import pytest
from access_stage import WRITE, Certified, Stage
from pydantic import ValidationError
from rollcall_attach import control
from rollcall_collector.settings import CollectorSettings
from rollcall_runner import asking

SESSION = {"run": "r-1", "output": "/out/rollouts.jsonl", "mode": "fresh", "gym": "0.7.0"}


async def secured(stage: Stage, files: Certified) -> tuple[str, str]:
    """A collector and a proxy with certificates, of which the second asks the first."""
    collector = await stage.collects(token=WRITE, **files.settings)
    return collector, await stage.proxies(token=WRITE, collector_ca=files.authority, **files.settings)


async def test_every_client_of_rollcalls_asks_by_tls(
    stage: Stage, certified: Certified, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy the collector; the attach and the commands either."""
    collector, proxy = await secured(stage, certified)
    assert (collector[:8], proxy[:8]) == ("https://", "https://")
    monkeypatch.setenv("ROLLCALL_CA_FILE", str(certified.authority))
    monkeypatch.setenv("ROLLCALL_TOKEN", WRITE)
    monkeypatch.setenv("ROLLCALL_PROXY", proxy)
    assert (await asyncio.to_thread(control.call, "PUT", "/v1/sessions/s-1", SESSION))["run"] == "r-1"
    for url in (collector, proxy):
        assert (await asyncio.to_thread(asking.get, url, "/v1/runs/r-1"))["run"] == "r-1"
    assert (await asyncio.to_thread(asking.get, proxy, "/readyz"))["status"] == "ready"


async def test_events_reach_the_collector_by_tls(stage: Stage, certified: Certified) -> None:
    """The engine's own client: what a registration tells."""
    collector, proxy = await secured(stage, certified)
    context = ssl.create_default_context(cafile=certified.authority)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as http:
        secure = Stage(stage.folder, stage.stack, http, collector, proxy)
        assert (await secure.registers(await stage.serves(), WRITE)).status == 200
        for _ in range(3000):
            if 'rollcall_events_total{event="topology"}' in (await secure.asks(f"{collector}/metrics", WRITE)).body:
                return
        pytest.fail("the collector has not been told")


@pytest.mark.parametrize("connects", [False, True])
async def test_the_main_port_is_a_proxy_by_tls_too(stage: Stage, certified: Certified, connects: bool) -> None:
    """In both forms, and only with the token."""
    server = await stage.serves()
    place = server.removeprefix("http://")
    proxy = await stage.proxies(token=WRITE, collector=server, allow_hosts=[place], **certified.settings)
    context = ssl.create_default_context(cafile=certified.authority)
    asked = f"GET {'' if connects else server}/x HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n"
    begun = f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n" if connects else asked
    for shown, status in (("", b"407"), (f"Proxy-Authorization: Bearer {WRITE}\r\n", b"200")):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.rpartition(":")[2]), ssl=context)
        writer.write(f"{begun}{shown}\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).split()[1] == status
        writer.write(f"{asked}\r\n".encode() if connects else b"")
        async with asyncio.timeout(10):
            assert shown == "" or (await reader.read()).endswith(b"{}")
        writer.close()


async def test_an_authority_that_is_not_believed_is_said(
    stage: Stage, certified: Certified, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what to set."""
    collector = await stage.collects(**certified.settings)
    monkeypatch.delenv("ROLLCALL_CA_FILE", raising=False)
    with pytest.raises(asking.UnreachableError, match="ROLLCALL_CA_FILE"):
        await asyncio.to_thread(asking.get, collector, "/v1/runs")
    proxy = await stage.proxies()
    assert "certificate verify failed" in (await stage.asks(f"{proxy}/v1/runs")).detail


@pytest.mark.parametrize("speaks", [True, False])
async def test_where_only_one_side_speaks_tls_the_cure_is_said(
    stage: Stage, certified: Certified, monkeypatch: pytest.MonkeyPatch, speaks: bool
) -> None:
    """http:// to a service that has a certificate, https:// to one that has none."""
    url = await stage.collects(**(certified.settings if speaks else {}))
    scheme, rest = url.split(":", 1)
    wrong = ("http:" if scheme == "https" else "https:") + rest
    monkeypatch.setenv("ROLLCALL_PROXY", wrong)
    monkeypatch.setattr(control, "LIMIT", 0.3)
    cure = "write https://" if speaks else "write http://"
    with pytest.raises(asking.UnreachableError, match=cure):
        await asyncio.to_thread(asking.get, wrong, "/v1/runs")
    with pytest.raises(control.Unavailable, match=cure):
        await asyncio.to_thread(control.call, "GET", "/v1/runs")


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_files_that_hold_no_certificate_are_refused_at_the_start(
    tmp_path: Path, certified: Certified, content: str | None
) -> None:
    """By their names."""
    path = tmp_path / "cert.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValidationError, match=f"{path} with the key"):
        CollectorSettings(tls_certificate=path, tls_key=certified.key)
