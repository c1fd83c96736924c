"""`rollcall gate`: which metrics are released, for people, scripts and CI."""

import argparse
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rollcall_collector.contract.gate import ExitStatus
from rollcall_collector.results.errors import ResultsError
from rollcall_collector.settings import CollectorSettings
from rollcall_collector.status_text import gate_text
from rollcall_collector.store import DatabaseError
from sqlalchemy.exc import SQLAlchemyError

from . import asking, gating, github, junit
from .options import UsageError, add_options
from .printing import about_a_run, print_answer
from .report import CAUSES

Answer = dict[str, Any]

_NO_FAILURES: Answer = {"group": "cause", "groups": [], "more": 0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `rollcall gate`."""
    about_a_run(parser)
    parser.add_argument("--output", default=None, metavar="JSONL", help="a run's results file, which is read as well")
    parser.add_argument("--junit", default=None, metavar="FILE", type=Path, help="write the answer as JUnit's XML too")
    parser.add_argument("--github", action="store_true", help="annotations and a summary for GitHub Actions")
    add_options(parser, CollectorSettings, ["database"])


def verb(options: argparse.Namespace) -> int:
    """The exit status that the run deserves. Raises UsageError, and what asking and reading raise.

    What CI reads is written in each case: a report that is missing is easily taken for one that is good.
    """
    try:
        gate, failures = _answer(options), _failures(options)
    except (asking.UnreachableError, DatabaseError, ResultsError, SQLAlchemyError) as error:
        _tell(options, _could_not(ExitStatus.ROLLCALL_FAILED, error), _NO_FAILURES)
        raise
    except asking.NoSuchRunError as error:
        _tell(options, _could_not(ExitStatus.NOTHING_EXPECTED, error), _NO_FAILURES)
        raise
    with github.no_commands() if options.github and not options.json else nullcontext():
        print_answer(options, gate, lambda: gate_text(gate).rstrip())
    _tell(options, gate, failures)
    return int(gate["exit_status"])


def _answer(options: argparse.Namespace) -> Answer:
    if options.output is not None:
        return gating.answer(options)
    answer: Answer = _ask(options, "/gate")
    return answer


def _failures(options: argparse.Namespace) -> Answer:
    """The failures by root cause, where they are to be told."""
    if options.junit is None and not options.github:
        return _NO_FAILURES
    if options.output is not None:
        return gating.failures(Path(options.output).absolute(), CAUSES)
    answer: Answer = _ask(options, "/failures", group="cause", limit=str(CAUSES))
    return answer


def _ask(options: argparse.Namespace, rest: str, **query: str) -> Any:
    return asking.get(options.collector, asking.run_path(options.run, rest), **query)


def _could_not(status: ExitStatus, error: Exception) -> Answer:
    return {"run": None, "complete": False, "exit_status": int(status), "reasons": [str(error)], "benchmarks": []}


def _tell(options: argparse.Namespace, gate: Answer, failures: Answer) -> None:
    if options.junit is not None:
        _write(f"--junit {options.junit}", lambda: junit.write(options.junit, gate, failures))
    if options.github:
        _write("GITHUB_STEP_SUMMARY", lambda: github.tell(gate, failures))


def _write(name: str, write: Callable[[], None]) -> None:
    try:
        write()
    except OSError as error:
        raise UsageError(f"{name}: cannot be written: {error.strerror}") from error
