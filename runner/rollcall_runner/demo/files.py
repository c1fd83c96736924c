"""The output files of an evaluation, named and filled as Gym's dispatcher does it."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollcall_attach import files

Row = dict[str, Any]
IDENTITY = ("_ng_task_index", "_ng_rollout_index", "agent_ref")
HEAVY = ("response", "responses_create_params")


def identity(row: Row) -> tuple[int, int]:
    return row["_ng_task_index"], row["_ng_rollout_index"]


def read_rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@dataclass(frozen=True)
class Output:
    """One `rollouts.jsonl` and what lies beside it."""

    main: Path

    @property
    def inputs(self) -> Path:
        return files.beside(self.main, "_materialized_inputs.jsonl")

    @property
    def failures(self) -> Path:
        return files.beside(self.main, "_failures.jsonl")

    @property
    def metrics(self) -> Path:
        return files.beside(self.main, "_aggregate_metrics.json")

    def start(self, rows: Iterable[Row]) -> None:
        """A fresh start: the inputs written, the results of an earlier run removed."""
        self.main.parent.mkdir(parents=True, exist_ok=True)
        for path in (self.main, self.failures):
            path.write_text("")
        self.inputs.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def pending(self) -> list[Row]:
        """The inputs with no result yet, each stamped with its attempt: Gym counts rows of the failures file."""
        done = {identity(row) for row in read_rows(self.main)}
        failed = Counter(identity(row) for row in read_rows(self.failures))
        rows = [row for row in read_rows(self.inputs) if identity(row) not in done]
        return [{**row, "_ng_attempt_index": n} if (n := failed[identity(row)]) else row for row in rows]

    def add(self, row: Row, result: Row) -> None:
        """Gym's rule for what a `/run` answer becomes."""
        if result.get("_ng_no_persist"):
            return
        path = self.failures if result.get("_ng_failure_class") is not None else self.main
        with path.open("a") as out:
            out.write(json.dumps({**result, **{key: row[key] for key in IDENTITY}}) + "\n")

    def results(self) -> list[Row]:
        """The successful rows, in order."""
        return sorted(read_rows(self.main), key=identity)


def scored_by_agent(results: Iterable[Row]) -> dict[str, list[Row]]:
    """For each benchmark its rows without their heavy fields: the body of `/aggregate_metrics`."""
    scored: dict[str, list[Row]] = {}
    for row in results:
        light = {key: value for key, value in row.items() if key not in HEAVY}
        scored.setdefault(row["agent_ref"]["name"], []).append(light)
    return scored
