"""A run that has ended: its files as Gym left them, its verdicts in a real database, and the real verbs on both."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from collector_events import T0, begun, ended, tag
from collector_process import running
from collector_store import Store
from rollcall_collector.contract.exchange import Event
from rollcall_runner.cli import main

NOBODY = "http://127.0.0.1:9"
"""A collector that does not answer."""

Row = dict[str, Any]


def result(task: int, **more: Any) -> Row:
    """What Gym writes of a rollout that ended well."""
    row = {"response": {"id": f"resp_{task}"}, "reward": 1.0, "_ng_task_index": task, "_ng_rollout_index": 0}
    return row | {"agent_ref": {"name": "math_agent"}} | more


def tool_tag(dispatch: str, status: int = 404) -> Event:
    """A tool that answered with an error status."""
    fields = {"server": "weather", "kind": "resources", "role": "tool", "path": "/get_weather", "excerpt": "no city"}
    return tag(dispatch, f"tool-{dispatch}", status=status, **fields)


class World:
    """`collector` is None while nobody answers: then the database is asked."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.output, self.database, self._capsys = folder / "rollouts.jsonl", folder / "x.sqlite3", capsys
        self.store, self.collector = Store(self.database), NOBODY
        self.store.session(output=str(self.output))
        self.beside("_rollcall.json").write_text(json.dumps({"version": 1, "run": "r-1", "proxy": "http://x:1"}))
        self.output.touch()

    def beside(self, ending: str) -> Path:
        return self.output.with_name(f"rollouts{ending}")

    @property
    def failures(self) -> Path:
        return self.beside("_failures.jsonl")

    def expects(self, *tasks: int) -> None:
        """The materialized inputs hold the first rollouts of these tasks, and the collector knows it."""
        rows = [{"_ng_task_index": task, "_ng_rollout_index": 0, "agent_ref": {"name": "math_agent"}} for task in tasks]
        write(self.beside("_materialized_inputs.jsonl"), *rows)
        self.store.expects(*tasks)

    def succeeds(self, *tasks: int) -> None:
        """Rollouts that ended well, with their rows."""
        for task in tasks:
            self.ends(task)
            append(self.output, result(task))

    def ends(self, task: int, *events: Event, **fields: Any) -> Row | None:
        """A dispatch `d-<task>` with these events; its failure row, if it has failed. No file is written."""
        dispatch = f"d-{task}"
        rulings = self.store.sends(begun(dispatch, f"{task}-0"), *events, ended(dispatch, **fields))
        row: Row | None = rulings[0]["row"]
        return row

    def fails(self, task: int, *events: Event, **fields: Any) -> None:
        """A dispatch that failed, by a model's answer where nothing else is said, and its row among the failures."""
        row = self.ends(task, *(events or (tag(f"d-{task}", f"x-{task}"),)), **fields)
        assert row is not None
        append(self.failures, row)

    def is_late(self, task: int) -> None:
        """A tag of a rollout that had succeeded was delivered late."""
        self.store.sends(tag(f"d-{task}", f"late-{task}"))

    def ends_session(self) -> None:
        self.store.is_asked()
        self.store.beats(now=T0 + 200, ended=True)

    def is_alive(self) -> None:
        self.store.beats(now=time.time())

    @contextmanager
    def answering(self) -> Iterator[None]:
        """A collector of the same database answers."""
        with running(self.database) as (_, url):
            self.collector = url
            yield
        self.collector = NOBODY

    def rollcall(self, verb: str, *arguments: str) -> tuple[int, str, str]:
        """The verb about this output: exit status, standard output, standard error."""
        where = ["--output", str(self.output), "--collector", self.collector]
        database = ["--database", f"sqlite:///{self.database}"]
        try:
            status = main([verb, *where, *database, *arguments])
        except SystemExit as ending:
            status = int(str(ending.code))
        return status, *self._capsys.readouterr()

    def gate(self) -> Row:
        """What `rollcall gate --output --json` says."""
        status, text, _ = self.rollcall("gate", "--json")
        answer: Row = json.loads(text)
        assert answer["exit_status"] == status
        return answer

    def close(self) -> None:
        self.store.close()


def write(path: Path, *rows: Row) -> None:
    path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))


def append(path: Path, *rows: Row) -> None:
    with path.open("ab") as file:
        file.writelines(json.dumps(row).encode() + b"\n" for row in rows)


def read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def tasks(path: Path) -> list[int]:
    return [row["_ng_task_index"] for row in read(path)]
