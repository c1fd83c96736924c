"""Waiting for a run, and streams of what changes, through real sockets."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from collector_client import Client, running
from collector_events import begun, ended, tag
from rollcall_collector.following import _Feed


class Stream:
    """The events of a stream, as a browser reads them."""

    def __init__(self, content: Any) -> None:
        self._content = content
        self.retry: int | None = None

    async def next(self) -> tuple[str, Any]:
        """(id, data) of the next event."""
        fields: dict[str, str] = {}
        while True:
            line = (await asyncio.wait_for(self._content.readline(), 20)).decode()
            if not line:
                raise EOFError
            name, _, value = line.rstrip("\n").partition(": ")
            if name == "retry":
                self.retry = int(value)
            elif name:
                fields[name] = value
            elif "data" in fields:
                return fields["id"], orjson.loads(fields["data"])


@asynccontextmanager
async def stream(collector: Client, path: str, **headers: str) -> AsyncIterator[Stream]:
    async with collector.http.get(collector.url + path, headers=headers) as answer:
        assert (answer.status, answer.content_type) == (200, "text/event-stream")
        yield Stream(answer.content)


async def whole(collector: Client) -> None:
    """A session with a rollout that will succeed."""
    await collector.session()
    await collector.expects(0)


async def test_a_question_that_waits_is_answered_when_the_run_is_complete(collector: Client) -> None:
    await whole(collector)
    waiting = asyncio.create_task(collector.get("/v1/runs/r-1?wait=complete&timeout=60"))
    await collector.sends(begun(), ended())
    status = await waiting
    assert (status["complete"], status["state"]) == (True, "running")


async def test_a_question_that_waits_is_answered_when_the_run_has_ended(collector: Client) -> None:
    """Complete or not; of text the same."""
    await whole(collector)
    waiting = asyncio.create_task(collector.call("GET", "/v1/runs/latest?wait=complete&timeout=60&format=text"))
    await collector.call("POST", "/v1/sessions/s-1/heartbeat", {"state": "ended"})
    assert (await waiting).text.startswith("run r-1 (ended, sessions: 1)")


async def test_a_question_that_has_waited_long_enough_is_answered_with_how_things_are(collector: Client) -> None:
    await whole(collector)
    status = await collector.get("/v1/runs/r-1?wait=complete&timeout=0")
    assert (status["complete"], status["state"]) == (False, "running")


@pytest.mark.parametrize("path", ["/v1/runs/r-1?wait=complete&timeout=0", "/v1/runs/none?wait=complete"])
async def test_what_was_followed_is_freed_with_its_last_follower(collector: Client, path: str) -> None:
    """And not when the garbage collector comes by: it holds a run's whole status."""
    await whole(collector)
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            await collector.call("GET", path)
        assert [each for each in gc.get_objects() if isinstance(each, _Feed)] == []
    finally:
        gc.enable()


@pytest.mark.parametrize("query", ["wait=ready", "wait=complete&timeout=soon", "wait=complete&timeout=1000000"])
async def test_a_question_that_waits_wrongly_is_refused(collector: Client, query: str) -> None:
    await collector.session()
    assert (await collector.call("GET", f"/v1/runs/r-1?{query}")).status == 400


async def test_who_waits_for_a_run_that_is_not_there_is_told_so_at_once(collector: Client) -> None:
    assert (await collector.call("GET", "/v1/runs/r-9?wait=complete&timeout=60")).status == 404
    async with collector.http.get(f"{collector.url}/v1/runs/r-9/events") as answer:
        assert (answer.status, answer.content_type) == (404, "application/problem+json")


async def test_a_stream_tells_the_state_and_each_change(collector: Client) -> None:
    await whole(collector)
    async with stream(collector, "/v1/runs/r-1/events") as events:
        first, before = await events.next()
        await collector.sends(begun(), tag(), ended())
        second, after = await events.next()
    assert (events.retry, first == second) == (1000, False)
    assert (before["totals"]["missing"], after["totals"]["failed"]) == (1, 1)


async def test_who_comes_back_after_a_restart_is_told_only_what_has_changed(tmp_path: Path) -> None:
    """By the id of what was seen last, at another collector of the same database."""
    async with running(tmp_path / "x.sqlite3") as collector:
        await whole(collector)
        async with stream(collector, "/v1/runs/latest/events") as events:
            seen, _ = await events.next()
    field = {"Last-Event-ID": seen}
    async with (
        running(tmp_path / "x.sqlite3") as one,
        running(tmp_path / "x.sqlite3") as other,
        stream(one, "/v1/runs/r-1/events", **field) as events,
    ):
        await other.sends(begun(), ended())
        again, status = await events.next()
        assert (again != seen, status["totals"]["succeeded"]) == (True, 1)


async def test_the_stream_of_all_runs_tells_of_a_new_one(collector: Client) -> None:
    async with stream(collector, "/v1/events/stream") as events:
        assert (await events.next())[1] == {"runs": []}
        await collector.session()
        assert [each["run"] for each in (await events.next())[1]["runs"]] == ["r-1"]


async def test_a_collector_that_ends_ends_its_streams(tmp_path: Path) -> None:
    """Whole, and whoever waits has an answer."""
    async with aiohttp.ClientSession() as http:
        async with running(tmp_path / "x.sqlite3") as inside:
            collector = Client(http, inside.url)
            await whole(collector)
            answer = await http.get(f"{collector.url}/v1/runs/r-1/events")
            events = Stream(answer.content)
            await events.next()
            waiting = asyncio.create_task(collector.get("/v1/runs/r-1?wait=complete&timeout=600"))
            async with stream(collector, "/v1/events/stream") as others:
                await others.next()  # by now the other question has arrived
        assert (await waiting)["state"] == "running"
        with pytest.raises(EOFError):
            await events.next()


async def test_failures_over_time_are_counted_in_at_most_200_intervals(collector: Client) -> None:
    """Of one length, each with its begin; none is lost."""
    await collector.session()
    started = (await collector.get("/v1/runs/r-1"))["started_at"]
    for number, after in enumerate((1, 1.5, 900, 3599)):
        name = f"d-{number}"
        calls = [begun(name, f"{number}-0", started_at=started), tag(name, f"x-{number}", ended_at=started)]
        await collector.sends(*calls, ended(name, answer_began_at=started + after, ended_at=started + after))
    found = await collector.get("/v1/runs/r-1/timeline")
    assert found["interval"] == 30
    assert [(round(each["at"] - started), each["failed"]) for each in found["buckets"]] == [(0, 2), (900, 1), (3570, 1)]
    text = (await collector.call("GET", "/v1/runs/r-1/timeline?format=text")).text.splitlines()
    assert (text[0], text[1].endswith("2 " + "#" * 50)) == ("failed attempts by 30 seconds, most 2", True)
