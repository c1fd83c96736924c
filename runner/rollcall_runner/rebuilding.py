"""`rollcall rebuild`: a run that the database has lost is taken from its files. The files stay as they are."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rollcall_collector.contract.gate import ExitStatus
from rollcall_collector.contract.wording import plural
from rollcall_collector.results.errors import ResultsError
from rollcall_collector.results.lock import Held, hold
from rollcall_collector.results.names import failures_path
from rollcall_collector.settings import CollectorSettings, PolicySettings
from rollcall_collector.status_text import benchmark_table, fitted
from rollcall_collector.store import open_database
from rollcall_collector.store.database import writing
from rollcall_collector.store.hearing import steady_clock
from rollcall_collector.store.rebuilding import Rebuilt, rebuild
from rollcall_collector.store.writing import InputsChangedError, SessionConflictError
from sqlalchemy import Engine

from .knowledge import Database
from .options import UsageError, add_options, settings_from
from .outputs import read_run

LOST = (
    "not known: failed calls without an owner, calls that decided nothing, which rollouts were omitted, and when "
    "each ran"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `rollcall rebuild`."""
    parser.add_argument("--output", required=True, metavar="JSONL", help="the run's results file")
    add_options(parser, CollectorSettings, ["database"])


def verb(options: argparse.Namespace) -> int:
    """0 when the database knows of the run what its files say. Raises UsageError, ResultsError, DatabaseError."""
    output = Path(options.output).absolute()
    kept = read_run(output)
    database = settings_from(CollectorSettings, vars(options)).database
    policy = settings_from(PolicySettings, {"config": options.config}).policy
    with _locked(output):
        engine = open_database(database)
        try:
            stored = Database(database, engine, policy, kept["run"])
            _has_ended(stored, kept["run"])
            done, gate = _taken(engine, output), stored.gate()
        finally:
            engine.dispose()
    print("\n".join([f"run {done.run}", *_told(done), "", *benchmark_table(gate["benchmarks"])]))
    return ExitStatus.SUCCEEDED


@contextmanager
def _locked(output: Path) -> Iterator[None]:
    try:
        lock = hold(output, {"command": "rollcall rebuild"})
    except Held as held:
        raise UsageError(f"a session of {output} is on; {held}") from held
    with lock:
        yield


def _has_ended(stored: Database, run: str) -> None:
    """Also where the session is on a machine whose locks are not seen here."""
    if stored.knows() and stored.status()["state"] == "running":
        cure = "wait for its end (a session that was killed has ended after 30 s) and run this again"
        raise UsageError(f"a session of run {run} is on, says the database; {cure}")


class Rows:
    """How many rows have been read, on standard error: in place on a terminal, as lines elsewhere."""

    STEP = 20_000
    """Rows from one word to the next."""

    def __init__(self) -> None:
        self._said, self._terminal = 0, sys.stderr.isatty()

    def __call__(self, read: int) -> None:
        if read - self._said >= self.STEP:
            self._said = read
            end = "\r" if self._terminal else "\n"
            print(f"rollcall: {read} rows read", end=end, file=sys.stderr, flush=True)


def _taken(engine: Engine, output: Path) -> Rebuilt:
    """All of it or nothing."""
    try:
        with writing(engine).begin() as connection:
            return rebuild(connection, output, steady_clock(engine)(), Rows())
    except (InputsChangedError, SessionConflictError) as error:
        raise UsageError(f"--output {output}: {error}") from error
    except TypeError as error:  # a tag without a field, or with one that no version knows
        cure = "put the row's _rollcall back from a copy; nothing was taken"
        raise ResultsError(f"{failures_path(output)}: a tag that Rollcall did not write: {error}; {cure}") from error


def _told(done: Rebuilt) -> Iterator[str]:
    taken = f"{plural(done.results, 'result')} and {plural(done.failures, 'failed attempt')} taken"
    yield f"  {plural(done.expected, 'rollout')} expected; {taken}"
    if not (done.results or done.failures):
        yield "  the database knows all that the files hold"
    for doubt in [*done.doubts, *(f"{name}: {text}" for name, texts in done.lost.items() for text in texts)]:
        yield from fitted(f"doubt: {doubt}", "  ")
    if done.lost:
        cure = f"where you know that nothing else withheld them: rollcall accept {done.run} rebuilt --reason …"
        yield from fitted(f"their metrics are withheld for it; {cure}", "  ")
    yield from fitted(LOST, "  ")
