"""What a server of Gym's answers while it is being shut down, over real uvicorn and real signals."""

from __future__ import annotations

import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from attachlab import FAKE_GYM, LIBRARIES, TRIALS, FakeProxy, dead_url, python

Answer = tuple[int, str | None, str]
"""Status, the field `Rollcall-Shutdown` and the body."""


class Served:
    """A server process, and the requests that it is answering."""

    def __init__(self, url: str, process: subprocess.Popen[str], pool: ThreadPoolExecutor) -> None:
        self.url, self.process, self._pool = url, process, pool

    def ask(self, path: str) -> Answer:
        try:
            with urllib.request.urlopen(self.url + path, timeout=20) as answer:
                return answer.status, answer.headers["Rollcall-Shutdown"], answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["Rollcall-Shutdown"], error.read().decode()

    def begin(self, path: str) -> Future[Answer]:
        asked = self._pool.submit(self.ask, path)
        assert self.process.stdout
        assert self.process.stdout.readline() == "answering\n"
        return asked


@contextmanager
def served(proxy: FakeProxy, workers: int = 1) -> Iterator[Served]:
    url = dead_url()
    port = int(url.rpartition(":")[2])
    code = (
        f"__file__ = {str(TRIALS / 'shutdown_trial.py')!r}\n"  # what a worker runs as its main module
        f"import shutdown_trial; shutdown_trial.serve({port}, {workers})"
    )
    process = python(code, path=(FAKE_GYM, TRIALS, LIBRARIES), ROLLCALL_PROXY=proxy.url)
    with ThreadPoolExecutor() as pool:
        try:
            server = Served(url, process, pool)
            _wait_for(server)
            yield server
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=20)


def _wait_for(server: Served) -> None:
    while server.process.poll() is None:
        try:
            assert server.ask("/") == (200, None, '"ok"')
            return
        except urllib.error.URLError:
            time.sleep(0.05)
    raise AssertionError(server.process.communicate())


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("workers", [1, 2])
def test_answers_to_what_a_shutdown_cancelled_carry_the_field(proxy: FakeProxy, sent: int, workers: int) -> None:
    """Gym's own, and uvicorn's where nobody in the app answers; in each worker."""
    with served(proxy, workers) as server:
        asked = [server.begin("/gym"), server.begin("/bare")]
        server.process.send_signal(sent)
        assert [each.result() for each in asked] == [
            (500, "1", '"An unknown error occurred"'),
            (500, "1", "Internal Server Error"),
        ]


def test_a_shutdown_without_a_signal_is_known_too(proxy: FakeProxy) -> None:
    """Whoever sets `should_exit`: the request that does is answered before, and the ones cancelled after."""
    with served(proxy) as server:
        asked = server.begin("/gym")
        assert server.ask("/stop") == (200, None, '"ok"')
        assert asked.result()[:2] == (500, "1")


def test_another_server_inside_that_is_shut_down_says_nothing_of_this_one(proxy: FakeProxy) -> None:
    """An agent may run one for a rollout."""
    with served(proxy) as server:
        assert server.ask("/inner") == (200, None, '"ok"')
        assert server.ask("/") == (200, None, '"ok"')
