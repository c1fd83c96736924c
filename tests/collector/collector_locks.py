"""A SQLite database that somebody else has for themselves, and a collector that waits for it."""

import http.client
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from collector_events import batch, begun, ended
from collector_process import call

EVENTS = batch("p-1", 1, begun(), ended())


@contextmanager
def held(path: Path) -> Iterator[sqlite3.Connection]:
    """Nobody else can write to the database meanwhile."""
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        yield holder


def is_waiting(url: str) -> bool:
    """Whether a write is in hand."""
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)) as connection:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    return any(line.startswith("rollcall_store_requests_bytes ") and float(line.split()[1]) > 0 for line in lines)


def sent_into_the_lock(pool: ThreadPoolExecutor, url: str) -> "Future[Any]":
    """Events that the collector has taken in and cannot write yet."""
    sending = pool.submit(call, "POST", f"{url}/v1/events", EVENTS)
    while not is_waiting(url):
        assert not sending.done()
        time.sleep(0.02)
    return sending


def refuses(url: str) -> None:
    """Wait until it takes no more connections."""
    for _ in range(1000):
        try:
            call("GET", f"{url}/healthz")
        except OSError:
            return
        time.sleep(0.02)
    pytest.fail("it still answers")
