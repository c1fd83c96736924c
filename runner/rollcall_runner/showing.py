"""`rollcall show`: the whole story of one rollout, its dispatches and their calls in order of time.

It comes from a collector that answers, else from its database, else from the run's failure rows, which hold the calls
that counted against the rollout and no others.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError
from rollcall_collector.contract.exchange import Tag
from rollcall_collector.contract.gate import ExitStatus
from rollcall_collector.contract.identity import rollout_id
from rollcall_collector.contract.spans import marked
from rollcall_collector.hiding import hidden
from rollcall_collector.results.counting import benchmark_of
from rollcall_collector.results.lines import key_of, rows
from rollcall_collector.results.names import failures_path
from rollcall_collector.rollout_text import plain, rollout_text
from rollcall_collector.settings import CollectorSettings
from rollcall_collector.status_text import fitted

from .asking import NoSuchRunError, UnreachableError
from .knowledge import Answer, Knowledge, known
from .options import UsageError, add_options
from .outputs import read_run, sources

ALL = 100_000
"""Calls of a dispatch that are asked for: all that a collector shows at once."""

FROM_FILES = (
    "told by the failure rows alone: a collector or its database knows the calls that went well, and their order"
)

_COLOURS = {"bad": "31", "mended": "33", "open": "36"}
_TAG = TypeAdapter(Tag)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `rollcall show`."""
    parser.add_argument("rollout", help="a rollout's id, such as 3-0; with its agent in front where several have it")
    parser.add_argument("--run", default=None, help="a run's id; default: the newest")
    parser.add_argument("--output", default=None, metavar="JSONL", help="the run's results file, in place of --run")
    parser.add_argument("--collector", default=None, help="URL of a collector or proxy (default: ROLLCALL_PROXY, 7078)")
    add_options(parser, CollectorSettings, ["database"])
    parser.add_argument("--json", action="store_true", help="print JSON")


def verb(options: argparse.Namespace) -> int:
    """0 when the rollout is shown. Raises UsageError where there is no such rollout, or several."""
    if options.run is not None and options.output is not None:
        raise UsageError(f"--run {options.run} and --output name a run each; give one of them")
    found = _found(options)
    if options.json:
        print(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
    else:
        print(rollout_text(found, _coloured if _has_colours() else plain).rstrip())
        if found.get("from_files"):
            print("\n".join(fitted(FROM_FILES, "  ")))
    return ExitStatus.SUCCEEDED


def _found(options: argparse.Namespace) -> Answer:
    output = None if options.output is None else Path(options.output).absolute()
    run = (options.run or "latest") if output is None else str(read_run(output)["run"])
    url, database, policy = sources(options)
    with known(run, url, database, policy) as knowledge:
        if knowledge is not None:
            return _from_knowledge(knowledge, options.rollout)
    if output is not None:
        return _from_files(output, run, options.rollout)
    said = "no run has been seen" if run == "latest" else f"run {run} is not known"
    cure = "start the collector that the run had, or give its --collector, --database or --output"
    raise UnreachableError(f"{said}, neither at {url} nor in {hidden(database)}; {cure}")


def _from_knowledge(knowledge: Knowledge, named: str) -> Answer:
    benchmark, _, rollout = named.rpartition("/")
    try:
        there = knowledge.rollout(rollout, None, 0)["benchmarks"]
        return knowledge.rollout(rollout, _chosen(rollout, benchmark, there), ALL)
    except NoSuchRunError as error:
        raise UsageError(str(error)) from error


def _chosen(rollout: str, given: str, there: Sequence[str]) -> str:
    """The benchmark that is meant: named whole, or by its agent. Raises UsageError."""
    whole = [name for name in there if name == given]
    found = whole or [name for name in there if not given or name.rpartition(":")[2] == given]
    if len(found) == 1:
        return found[0]
    named = ", ".join(f"{name}/{rollout}" for name in there)
    if not found:
        raise UsageError(f"{given} has no rollout {rollout}; there is {named}")
    raise UsageError(f"several benchmarks have a rollout {rollout}; write one of {named}")


def _from_files(output: Path, run: str, named: str) -> Answer:
    """What the failure rows of a rollout tell: the API's shape, with no times of the dispatches."""
    given, _, rollout = named.rpartition("/")
    path = failures_path(output)
    mine = [row for row in _rows(path) if _id_of(row) == rollout and _told(row).get("run", run) == run]
    there = sorted({benchmark_of(row) for row in mine})
    if not there:
        raise UsageError(f"no collector and no database knows run {run}, and {path} has no row of {rollout}")
    benchmark = _chosen(rollout, given, there)
    told = [_attempt(row) for row in mine if benchmark_of(row) == benchmark]
    about = {"id": rollout, "benchmark": benchmark, "benchmarks": there, "run": run, "state": "failed", "now": 0.0}
    return about | {"dispatches": told, "from_files": True}


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    return (row for _, _, row in rows(path) if row is not None)


def _id_of(row: Mapping[str, Any]) -> str | None:
    key = key_of(row)
    return None if key is None else rollout_id(*key)


def _told(row: Mapping[str, Any]) -> dict[str, Any]:
    """What Rollcall says in a row; nothing in one that the agent wrote itself."""
    told = row.get("_rollcall")
    return told if isinstance(told, dict) else {}


def _attempt(row: Mapping[str, Any]) -> Answer:
    told = _told(row)
    bad = sorted(_calls(told.get("tags")), key=lambda call: float(call["started_at"]))
    cause = told["root_cause"] if isinstance(told.get("root_cause"), dict) else None
    calls = marked(bad, bad, cause)
    return {
        "dispatch": str(told.get("dispatch") or "unknown"),
        "trace": None,
        "attempt": row.get("_ng_attempt_index") or 0,
        "state": "failed",
        "class": str(row.get("_ng_failure_class") or ""),
        "root_cause": cause,
        "started_at": None,
        "ended_at": None,
        "spans": calls,
        "spans_known": len(calls),
        "spans_lost": 0,
    }


def _calls(tags: Any) -> Iterator[Answer]:
    for value in tags if isinstance(tags, list) else ():
        try:
            call = asdict(_TAG.validate_python(value))
        except ValidationError:
            continue  # not a tag of this version: the rest of the row still tells something
        yield call | {"parent": ""}


def _has_colours() -> bool:
    """On a terminal, unless the user wants none (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _coloured(text: str, tone: str) -> str:
    colour = _COLOURS.get(tone)
    return text if colour is None else f"\033[{colour}m{text}\033[0m"
