"""The real command told to stop: the first time it ends what it has in hand, the second time at once, and no time does
it lose what was answered."""

import http.client
import signal
import subprocess
import threading
import time
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

from collector_events import batch, begun, ended
from collector_locks import EVENTS, held, refuses, sent_into_the_lock
from collector_process import call, running


def test_told_once_it_takes_no_more_ends_who_follows_and_stores_what_it_has(tmp_path: Path) -> None:
    """Exit status 0, and what was in hand is answered or at least stored."""
    path = tmp_path / "x.sqlite3"
    with running(path) as (process, url), ThreadPoolExecutor() as pool:
        call("PUT", f"{url}/v1/sessions/s-1", {"run": "r-1", "mode": "fresh"})
        waiting = pool.submit(call, "GET", f"{url}/v1/runs/r-1?wait=complete&timeout=600")
        following = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        following.request("GET", "/v1/runs/r-1/events")
        stream = following.getresponse()
        with held(path):
            sending = sent_into_the_lock(pool, url)
            process.send_signal(signal.SIGTERM)
            refuses(url)
            assert (waiting.result(20)["state"], b"event: status" in stream.read()) == ("running", True)
        following.close()
        assert sending.result(20)["rulings"][0]["state"] == "succeeded"
        assert process.wait(60) == 0
    with running(path) as (_, url):
        assert call("GET", f"{url}/v1/runs/r-1")["totals"]["succeeded"] == 1


def test_told_twice_it_ends_although_a_lock_holds_its_writer(tmp_path: Path) -> None:
    """With status 0; what was not answered is sent again and counts once."""
    path = tmp_path / "x.sqlite3"
    with running(path, stderr=subprocess.PIPE) as (process, url), ThreadPoolExecutor() as pool:
        call("POST", f"{url}/v1/events", batch("p-0", 1, begun("d-0", "1-0"), ended("d-0")))
        with held(path):
            sending = sent_into_the_lock(pool, url)
            process.send_signal(signal.SIGTERM)
            refuses(url)
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=60)
            assert (process.returncode, "told to stop again: ending at once" in said) == (0, True)
        assert isinstance(sending.exception(20), (urllib.error.URLError, ConnectionError, http.client.HTTPException))
    with running(path) as (_, url):
        assert call("GET", f"{url}/v1/runs/r-1")["totals"]["succeeded"] == 1
        for _ in range(2):
            call("POST", f"{url}/v1/events", EVENTS)
        assert call("GET", f"{url}/v1/runs/r-1")["totals"]["succeeded"] == 2


def test_told_twice_at_any_moment_it_loses_nothing_that_it_has_answered(tmp_path: Path) -> None:
    """While batch after batch comes."""
    path, answered = tmp_path / "x.sqlite3", list[int]()

    def send(url: str) -> None:
        for number in range(100_000):
            try:
                call("POST", f"{url}/v1/events", batch("p-1", number + 1, begun(f"d-{number}", f"{number}-0")))
            except (OSError, http.client.HTTPException):
                return
            answered.append(number)

    with running(path) as (process, url):
        sender = threading.Thread(target=send, args=(url,))
        sender.start()
        while len(answered) < 20:
            time.sleep(0.01)
        for _ in range(2):
            process.send_signal(signal.SIGTERM)
        sender.join(60)
        assert process.wait(60) == 0
    with running(path) as (_, url):
        assert call("GET", f"{url}/v1/runs/r-1")["totals"]["running"] >= len(answered)
