"""The webhook is told that a run has ended or fails too often: signed, again where it must be, and once in effect."""

import asyncio
import hashlib
import hmac
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from collector_client import Client, running
from collector_events import begun, ended, tag
from pydantic import ValidationError
from rollcall_collector.notices import PAUSE_S
from rollcall_collector.serving import bind, url_of
from rollcall_collector.settings import CollectorSettings

SECRET = "of the house"


@dataclass
class Hook:
    """Takes notices; `says` are the statuses of the first answers, and 200 of the others."""

    url: str = ""
    says: list[int] = field(default_factory=list)
    heard: "asyncio.Queue[tuple[dict[str, str], bytes]]" = field(default_factory=asyncio.Queue)

    async def handle(self, request: web.Request) -> web.Response:
        self.heard.put_nowait((dict(request.headers), await request.read()))
        return web.Response(status=self.says.pop(0) if self.says else 200, headers={"Location": "/elsewhere"})

    async def next(self) -> tuple[dict[str, str], Any]:
        fields, body = await asyncio.wait_for(self.heard.get(), 30)
        return fields, orjson.loads(body)


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    made, app, bound = Hook(), web.Application(), bind("127.0.0.1", 0)
    app.router.add_route("*", "/{path:.*}", made.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.SockSite(runner, bound).start()
    made.url = url_of(bound) + "/hook?key=in-the-url"
    yield made
    await runner.cleanup()


async def ends(client: Client) -> None:
    await client.call("POST", "/v1/sessions/s-1/heartbeat", {"state": "ended"})


async def fails(client: Client, failed: int, well: int) -> None:
    for number in range(failed + well):
        name, rollout = f"d-{number}", f"{number}-0"
        calls = [tag(name, f"x-{number}")] if number < failed else []
        await client.sends(begun(name, rollout), *calls, ended(name))


async def test_the_end_of_a_run_is_told_and_signed(tmp_path: Path, hook: Hook) -> None:
    """What became of it, its benchmarks, and of what it has failed most."""
    async with running(tmp_path / "x.sqlite3", webhook=hook.url, webhook_secret=SECRET) as client:
        await client.session(output="/out/x.jsonl")
        await fails(client, 2, 1)
        await ends(client)
        fields, raw = await asyncio.wait_for(hook.heard.get(), 30)
    told = orjson.loads(raw)
    signed = hmac.new(SECRET.encode(), fields["Rollcall-Timestamp"].encode() + b"." + raw, hashlib.sha256)
    assert fields["Rollcall-Signature"] == f"sha256={signed.hexdigest()}"
    assert (fields["Content-Type"], fields["Idempotency-Key"]) == ("application/json", f'"{told["id"]}"')
    assert [told[name] for name in ("event", "run", "output", "complete", "state")] == [
        "run.ended", "r-1", "/out/x.jsonl", False, "ended"
    ]  # fmt: skip
    assert (told["totals"]["failed"], told["benchmarks"][0]["metrics"]) == (2, "withheld")
    assert [(each["count"], each["server"]) for each in told["causes"]] == [(2, "policy_model")]


async def test_a_failure_rate_is_told_while_the_run_goes_on(tmp_path: Path, hook: Hook) -> None:
    """Once ten rollouts have ended; without a secret nothing is signed."""
    settings = {"webhook": hook.url, "webhook_failure_rate": 0.2}
    async with running(tmp_path / "x.sqlite3", **settings) as client:
        await client.session()
        await fails(client, 2, 8)
        fields, told = await hook.next()
    assert (told["event"], told["failure_rate"], told["state"]) == ("run.failure_rate", 0.2, "running")
    assert "Rollcall-Signature" not in fields


async def test_what_was_not_taken_in_is_told_again_with_the_same_id(
    tmp_path: Path, hook: Hook, caplog: pytest.LogCaptureFixture
) -> None:
    """A redirect is followed nowhere. No secret is in the log, not the URL's either."""
    hook.says = [307, 503]
    caplog.set_level(logging.INFO, "rollcall_collector.notices")
    async with running(tmp_path / "x.sqlite3", webhook=hook.url, webhook_secret=SECRET) as client:
        await client.session()
        await ends(client)
        (_, first), (_, second) = await hook.next(), await hook.next()
    assert first["id"] == second["id"]
    assert "try 1 of 5: it answered 307" in caplog.text
    assert not any(secret in caplog.text for secret in (SECRET, "in-the-url"))


async def test_two_collectors_and_a_third_after_a_restart_tell_it_once(tmp_path: Path, hook: Hook) -> None:
    """The end after a resume is another one: all that was heard are these two."""
    path = tmp_path / "x.sqlite3"
    async with running(path, webhook=hook.url) as one, running(path, webhook=hook.url):
        await one.session()
        await ends(one)
        _, first = await hook.next()
        await asyncio.sleep(PAUSE_S + 0.5)  # the other one has looked meanwhile
    async with running(path, webhook=hook.url) as third:
        await third.session("s-2", mode="resume")
        await third.call("POST", "/v1/sessions/s-2/heartbeat", {"state": "ended"})
        _, second = await hook.next()
    assert (first["sessions"], second["sessions"], hook.heard.qsize()) == (1, 2, 0)
    assert first["id"] != second["id"]


@pytest.mark.parametrize("url", ["ftp://host/x", "host/x", "https:///x", "", "file:///etc/passwd"])
def test_a_url_that_cannot_be_called_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="write http://HOST/PATH or https://HOST/PATH"):
        CollectorSettings(webhook=url)


def test_the_secret_is_never_shown() -> None:
    assert SECRET not in repr(CollectorSettings(webhook_secret=SECRET))
