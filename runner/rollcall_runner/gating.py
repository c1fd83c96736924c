"""`rollcall gate --output`: the gate's answer about a run by what is known of it and by what its files hold.

What is known comes from a collector that answers, else from its database, else from the gate's last answer that the
dispatcher left beside the output. The files are read in each case, so that the answer is the same whichever of them
was asked, and never better than the files: a row that is gone makes its rollout missing.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rollcall_collector.contract.causes import Cause, cause_in
from rollcall_collector.contract.gate import Counts, ExitStatus, exit_status, why_withheld, withheld_metrics
from rollcall_collector.contract.identity import rollout_id
from rollcall_collector.results import counting, runfile
from rollcall_collector.results.counting import Files
from rollcall_collector.results.lines import Key, key_of, rows
from rollcall_collector.results.names import failures_path, materialized_path
from rollcall_collector.store import DatabaseError

from .knowledge import Knowledge, known
from .options import UsageError
from .outputs import sources

Gate = dict[str, Any]

ONLY_FILES = "only the files are known: what was unattributed or not inspected is not"
CHANGED = "the files have changed since the run's last session ended"


def answer(options: argparse.Namespace) -> Gate:
    """The gate's answer. Raises UsageError where nothing is at the output, ResultsError where a file is unreadable."""
    if options.run != "latest":
        raise UsageError(f"{options.run} and --output name a run each; give one of them")
    output = Path(options.output).absolute()
    run = _run(output)
    files = counting.read(output, None if run is None else run["run"])
    _check_digest(files, run)
    if run is not None:
        url, database, policy = sources(options)
        try:
            with known(run["run"], url, database, policy) as knowledge:
                if knowledge is not None:
                    return from_knowledge(knowledge, files)
        except DatabaseError as error:
            print(f"rollcall: {error}; going on with the run file", file=sys.stderr)
    return from_files(run, files, is_current=run is not None and runfile.is_current(run, output))


def failures(output: Path, limit: int) -> dict[str, Any]:
    """The failed rollouts by root cause, as the files know them: by the last failure row of each without a result."""
    run = _run(output)
    files = counting.read(output, None if run is None else run["run"])
    last: dict[Key, dict[str, Any]] = {}
    for _, _, row in rows(failures_path(output)):
        key = None if row is None else key_of(row)
        if row is not None and key is not None and key in files.failures and key not in files.results:
            last[key] = row
    found: dict[str, list[tuple[Key, Cause]]] = {}
    for key, row in last.items():
        cause = cause_in(_root_cause(row))
        found.setdefault(cause.id, []).append((key, cause))
    largest = sorted(found.values(), key=len, reverse=True)
    groups = [_group(each, files) for each in largest[:limit]]
    return {"group": "cause", "failed": len(last), "groups": groups, "more": len(found) - len(groups)}


def _root_cause(row: Mapping[str, Any]) -> dict[str, Any] | None:
    own = row.get("_rollcall")
    cause = own.get("root_cause") if isinstance(own, dict) else None
    return cause if isinstance(cause, dict) else None


def _group(members: Sequence[tuple[Key, Cause]], files: Files) -> dict[str, Any]:
    key, cause = members[0]
    example = {"benchmark": files.expected.get(key, ""), "id": rollout_id(*key)}
    return {"count": len(members), "cause": cause.id, "example": example, **asdict(cause)}


def from_knowledge(knowledge: Knowledge, files: Files) -> Gate:
    """By the verdicts: what is not listed in another state has succeeded."""
    gate = knowledge.gate()
    states = ("failed", "omitted", "running", "missing")
    unfinished = {_key(each): state for state in states for each in knowledge.rollouts(state)}
    found = {key: unfinished.get(key, "succeeded") for key in files.expected}
    _compare_expected(gate, files)
    elsewhere = _healed(gate)  # `gym eval reverify` may have written these to another file
    there = files.results | elsewhere
    lost = [key for key, state in found.items() if state == "succeeded" and key not in there]
    wrong = [key for key in files.results if found.get(key) in ("failed", "omitted")]
    _doubt(files, lost, "rollouts that succeeded have no row among the results")
    _doubt(files, wrong, "rows of rollouts that did not succeed lie among the results: rollcall divert")
    return _settled(gate, found | dict.fromkeys(lost, "missing"), files)


def from_files(run: Mapping[str, Any] | None, files: Files, *, is_current: bool) -> Gate:
    """By the rows: one among the results has succeeded, one among the failures has failed."""
    kept = run.get("gate") if run else None
    elsewhere = _healed(kept) if isinstance(kept, dict) else set()
    found = {key: "succeeded" if key in elsewhere else _state(key, files) for key in files.expected}
    gate: Gate = {"run": run and run["run"], "reasons": [], "benchmarks": [], "exit_status": 0}
    if not isinstance(kept, dict):
        files.doubts.append(ONLY_FILES)
        return _settled(gate, found, files)
    gate |= {name: kept[name] for name in ("reasons", "benchmarks", "exit_status", "healed") if name in kept}
    if gate["exit_status"] == ExitStatus.ROLLCALL_FAILED:
        files.doubts += gate["reasons"]
    else:
        _compare_expected(gate, files)
    if not is_current:
        _compare(gate, found, files)
    return _settled(gate, found, files)


def _run(output: Path) -> dict[str, Any] | None:
    try:
        return runfile.read(output)
    except runfile.NoRunError as error:
        if not output.exists() and not materialized_path(output).exists():
            raise UsageError(f"--output {output}: there is no such run; {error}") from error
        return None


def _check_digest(files: Files, run: Mapping[str, Any] | None) -> None:
    begun = run.get("inputs_digest") if run else None
    if begun and files.digest and begun != files.digest:
        files.doubts.append(
            f"the materialized inputs have changed: the run began with {begun}, there is {files.digest}"
        )


def _healed(gate: Mapping[str, Any]) -> set[Key]:
    return {(task, rollout, stage) for task, rollout, stage in gate.get("healed") or ()}


def _key(rollout: Mapping[str, Any]) -> Key:
    return rollout["task_index"], rollout["rollout_index"], rollout["stage_index"]


def _state(key: Key, files: Files) -> str:
    return "succeeded" if key in files.results else "failed" if key in files.failures else "missing"


def _doubt(files: Files, keys: Iterable[Key], text: str) -> None:
    for benchmark, count in Counter(files.expected[key] for key in keys).items():
        files.doubt(benchmark, f"{count} {text}")


def _compare_expected(gate: Gate, files: Files) -> None:
    """A rollout that only one side expects must not pass as one that has succeeded."""
    expected = Counter(files.expected.values())
    known_as = {benchmark["benchmark"]: benchmark["expected"] for benchmark in gate["benchmarks"]}
    for name in {**known_as, **expected} if files.expected else ():
        if expected[name] != known_as.get(name, 0):
            known_count = known_as.get(name, 0)
            files.doubt(name, f"{expected[name]} rollouts in the materialized inputs, {known_count} are known of")


def _compare(gate: Gate, found: Mapping[Key, str], files: Files) -> None:
    """What was kept of a benchmark holds while its results are as many as they were then."""
    counts = _counts(found, files)
    for benchmark in gate["benchmarks"]:
        name = benchmark["benchmark"]
        if counts.get(name, Counts()).succeeded != benchmark["succeeded"]:
            files.doubt(name, CHANGED)


def _counts(found: Mapping[Key, str], files: Files) -> dict[str, Counts]:
    numbers: dict[str, Counter[str]] = {name: Counter() for name in files.expected.values()}
    for key, state in found.items():
        numbers[files.expected[key]][state] += 1
    return {name: Counts(**states) for name, states in numbers.items()}


def _settled(gate: Gate, found: Mapping[Key, str], files: Files) -> Gate:
    """The gate's answer where the files bear it out, and what they say where they do not."""
    counts = _counts(found, files)
    known_as = {benchmark["benchmark"]: benchmark for benchmark in gate["benchmarks"]}
    names = [*known_as, *sorted(set(counts) - set(known_as))]
    benchmarks = [_benchmark(name, known_as.get(name), counts.get(name), gate["reasons"], files) for name in names]
    status = exit_status((_counts_of(each), each["metrics"] == "released") for each in benchmarks)
    if gate["exit_status"] == ExitStatus.ROLLCALL_FAILED:
        status = ExitStatus.ROLLCALL_FAILED
    doubts = sorted({*files.doubts, *(text for texts in files.doubts_about.values() for text in texts)})
    complete = bool(benchmarks) and all(each["complete"] and each["metrics"] == "released" for each in benchmarks)
    settled = {
        "complete": complete,
        "exit_status": int(status),
        "reasons": list(dict.fromkeys([*gate["reasons"], *doubts])),
    }
    return gate | settled | {"benchmarks": benchmarks}


def _benchmark(
    name: str, known_as: Mapping[str, Any] | None, counts: Counts | None, reasons: Iterable[str], files: Files
) -> dict[str, Any]:
    doubts = [*files.doubts, *files.doubts_about.get(name, [])]
    before = None if known_as is None else _counts_of(known_as)
    if counts is None or (before is not None and _is_borne_out(counts, before)):
        counts = before or Counts()
    if known_as is not None and counts == before and not doubts:
        return dict(known_as)
    said = str(known_as["reason"]) if known_as else ""
    old = [said] if said and counts == before else [text for text in reasons if text in said]
    base = dict(known_as or {"benchmark": name, "agent": name.rpartition(":")[2], "environment_server": None})
    reason = (
        ", ".join(dict.fromkeys([*old, *doubts])) if old and counts == before else why_withheld(counts, [*old, *doubts])
    )
    return base | counts.as_dict() | _withheld(counts, reason)


def _is_borne_out(counts: Counts, before: Counts) -> bool:
    """Files know no rollout as omitted or running: it has no row, as a missing one."""
    rowless = before.omitted + before.running + before.missing
    return (before.succeeded, before.failed) == (counts.succeeded, counts.failed) and rowless == (
        counts.omitted + counts.running + counts.missing
    )


def _withheld(counts: Counts, reason: str) -> dict[str, Any]:
    return {
        "complete": counts.complete,
        "metrics": "withheld" if reason else "released",
        "reason": reason,
        "withheld_metrics": withheld_metrics(counts, reason) if reason else None,
        "coverage_metrics": None,
    }


def _counts_of(benchmark: Mapping[str, Any]) -> Counts:
    return Counts(*(benchmark[name] for name in ("succeeded", "failed", "omitted", "running", "missing")))
