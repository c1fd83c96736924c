"""Keeps cores awake: `python -m bench.load.awake` turns in a circle, and any other work on its core goes first.

A core without work sleeps. To wake one takes a virtual machine a good part of a millisecond, several times for an
exchange that passes a proxy: that says what sleep costs, and not what the proxy does. A busy machine has no idle core.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ..children import Child, child
from ..place import cores


@contextmanager
def awake() -> Iterator[list[Child]]:
    """None of the cores sleeps until the block is left; the processes that see to it, one for each."""
    command = [sys.executable, "-m", "bench.load.awake"]
    with ExitStack() as stack:
        turning = [stack.enter_context(child("awake", command, [core])) for core in cores()]
        for each in turning:
            each.wait_for("awake")
        yield turning


def main() -> None:
    """Turn until ended, in the class of the scheduler that every other task preempts (sched(7), SCHED_IDLE)."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    print("awake", flush=True)
    while True:
        pass


if __name__ == "__main__":
    main()
