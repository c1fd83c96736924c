"""The real command on a disk that is full, which a limit on the size of its files stands for."""

import resource
import urllib.error
from pathlib import Path

import collector_process
import pytest
from collector_events import batch, begun, ended, tag


def refused(method: str, url: str, body: object = None) -> tuple[int, str, str | None]:
    """Status, body and Retry-After of an answer that is no good one."""
    with pytest.raises(urllib.error.HTTPError) as found:
        collector_process.call(method, url, body)
    return found.value.code, found.value.read().decode(), found.value.headers.get("Retry-After")


def test_a_full_disk_withholds_and_loses_nothing(tmp_path: Path) -> None:
    """Not ready and nothing released while it lasts; what is sent again afterwards is taken in whole."""
    many = [tag("d-1", f"x-{number}", excerpt="e" * 2000) for number in range(2000)]
    with collector_process.running(tmp_path / "x.sqlite3") as (process, url):
        collector_process.call("PUT", f"{url}/v1/sessions/s-1", {"run": "r-1", "mode": "fresh"})
        collector_process.call("POST", f"{url}/v1/events", batch("p-1", 1, begun(), ended()))
        collector_process.call("POST", f"{url}/v1/runs/r-1/gate")
        before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
        status, text, again_in = refused("POST", f"{url}/v1/events", batch("p-1", 3, *many))
        assert (status, again_in, "the database cannot be written" in text) == (503, "1", True)
        assert refused("GET", f"{url}/readyz")[0] == 503
        (gated,) = collector_process.call("GET", f"{url}/v1/runs/r-1/gate")["benchmarks"]
        assert (gated["metrics"], "the store cannot be written" in gated["reason"]) == ("withheld", True)
        assert collector_process.call("GET", f"{url}/v1/runs/r-1")["totals"]["succeeded"] == 1
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)
        collector_process.call("POST", f"{url}/v1/events", batch("p-1", 3, *many))
        assert collector_process.call("GET", f"{url}/readyz") == {"status": "ready"}
        assert collector_process.call("GET", f"{url}/v1/runs/r-1")["totals"]["failed"] == 1
