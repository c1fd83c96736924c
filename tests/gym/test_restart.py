"""The proxy is killed in the middle of a run and started again: the run ends as if nothing had been."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from gymlab import lab as laboratory
from gymlab import sidecar
from gymlab.http import free_port
from gymlab.lab import Lab
from gymlab.runs import every_key, keys
from gymlab.sidecar import Collector
from gymlab.tasks import tasks

ENDS_S = 90


@pytest.fixture(scope="module")
def lab(place: Path, home: Path, collector: Collector) -> Iterator[Lab]:
    """A laboratory whose proxy has an address that it can come back to."""
    listen = ("--listen", f"127.0.0.1:{free_port()}")
    with laboratory.opened(laboratory.attached(place, home, collector, *listen)) as opened:
        yield opened


def start_again(lab: Lab) -> None:
    assert lab.proxy
    assert lab.collector
    listen = ("--listen", lab.proxy.url.removeprefix("http://"))
    lab.proxy = sidecar.proxy(lab.folder, lab.collector, lab.servers.head_server, *listen)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_comes_through_a_restart_of_its_proxy(lab: Lab, how: signal.Signals) -> None:
    """Twice: each rollout has one row and has succeeded; Gym's servers and the dispatcher know nothing of it."""
    lab.model.plan(slow_ms=50)
    with lab.started(how.name, tasks(), "--concurrency", "4", repeats=20) as run:
        for rows in (10, 30):
            run.wait_for_rows(rows)
            assert lab.proxy
            lab.proxy.process.popen.send_signal(how)
            lab.proxy.process.popen.wait(30)
            start_again(lab)
        outcome = run.finish(ENDS_S)
    assert (outcome.exit, keys(outcome.rows), outcome.failures) == (0, every_key(3, 20), [])
    assert lab.counts(outcome) == {"expected": 60, "succeeded": 60}
