"""The clock of a proxy's processes, whatever the machine's says."""

import os
import subprocess
import sys
from pathlib import Path

from machine_clock import MachineClock
from rollcall_proxy import clock

ASKED = "from rollcall_proxy import clock; print(repr(clock.now()))"


def test_a_worker_counts_from_what_its_proxy_counts_from(tmp_path: Path) -> None:
    """The machine's clock was set by an hour since the proxy began."""
    variables = os.environ | MachineClock(tmp_path / "clock", ahead=3600).variables
    told = variables | {clock.VARIABLE: clock.base()}
    before = clock.now()
    own, proxys = (
        float(subprocess.run([sys.executable, "-c", ASKED], env=env, capture_output=True, check=True).stdout)
        for env in (variables, told)
    )
    assert before <= proxys <= clock.now()
    assert own > clock.now() + 1800
