"""`rollcall accept`: what withholds metrics is accepted, with a reason; the run file beside the output follows."""

import argparse
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rollcall_collector.contract.gate import ExitStatus
from rollcall_collector.results import runfile
from rollcall_collector.results.errors import ResultsError
from rollcall_collector.results.lock import Held, hold
from rollcall_collector.status_text import status_text

from . import asking


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `rollcall accept`."""
    parser.add_argument("run", help="a run's id, or latest")
    what = "failed calls without an owner, or what a rebuild of the run could not know"
    parser.add_argument("what", choices=["unattributed", "rebuilt"], help=what)
    parser.add_argument("--reason", required=True, help="why they may be accepted; it is recorded")
    parser.add_argument("--collector", default=None, help="URL of a collector or proxy (default: ROLLCALL_PROXY, 7078)")


def verb(options: argparse.Namespace) -> int:
    """0 when it is recorded. Raises UnreachableError and NoSuchRunError."""
    url = options.collector
    run = asking.get(url, asking.run_path(options.run))["run"]
    status = asking.send(url, asking.run_path(run, "/accept"), {"what": options.what, "reason": options.reason}, "POST")
    if status["state"] == "ended" and status["output"]:
        _renew(status, asking.get(url, asking.run_path(run, "/gate")))
    print(status_text(status).rstrip())
    return ExitStatus.SUCCEEDED


def _renew(status: Mapping[str, Any], gate: Mapping[str, Any]) -> None:
    """Without a server the gate's answer is to be the same. Files that are elsewhere, or in use, stay as they are."""
    output = Path(status["output"])
    with suppress(Held, ResultsError):
        kept = runfile.read(output)
        if kept["run"] == status["run"] and runfile.is_current(kept, output):
            with hold(output, {"command": "rollcall accept"}):
                runfile.renew(output, gate)
