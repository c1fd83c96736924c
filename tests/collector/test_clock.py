"""The real command on a machine whose clock is set while it runs."""

from pathlib import Path

import pytest
from collector_events import batch, begun, ended, tag
from collector_process import call, running
from machine_clock import MachineClock


@pytest.mark.parametrize("jump", [172_800.0, -172_800.0], ids=["forward", "back"])
def test_a_clock_that_is_set_by_two_days_changes_nothing(tmp_path: Path, jump: float) -> None:
    """The session lives on, and what fails afterwards counts; the time that proxies are told goes on."""
    clock = MachineClock(tmp_path / "clock")
    with running(tmp_path / "x.sqlite3", **clock.variables) as (_, url):
        call("PUT", f"{url}/v1/sessions/s-1", {"run": "r-1", "mode": "fresh"})
        call("POST", f"{url}/v1/events", batch("p-1", 1, begun(), begun("d-2", "1-0")))
        before = call("GET", f"{url}/v1/clock")["now"]
        clock.set(jump)
        assert 0 <= call("GET", f"{url}/v1/clock")["now"] - before < abs(jump) / 2
        status = call("GET", f"{url}/v1/runs/r-1")
        assert (status["state"], status["totals"]["running"]) == ("running", 2)
        call("POST", f"{url}/v1/events", batch("p-1", 3, tag("d-2"), ended(), ended("d-2")))
        call("POST", f"{url}/v1/sessions/s-1/heartbeat", {"state": "running"})
        status = call("GET", f"{url}/v1/runs/r-1")
        assert (status["state"], status["totals"]["succeeded"], status["totals"]["failed"]) == ("running", 1, 1)


@pytest.mark.parametrize("jump", [172_800.0, -172_800.0], ids=["forward", "back"])
def test_a_clock_that_was_set_before_a_restart_ends_no_session(tmp_path: Path, jump: float) -> None:
    """Once its heartbeat has been heard again."""
    clock = MachineClock(tmp_path / "clock")
    with running(tmp_path / "x.sqlite3", **clock.variables) as (_, url):
        call("PUT", f"{url}/v1/sessions/s-1", {"run": "r-1", "mode": "fresh"})
        call("POST", f"{url}/v1/events", batch("p-1", 1, begun()))
    clock.set(jump)
    with running(tmp_path / "x.sqlite3", **clock.variables) as (_, url):
        call("POST", f"{url}/v1/sessions/s-1/heartbeat", {"state": "running"})
        status = call("GET", f"{url}/v1/runs/r-1")
        assert (status["state"], status["totals"]["running"]) == ("running", 1)
