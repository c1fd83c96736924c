"""SIGTERM to an agent server with rollouts in flight: they were killed, and have not failed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gymlab import cases
from gymlab.cases import Case
from gymlab.contract import Bench
from gymlab.lab import Lab
from gymlab.processes import until
from gymlab.runs import keys

pytestmark = pytest.mark.parametrize("version", ["0.4.0", "0.7.0"], indirect=True, scope="session")
CASES = {"one": Case(), "two": Case(), "three": Case()}
SLOW_MS = 5_000


@pytest.fixture(scope="module")
def lab(bench: Bench) -> Iterator[Lab]:
    with bench.lab.servers.paused():
        yield bench.lab


@pytest.mark.parametrize("agent", ["contract_agent", "stray_agent"])
def test_rollouts_of_a_server_that_is_shut_down_are_omitted_and_sent_again(lab: Lab, agent: str) -> None:
    """Known from the attach, or, of a server without it, by what it answers and that it then refuses connections."""
    name = f"killed-{agent}"
    lab.model.plan(slow_ms=SLOW_MS)
    with lab.started(name, cases.rows(CASES, agent), repeats=1) as run:
        until(lambda: len(lab.model.calls()) == len(CASES), 60, run.process.tail)
        back = lab.servers.terminate(agent)
        killed = run.finish()
    lab.servers.bring_back(back)
    assert (killed.exit, killed.rows, killed.failures) == (3, [], [])
    assert lab.counts(killed) == {"expected": 3, "omitted": 3}
    lab.model.plan()
    resumed = lab.collect(name, cases.rows(CASES, agent), "--resume", repeats=1)
    assert (resumed.exit, keys(resumed.rows)) == (0, [(0, 0), (1, 0), (2, 0)])
    assert not any(row.get("_ng_attempt_index") for row in resumed.rows)
