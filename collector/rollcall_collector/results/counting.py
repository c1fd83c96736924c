"""What a run's files say by themselves: which rollouts are expected, which have a row, and what is wrong with a file.

`expected` is every line of the materialized inputs. A row of the main file names no run, so it is one of this run's
where its rollout is expected and its agent is the rollout's. Failure rows that name another run are none of this one's,
where it is known which run this one is.
Each file is read once, line by line.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .lines import Key, key_of, lines, parse, tail_of
from .names import failures_path, materialized_path
from .written import agent_of


@dataclass(slots=True)
class Files:
    """What was read. `doubts` concern all benchmarks, `doubts_about` one."""

    expected: dict[Key, str] = field(default_factory=dict)
    """Each expected rollout's benchmark."""
    digest: str | None = None
    """Of the materialized inputs; None where there are none."""
    results: set[Key] = field(default_factory=set)
    failures: set[Key] = field(default_factory=set)
    doubts: list[str] = field(default_factory=list)
    doubts_about: dict[str, list[str]] = field(default_factory=dict)

    def doubt(self, benchmark: str, text: str) -> None:
        self.doubts_about.setdefault(benchmark, []).append(text)


def read(output: Path, run: str | None) -> Files:
    """Count the files beside an output. Raises `ResultsError` where one cannot be read."""
    files = Files()
    _expected(materialized_path(output), files)
    _results(output, files)
    _failures(failures_path(output), run, files)
    return files


def benchmark_of(row: Mapping[str, Any]) -> str:
    """The name of what Gym computes one set of metrics for: the agent, with the row's environment server before it."""
    agent, environment = agent_of(row), row.get("_ng_environment_server")
    return f"{environment}:{agent}" if agent and environment else agent or str(environment or "")


def is_of(row: Mapping[str, Any], benchmark: str) -> bool:
    """Whether a row can be of a benchmark, by the agent or the environment server that it names."""
    agent, environment = agent_of(row), row.get("_ng_environment_server")
    return agent is None or agent == benchmark.rpartition(":")[2] or environment == benchmark


def _expected(path: Path, files: Files) -> None:
    if not path.exists():
        files.doubts.append(f"{path.name} is missing: what is expected is not known from the files")
        return
    digest, unreadable = hashlib.sha256(), 0
    for line in lines(path):
        digest.update(line.raw)
        row = parse(line.raw)
        key = key_of(row) if row is not None else None
        if row is not None and key is not None:
            files.expected[key] = benchmark_of(row)
        elif not line.raw.isspace():
            unreadable += 1
    files.digest = f"sha256:{digest.hexdigest()}"
    if unreadable:
        files.doubts.append(f"{path.name}: {unreadable} lines name no rollout")


def _results(path: Path, files: Files) -> None:
    if not path.exists():
        files.doubts.append(f"{path.name} is missing")
        return
    twice, foreign = Counter[str](), Counter[str]()
    for row in _rows(path, files):
        key = key_of(row)
        benchmark = files.expected.get(key) if key is not None else None
        if key is None or benchmark is None or not is_of(row, benchmark):
            foreign[benchmark or ""] += 1
        elif key in files.results:
            twice[benchmark] += 1
        else:
            files.results.add(key)
    for benchmark, count in twice.items():
        files.doubt(benchmark, f"{path.name}: {count} rows too many of rollouts that have one")
    for benchmark, count in foreign.items():
        text = f"{path.name}: {count} rows of no rollout of this run"
        if benchmark:
            files.doubt(benchmark, text)
        elif files.expected:
            files.doubts.append(text)


def _failures(path: Path, run: str | None, files: Files) -> None:
    for row in _rows(path, files):
        own = row.get("_rollcall")
        named = own.get("run") if isinstance(own, dict) else None
        key = key_of(row)
        if key is not None and (run is None or named in (None, run)):
            files.failures.add(key)


def _rows(path: Path, files: Files) -> Iterator[dict[str, Any]]:
    """The rows of a file; a torn last line and unreadable ones are doubts."""
    tail = tail_of(path)
    if tail is None:
        return
    torn, unreadable = tail.state == "torn", 0
    for line in lines(path, tail.start if torn else None):
        row = parse(line.raw)
        if row is not None:
            yield row
        elif not line.raw.isspace():
            unreadable += 1
    if torn:
        files.doubts.append(f"{path.name}: its last line is torn")
    if unreadable:
        files.doubts.append(f"{path.name}: {unreadable} lines cannot be read")
