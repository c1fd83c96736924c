"""The real command whose SQLite file another process holds, or has taken away."""

import time
import urllib.error
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from collector_events import batch, begun, ended, tag
from collector_locks import EVENTS, held, sent_into_the_lock
from collector_process import call, running


def refused(method: str, url: str, body: Any = None) -> tuple[int, str]:
    """Status and body of an answer that is no good one."""
    with pytest.raises(urllib.error.HTTPError) as found:
        call(method, url, body)
    with closing(found.value) as answer:
        return answer.code, answer.read().decode()


def is_ready(url: str) -> bool:
    try:
        return bool(call("GET", f"{url}/readyz"))
    except urllib.error.HTTPError as error:
        error.close()
        return False


def until(what: Callable[[], bool]) -> None:
    for _ in range(3000):
        if what():
            return
        time.sleep(0.02)
    pytest.fail("it never came to pass")


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A collector that knows a run whose one rollout has succeeded: its file and its URL."""
    path = tmp_path / "x.sqlite3"
    with running(path) as (_, url):
        call("PUT", f"{url}/v1/sessions/s-1", {"run": "r-1", "mode": "fresh"})
        call("POST", f"{url}/v1/events", batch("p-0", 1, begun("d-0", "1-0"), ended("d-0")))
        call("POST", f"{url}/v1/runs/r-1/gate")
        yield path, url


def metrics(url: str) -> tuple[str, str]:
    (gated,) = call("GET", f"{url}/v1/runs/r-1/gate")["benchmarks"]
    return gated["metrics"], gated["reason"]


def test_a_file_that_another_process_holds_withholds_and_loses_nothing(started: tuple[Path, str]) -> None:
    """It says so while the first write still waits, and lets no other wait; what is there can be read."""
    path, url = started
    with ThreadPoolExecutor() as pool, held(path):
        sending = sent_into_the_lock(pool, url)
        until(lambda: not is_ready(url))
        assert "another process has held it" in refused("GET", f"{url}/readyz")[1]
        status, text = refused("POST", f"{url}/v1/events", batch("p-2", 1, begun("d-2", "2-0"), tag("d-2")))
        assert (status, "the store is busy" in text, "database is locked" in text) == (503, True, True)
        assert (metrics(url)[0], "the store cannot be written: database is locked" in metrics(url)[1]) == (
            "withheld",
            True,
        )
        assert call("GET", f"{url}/v1/runs/r-1")["totals"]["succeeded"] == 1
        assert not sending.done()
    until(lambda: is_ready(url))
    assert sending.result(20)["rulings"][0]["state"] == "succeeded"
    call("POST", f"{url}/v1/events", batch("p-2", 1, begun("d-2", "2-0"), tag("d-2"), ended("d-2")))
    totals = call("GET", f"{url}/v1/runs/r-1")["totals"]
    assert (totals["succeeded"], totals["failed"], totals["running"]) == (2, 1, 0)


@pytest.mark.parametrize("gone", [True, False], ids=["removed", "another in its place"])
def test_nothing_is_confirmed_that_goes_into_a_file_that_was_taken_away(started: tuple[Path, str], gone: bool) -> None:
    """SQLite would write on into it, and say that all is well; once it is back, so is the collector."""
    path, url = started
    path.rename(path.with_name("elsewhere"))
    if not gone:
        path.write_bytes(b"")
    status, text = refused("POST", f"{url}/v1/events", EVENTS)
    assert (status, f"the database {path} was moved away or removed; put it back" in text) == (503, True)
    assert (is_ready(url), metrics(url)[0]) == (False, "withheld")
    path.with_name("elsewhere").rename(path)
    call("POST", f"{url}/v1/events", EVENTS)
    assert (is_ready(url), call("GET", f"{url}/v1/runs/r-1")["totals"]["succeeded"]) == (True, 2)
