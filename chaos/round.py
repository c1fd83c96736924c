"""One round: a run under its acts, resumed until nothing is left to send, and compared with what is true."""

import asyncio
import io
import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from rollcall_runner.cli import main as rollcall

from .known import Known
from .plan import AGENTS, ATTEMPTS, Plan
from .stage import FIRST_BYTE_S, Stage
from .truth import Events, records
from .verdicts import Difference, differences, rollout_of

PASSES = 16
"""So many passes make a run complete whatever the acts were: a rollout has three attempts."""
_PASS_S = 240.0
_ONE_AT_A_TIME = threading.Lock()
"""For what a verb of the command prints."""
MARKER = "rollcall/metrics_withheld"


@dataclass
class Outcome:
    """What came of a round."""

    plan: Plan
    folder: Path
    differences: list[Difference] = field(default_factory=list)
    passes: int = 0
    succeeded: int = 0
    failed: int = 0
    seconds: float = 0.0
    suffered: list[str] = field(default_factory=list)

    def of(self, kind: str) -> int:
        return sum(each.kind == kind for each in self.differences)


class Round:
    """A stage, and one run on it."""

    def __init__(self, plan: Plan, folder: Path, parallel: int) -> None:
        self._stage = Stage(folder, parallel)
        self._outcome = Outcome(plan, folder)
        self._events = Events(folder / "truth", "execution", "received")
        self._pending_acts = list(plan.acts)
        self._hurry = asyncio.Event()
        (folder / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in plan.rows))

    async def play(self) -> Outcome:
        """Let it happen."""
        began = time.monotonic()
        async with self._stage.running():
            acting = asyncio.create_task(self._act(), name="acts")
            try:
                await self._resume_until_done(acting)
            finally:
                acting.cancel()
                with suppress(asyncio.CancelledError):
                    await acting
            await asyncio.to_thread(self._compare)
        self._outcome.seconds = time.monotonic() - began
        return self._outcome

    async def _act(self) -> None:
        """Each act once its events have been seen; at once where no more events will come."""
        async with asyncio.TaskGroup() as group:
            while self._pending_acts:
                act = self._pending_acts[0]
                while self._events.count() < act.at and not self._hurry.is_set():  # noqa: ASYNC110 - files are asked
                    await asyncio.sleep(0.02)
                self._pending_acts.pop(0)
                self._outcome.suffered.append(str(act))
                group.create_task(self._stage.suffers(act), name=str(act))
                await asyncio.sleep(0)

    async def _resume_until_done(self, acting: "asyncio.Task[None]") -> None:
        while self._outcome.passes < PASSES:
            calm = acting.done()
            status = await self._pass()
            self._check_metrics(status, calm)
            if acting.done() and acting.exception():
                acting.result()
            if calm and not self._pending():
                return
            if not self._pending():
                self._hurry.set()
                await asyncio.wait([acting])
        self._differs("lost", f"still rollouts to send after {PASSES} passes: {len(self._pending())}")

    async def _pass(self) -> int:
        """One dispatcher from its start to its end; its exit status."""
        part, output = self._stage.parts["dispatcher"], self._stage.output
        async with part.lock:
            await part.start(*(["--resume"] if output.exists() else []))
        self._outcome.passes += 1
        assert part.process is not None
        try:
            status = await asyncio.wait_for(part.process.wait(), _PASS_S)
        except TimeoutError:
            self._differs("lost", f"pass {self._outcome.passes} did not end within {_PASS_S:g} s")
            await part.end(signal.SIGKILL)
            return -9
        async with part.lock:  # one that was killed stays away for a while
            return status

    def _pending(self) -> list[Any]:
        """What a dispatcher would send."""
        done, failed = self._rows()
        attempts = Counter(rollout_of(row) for row in failed)
        over = {rollout_of(row) for row in done} | {each for each, count in attempts.items() if count >= ATTEMPTS}
        return [row for row in self._outcome.plan.rows if rollout_of(row) not in over]

    def _rows(self) -> tuple[list[Any], list[Any]]:
        output = self._stage.output
        return _whole_rows(output), _whole_rows(output.with_name("rollouts_failures.jsonl"))

    def _complete(self) -> dict[str, bool]:
        """Each benchmark: whether all its rollouts have a result."""
        done = {rollout_of(row) for row in self._rows()[0]}
        lacking = {_agent(row) for row in self._outcome.plan.rows if rollout_of(row) not in done}
        return {agent: agent not in lacking for agent in AGENTS}

    def _check_metrics(self, status: int, calm: bool) -> None:
        """After each pass: no numbers of a benchmark that is not complete; and where nothing was hurt, the status."""
        if status < 0:
            return
        complete = self._complete()
        for entry in self._metrics():
            agent = entry["agent_ref"]["name"]
            if not complete[agent] and MARKER not in entry["key_metrics"]:
                self._differs("gate", f"pass {self._outcome.passes}: numbers of {agent}, which is not complete")
        right = 0 if all(complete.values()) else 3
        if (status == 0 and right) or (calm and status != right):
            self._differs("gate", f"pass {self._outcome.passes} ended with {status}, not {right}")

    def _metrics(self) -> list[Any]:
        path = self._stage.output.with_name("rollouts_aggregate_metrics.json")
        try:
            found: list[Any] = json.loads(path.read_text())
        except (FileNotFoundError, json.JSONDecodeError):  # a kill may tear it: Gym rewrites it
            return []
        return found

    def _compare(self) -> None:
        known = Known(records(self._outcome.folder / "truth"), FIRST_BYTE_S)
        done, failed = self._rows()
        self._outcome.succeeded = len({rollout_of(row) for row in done})
        self._outcome.failed = len(self._outcome.plan.rows) - self._outcome.succeeded
        self._outcome.differences += differences(self._outcome.plan.rows, done, failed, known)
        self._outcome.differences += self._gates(done)

    def _gates(self, done: list[Any]) -> Iterator[Difference]:
        """The gate live and from the files, and the numbers that it released."""
        complete = self._complete()
        right = 0 if all(complete.values()) else 3
        for source in (["--collector", self._stage.collector_url], ["--collector", "http://127.0.0.1:1"]):
            status, said = self._gate(*source)
            if status != right:
                yield Difference("gate", f"rollcall gate {source} says {status}, not {right}: {said}")
        numbers = {entry["agent_ref"]["name"]: entry["key_metrics"] for entry in self._metrics()}
        for agent, is_complete in complete.items():
            rewards = [row["reward"] for row in done if _agent(row) == agent]
            mean = sum(rewards) / len(rewards) if rewards else None
            said = numbers.get(agent, {}).get("mean/reward")
            if is_complete and said != mean:
                yield Difference("gate", f"{agent}: the mean reward is {mean}, and the metrics say {said}")

    def _gate(self, *source: str) -> tuple[int, str]:
        said = io.StringIO()
        with _ONE_AT_A_TIME, redirect_stdout(said), redirect_stderr(said):
            command = ["gate", "--output", str(self._stage.output), *source, "--database", self._stage.database]
            return rollcall(command), said.getvalue()

    def _differs(self, kind: Any, text: str) -> None:
        self._outcome.differences.append(Difference(kind, text))


def _whole_rows(path: Path) -> list[Any]:
    """The rows of a file; a kill may have torn the last one, which counts for nothing."""
    if not path.exists():
        return []
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    return [json.loads(line) for line in whole.splitlines()]


def _agent(row: Any) -> str:
    name: str = row["agent_ref"]["name"]
    return name
