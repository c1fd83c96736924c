"""A collector that cannot keep up says so, before it holds more than it may."""

import asyncio
import sqlite3
from pathlib import Path

from collector_client import running
from collector_events import batch, begun, tag


async def test_requests_beyond_the_bound_of_bytes_are_refused_before_they_are_read(tmp_path: Path) -> None:
    """503 with Retry-After while another one is in hand; nothing is lost, and one alone may be of any size."""
    path = tmp_path / "x.sqlite3"
    async with running(path, queue_bytes=1000) as client:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        large = batch("p-1", 1, begun(), tag(excerpt="e" * 2000))
        first = asyncio.create_task(client.call("POST", "/v1/events", large))
        await asyncio.wait([first], timeout=1)
        second = await client.call("POST", "/v1/events", batch("p-2", 1, begun("d-2", "1-0")))
        assert (second.problem[:2], second.headers["Retry-After"]) == ((503, "the store is busy"), "1")
        assert "bytes of requests are in hand, 1000 may be" in second.problem[2]
        holder.execute("ROLLBACK")
        holder.close()
        assert (await first).status == 200
        assert (await client.call("POST", "/v1/events", batch("p-2", 1, begun("d-2", "1-0")))).status == 200
        assert (await client.get("/v1/runs/r-1"))["totals"]["running"] == 2
