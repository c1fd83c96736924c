"""Runs of real Gym with Rollcall attached beside runs without: `--gym`, since each takes half a minute.

Gym has all rollouts of a run on their way at once. With a model that takes its time, as one does, the model decides how
long a run takes, and the row says what somebody waits longer for Rollcall's sake. With one that answers at once only
processor time counts, and all processes share the same cores: the most that Rollcall can cost.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

from ..children import cpu_of, family
from ..place import PROJECT, cores, scratch
from . import Plan, Row, medians, ratio, said

VERSION, REPEATS = "0.7.0", 4
_USUAL = 1000


@dataclass(frozen=True)
class Model:
    """How the endpoint behind Gym's model server answers (`Plan` in tests/gym/endpoint.py), in words too."""

    name: str
    words: str
    faults: Mapping[str, int]
    reach: float | None = None


MODELS = (
    Model("slow", "whose model takes 1.5 s for a call, 100 at a time", {"slow_ms": 1500, "slots": 100}, 1.03),
    Model("at-once", "whose model answers at once, so that only processor time counts", {}),
)


def measure(plan: Plan) -> Iterator[Row]:
    """Wall time of a run. Both laboratories' servers are up all the time, and take turns."""
    if not plan.gym:
        yield from (_row(plan, model, "not measured: add --gym") for model in MODELS)
        return
    sys.path.insert(0, str(PROJECT / "tests" / "gym"))
    install = import_module("install")
    try:
        home = install.environment(VERSION).resolve()
    except install.InstallError as error:
        yield from (_row(plan, model, f"not measured: {error}") for model in MODELS)
        return
    with ExitStack() as stack:
        stack.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores())  # which the laboratories' processes take over
        labs = _labs(stack, home)
        rows = import_module("gymlab.tasks").tasks(plan.gym // REPEATS)
        for side in labs.values():
            side.run("warm", rows, MODELS[-1])
        yield from (_measured(plan, model, labs, rows) for model in MODELS)


class Side:
    """A laboratory, and the processes that work for its runs."""

    def __init__(self, lab: Any, *beside: Any) -> None:
        self._lab, self._roots = lab, [lab.servers.process, lab.model.process, *beside]

    def run(self, name: str, rows: list[Any], model: Model) -> tuple[float, float]:
        """Seconds that a run took, and seconds of processor time. Raises RuntimeError where it did not end well."""
        self._lab.model.plan(**model.faults)
        begin, cpu = time.perf_counter(), self._cpu()
        with self._lab.started(name, rows, repeats=REPEATS) as run:
            exit_status = run.process.finish(300)
            took = time.perf_counter() - begin
        if exit_status:
            raise RuntimeError(f"Gym ended with {exit_status}: {run.process.tail()}")
        return took, self._cpu() - cpu

    def _cpu(self) -> float:
        """The dispatcher has ended and been waited for; of the others the sum so far."""
        ended = getrusage(RUSAGE_CHILDREN)
        living = sum(cpu_of(pid) for root in self._roots for pid in family(root.popen.pid))
        return ended.ru_utime + ended.ru_stime + living


def _labs(stack: ExitStack, home: Path) -> dict[str, Side]:
    """Both, with their servers up until the stack is left."""
    lab, sidecar = (import_module(f"gymlab.{name}") for name in ("lab", "sidecar"))
    folder = scratch("gym")
    collector = sidecar.collector(folder / "collector")
    stack.callback(collector.process.end)
    without = stack.enter_context(lab.opened(lab.plain(folder / "plain", home)))
    attached = stack.enter_context(lab.opened(lab.attached(folder / "attached", home, collector)))
    attached.collector = None  # with it, a run's accounting is asked for ten times a second
    return {"without": Side(without), "with": Side(attached, attached.proxy.process, collector.process)}


def _measured(plan: Plan, model: Model, labs: dict[str, Side], rows: list[Any]) -> Row:
    rounds: list[dict[str, float]] = []
    costs: list[dict[str, float]] = []
    for number in range(plan.rounds):
        name = f"{model.name}-{number}"
        taken = {side: lab.run(name, rows, model) for side, lab in labs.items()}
        rounds.append({side: seconds for side, (seconds, _) in taken.items()})
        costs.append({side: cpu for side, (_, cpu) in taken.items()})
        said(
            f"round {number + 1}: "
            + ", ".join(f"{side} {took:.1f} s, {cpu:.1f} s of processor time" for side, (took, cpu) in taken.items())
        )
    found, middle = ratio(rounds, "with", "without") or 0, medians(rounds)
    of_cpu = ratio(costs, "with", "without") or 0
    beside = f"without {middle['without']:.1f} s; {of_cpu:.2f} times its processor time; {len(cores())} cores"
    reached = None if model.reach is None else found <= model.reach
    text = f"{middle['with']:.1f} s: {found:.3f} times without"
    return _row(plan, model, text, beside, reached, {"s": rounds, "cpu_s": costs})


def _row(plan: Plan, model: Model, text: str, *rest: Any) -> Row:
    what = (
        f"{plan.gym or _USUAL:,} rollouts of real Gym {VERSION} {model.words}: wall time with against without Rollcall"
    )
    return Row(what, "" if model.reach is None else f"{model.reach:g}", text, *rest)
