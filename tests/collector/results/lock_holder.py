"""Holds the lock of the output given, says so, and waits to be killed; run as a program of its own."""

import sys
import time
from pathlib import Path

from rollcall_collector.results.lock import hold

taken = hold(Path(sys.argv[1]), {"session": "s-other"})
print("held", flush=True)
time.sleep(600)
