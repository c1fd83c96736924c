"""The verbs that are given a run's output: its run, what is known of it, and that nobody else is at its files."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollcall_collector.hiding import hidden
from rollcall_collector.results import runfile
from rollcall_collector.results.lock import Held, Lock, hold
from rollcall_collector.settings import CollectorSettings, PolicySettings

from .asking import UnreachableError
from .knowledge import Knowledge, known
from .options import UsageError, add_options, settings_from


@dataclass(frozen=True, slots=True)
class Run:
    """The run of an output, and what is known of it."""

    output: Path
    run: str
    knowledge: Knowledge


def add_output(parser: argparse.ArgumentParser) -> None:
    """The flags of a verb that is given an output."""
    parser.add_argument("--output", required=True, metavar="JSONL", help="the run's results file")
    parser.add_argument("--collector", default=None, help="URL of a collector or proxy (default: ROLLCALL_PROXY, 7078)")
    add_options(parser, CollectorSettings, ["database"])


@contextmanager
def opened(options: argparse.Namespace) -> Iterator[Run]:
    """The run that the file beside `--output` names. Raises UsageError, UnreachableError and ResultsError."""
    output = Path(options.output).absolute()
    run = read_run(output)["run"]
    url, database, policy = sources(options)
    with known(run, url, database, policy) as knowledge:
        if knowledge is None:
            cure = "start the collector that the run had, or give its --collector or --database"
            raise UnreachableError(f"run {run} is known neither at {url} nor in {hidden(database)}; {cure}")
        yield Run(output, run, knowledge)


def sources(options: argparse.Namespace) -> tuple[str, str, Any]:
    """(URL to ask, database, policy in force where a run has none of its own)"""
    given = {name: value for name, value in vars(options).items() if name in ("database", "config")}
    database = settings_from(CollectorSettings, given).database
    return options.collector, database, settings_from(PolicySettings, {"config": options.config}).policy


def read_run(output: Path) -> dict[str, Any]:
    """The run file beside an output. Raises UsageError where there is none, ResultsError where it cannot be used."""
    try:
        return runfile.read(output)
    except runfile.NoRunError as error:
        raise UsageError(f"--output {output}: {error}") from error


@contextmanager
def alone(run: Run, verb: str) -> Iterator[Lock]:
    """Hold the run's lock, with no session of it alive.

    Raises UsageError where one is: the run goes on, and none of its files is touched.
    """
    try:
        lock = hold(run.output, {"command": f"rollcall {verb}"})
    except Held as held:
        raise UsageError(f"a session of {run.output} is on; {held}") from held
    with lock:
        if runfile.read(run.output)["run"] != run.run:
            raise UsageError(f"--output {run.output}: another run has begun there just now")
        if run.knowledge.status()["state"] == "running":
            cure = "wait for its end (a session that was killed has ended after 30 s) and run this again"
            raise UsageError(f"a session of run {run.run} is on, says {run.knowledge.where}; {cure}")
        yield lock


def by_class(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(rows.items())) or "none"


class Progress:
    """How far a long file has been read, on standard error: in place on a terminal, as lines elsewhere."""

    SHOWN = 64 * 1024 * 1024
    """Bytes of a file from which on it is long."""

    def __init__(self) -> None:
        self._told, self._terminal = -1, sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        tenth = 10 * done // total
        if total < self.SHOWN or tenth == self._told:
            return
        self._told = tenth
        end = "\r" if self._terminal and done < total else "\n"
        print(f"rollcall: {10 * tenth:3} % of {total >> 20} MiB read", end=end, file=sys.stderr, flush=True)
