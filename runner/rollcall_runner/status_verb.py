"""`rollcall status`: the state of a run, once or until it is over."""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from rollcall_collector.contract.gate import ExitStatus
from rollcall_collector.status_text import status_text

from . import asking
from .printing import about_a_run, print_answer

PAUSE_S = 1.0
"""Seconds between two looks."""

_CLEAR = "\x1b[H\x1b[2J"
"""The cursor to the top left, and nothing on the screen (ECMA-48: CUP, ED)."""

Answer = Mapping[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `rollcall status`."""
    about_a_run(parser)
    parser.add_argument("--watch", action="store_true", help="show it again whenever it changes, until the run is over")


def verb(options: argparse.Namespace) -> int:
    """0 whatever the run is: this is no gate. Raises UnreachableError and NoSuchRunError."""
    status = _asked(options)
    if not options.watch:
        print_answer(options, status, lambda: status_text(status).rstrip())
        return ExitStatus.SUCCEEDED
    options.run = status["run"]  # the newest one stays the one that it was
    try:
        _watch(options, status, lambda: _asked(options))
    except KeyboardInterrupt:
        print()
    return ExitStatus.SUCCEEDED


def _asked(options: argparse.Namespace) -> Answer:
    answer: Answer = asking.get(options.collector, asking.run_path(options.run))
    return answer


def _watch(options: argparse.Namespace, status: Answer, ask: Callable[[], Answer]) -> None:
    """In place on a terminal, one after the other elsewhere. A collector that is away is waited for."""
    shown: Answer | None = None
    while True:
        if status != shown:
            print(_CLEAR if sys.stdout.isatty() and not options.json else "", end="")
            print_answer(options, status, partial(_text, status))
            sys.stdout.flush()
            shown = status
        if status["complete"] or status["state"] == "ended":
            return
        time.sleep(PAUSE_S)
        status = _patiently(ask)


def _text(status: Answer) -> str:
    return status_text(status).rstrip() + ("" if sys.stdout.isatty() else "\n")


def _patiently(ask: Callable[[], Answer]) -> Answer:
    said = ""
    while True:
        try:
            return ask()
        except asking.UnreachableError as error:
            if str(error) != said:
                said = str(error)
                print(f"rollcall: {said}; still waiting", file=sys.stderr)
            time.sleep(PAUSE_S)
