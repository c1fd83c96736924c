"""Runs of `gym eval run`, and what each leaves behind."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymlab.processes import Process, launch, until

Row = dict[str, Any]
Key = tuple[int, int]


@dataclass
class Outcome:
    """The exit status and the files of a run, read once it had ended."""

    exit: int
    run: str
    rows: list[Row]
    failures: list[Row]
    metrics: list[dict[str, Any]]
    files: dict[str, str]
    text: str

    def benchmark(self, agent: str) -> dict[str, Any]:
        """The entry of one agent in the metrics file."""
        entries = [entry for entry in self.metrics if entry["agent_ref"]["name"] == agent]
        assert len(entries) == 1, f"{len(entries)} entries for {agent}"
        return entries[0]

    def withheld(self, agent: str) -> bool:
        entry = self.benchmark(agent)
        marks = [entry[part].get("rollcall/metrics_withheld") for part in ("agent_metrics", "key_metrics")]
        assert marks in ([1, 1], [0, 0], [None, None]), marks
        return marks == [1, 1]


@dataclass
class Run:
    """One command that collects into `folder`; `finish` reads the outcome."""

    process: Process
    folder: Path

    def wait_for_rows(self, count: int) -> None:
        path = self.folder / "rollouts.jsonl"
        until(lambda: path.exists() and path.read_bytes().count(b"\n") >= count, 60, self.process.tail, pause=0.05)

    def finish(self, seconds: float = 120) -> Outcome:
        return outcome(self.process.finish(seconds), self.folder, self.process.text)

    def kill(self) -> None:
        self.process.end()


def begin(command: Sequence[str], output: Path, env: Mapping[str, str], cwd: Path) -> Run:
    output.mkdir(parents=True, exist_ok=True)
    number = len(list(output.parent.glob(f"{output.name}-*.log"))) + 1
    log = output.parent / f"{output.name}-{number}.log"
    return Run(launch(f"run {output.name}", command, log, env, cwd), output)


def outcome(status: int, folder: Path, text: str) -> Outcome:
    metrics = folder / "rollouts_aggregate_metrics.json"
    return Outcome(
        exit=status,
        run=run_id(folder),
        rows=read_rows(folder / "rollouts.jsonl"),
        failures=read_rows(folder / "rollouts_failures.jsonl"),
        metrics=json.loads(metrics.read_text()) if metrics.exists() else [],
        files={path.name: path.read_text() for path in folder.iterdir() if path.is_file()},
        text=text,
    )


def run_id(folder: Path) -> str:
    """Rollcall's id of the run, once the attach has written it beside the output; `` until then and without it."""
    try:
        return str(json.loads((folder / "rollouts_rollcall.json").read_text())["run"])
    except (FileNotFoundError, ValueError):
        return ""


def read_rows(path: Path) -> list[Row]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line.strip()]


def keys(rows: list[Row]) -> list[Key]:
    """Which rollouts these rows are of, sorted, repeats and all."""
    return sorted((row["_ng_task_index"], row["_ng_rollout_index"]) for row in rows)


def every_key(tasks: int, repeats: int) -> list[Key]:
    return [(task, repeat) for task in range(tasks) for repeat in range(repeats)]
