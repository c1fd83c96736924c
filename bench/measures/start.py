"""What the attach costs a Python process that it has nothing to do in: those that start, by the thousand in a run."""

import re
import subprocess
import sys
from collections.abc import Iterator
from statistics import median

import rollcall_attach

from ..place import PROJECT
from . import Plan, Row

_TIMES = 50
_IMPORTED = re.compile(r"^import time:\s*\d+ \|\s*(\d+) \|\s*sitecustomize$", re.MULTILINE)
_PTH = PROJECT / "runner" / "rollcall_attach.pth"
_READ = f"import site, time; t = time.perf_counter(); site.addpackage({str(_PTH.parent)!r}, {_PTH.name!r}, set())\n"
_READ += "print(1000 * (time.perf_counter() - t))"


def measure(plan: Plan) -> Iterator[Row]:
    """Milliseconds by which the file on PYTHONPATH, or the .pth of an installed package, makes a start longer."""
    path = {"PYTHONPATH": rollcall_attach.attach_path()}
    unset, on = (median(_imported(path | more)) for more in ({}, {"ROLLCALL_PROXY": "http://127.0.0.1:9"}))
    pth = median(_read() for _ in range(_TIMES))
    yield Row(
        "start of a Python process with the attach's file on PYTHONPATH, and ROLLCALL_PROXY not set",
        "under 1 ms",
        f"{unset:.2f} ms",
        f"the installed package's .pth {pth:.2f} ms; with the variable set {on:.2f} ms",
        unset < 1 and pth < 1,
        {"path_ms": unset, "pth_ms": pth, "set_ms": on},
    )


def _imported(variables: dict[str, str]) -> Iterator[float]:
    """By Python's own -X importtime, what it looks for behind the file included."""
    for _ in range(_TIMES):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", ""], env=variables, capture_output=True, text=True, check=True
        )
        yield int(_IMPORTED.findall(done.stderr)[0]) / 1000


def _read() -> float:
    command = [sys.executable, "-I", "-c", _READ]
    return float(subprocess.run(command, env={}, capture_output=True, text=True, check=True).stdout)
