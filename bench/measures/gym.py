"""Runs of real Gym with Rollcall attached beside runs without: `--gym`, since each takes a minute."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import import_module

from ..place import PROJECT, cores, scratch
from . import Plan, Row, medians, ratio, said

VERSION, REPEATS = "0.7.0", 4
_USUAL = 1000


def measure(plan: Plan) -> Iterator[Row]:
    """Wall time of a run. Both laboratories' servers are up all the time, and take turns."""
    what, reach = (
        f"{plan.gym or _USUAL:,} rollouts of real Gym {VERSION}: wall time with against without Rollcall",
        "1.03",
    )
    if not plan.gym:
        yield Row(what, reach, "not measured: add --gym")
        return
    sys.path.insert(0, str(PROJECT / "tests" / "gym"))
    install = import_module("install")
    lab, sidecar, tasks = (import_module(f"gymlab.{name}") for name in ("lab", "sidecar", "tasks"))
    try:
        home = install.environment(VERSION).resolve()
    except install.InstallError as error:
        yield Row(what, reach, f"not measured: {error}")
        return
    folder, rows, rounds = scratch("gym"), tasks.tasks(plan.gym // REPEATS), []
    with ExitStack() as stack:
        stack.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores())  # which the laboratories' processes take over
        collector = sidecar.collector(folder / "collector")
        stack.callback(collector.process.end)
        labs = {
            "without": stack.enter_context(lab.opened(lab.plain(folder / "plain", home))),
            "with": stack.enter_context(lab.opened(lab.attached(folder / "attached", home, collector))),
        }
        for number in range(plan.rounds + 1):
            took = {}
            for name, one in labs.items():
                begin = time.perf_counter()
                with one.started(f"round-{number}", rows, repeats=REPEATS) as run:
                    exit_status = run.process.finish(300)
                took[name] = time.perf_counter() - begin
                if exit_status:
                    raise RuntimeError(f"{name} Rollcall, Gym ended with {exit_status}: {run.process.tail()}")
            said(f"round {number}: {took}")
            if number:  # the first warms caches
                rounds.append(took)
    found, middle = ratio(rounds, "with", "without") or 0, medians(rounds)
    text = f"{middle['with']:.1f} s: {found:.3f} times without"
    yield Row(
        what, reach, text, f"without {middle['without']:.1f} s; {len(cores())} cores", found <= 1.03, {"s": rounds}
    )
