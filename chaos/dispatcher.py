"""The dispatcher: stands where `gym eval run` stands, with the real attach fitted as it fits Gym.

As Gym's it lists the inputs, sends each pending rollout to its agent's `/run`, asks again while nobody answers, writes
a row the moment it has one into the file that the row names, and asks for the metrics at the end. It is slow to write,
so that a kill may tear a row: Gym's buffered files are torn so.
"""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import aiohttp.client_reqrep
import yaml
from rollcall_attach import control, dispatcher, ending, files, listeners, owner
from rollcall_runner.demo.files import identity, read_rows, scored_by_agent

from .agent import rollout_of
from .asgi import truth_of
from .calls import AGAIN_S, addresses_of, client
from .plan import ATTEMPTS
from .truth import Truth

Row = dict[str, Any]
IDENTITY = ("_ng_task_index", "_ng_rollout_index", "_ng_attempt_index", "agent_ref")


@dataclass(frozen=True)
class RolloutCollectionConfig:
    """What the attach reads of Gym's class of this name."""

    output_jsonl_fpath: Path
    resume_from_cache: bool
    rows: Path
    parallel: int
    disable_aggregation: bool = False

    @property
    def materialized_jsonl_fpath(self) -> Path:
        return self.beside("_materialized_inputs.jsonl")

    def beside(self, ending: str) -> Path:
        return files.beside(self.output_jsonl_fpath, ending)

    def pending(self) -> list[Row]:
        """What has no result, and attempts left: Gym counts rows of the failures file."""
        done = {tuple(rollout_of(row)) for row in read_rows(self.output_jsonl_fpath)}
        failed = Counter(tuple(rollout_of(row)) for row in read_rows(self.beside("_failures.jsonl")))
        pending = []
        for row in read_rows(self.materialized_jsonl_fpath):
            attempt = failed[tuple(rollout_of(row))]
            if tuple(rollout_of(row)) not in done and attempt < ATTEMPTS:
                pending.append({**row, "_ng_attempt_index": attempt} if attempt else row)
        return pending


class RolloutCollectionHelper:
    """Named, with its methods, as the attach expects."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth

    async def run_from_config(self, config: RolloutCollectionConfig) -> None:
        output, inputs = config.output_jsonl_fpath, config.materialized_jsonl_fpath
        if not (config.resume_from_cache and inputs.exists() and output.exists()):
            for path in (output, config.beside("_failures.jsonl")):
                path.write_text("")
            inputs.write_bytes(config.rows.read_bytes())
        async with client() as self._http:
            self._addresses = await asyncio.to_thread(_listeners)
            self._slots = asyncio.Semaphore(config.parallel)
            for finished in self.run_examples(config.pending()):
                row, answer = await finished
                await self._add(config, row, answer)
            results = sorted(read_rows(output), key=identity)
            await self._call_aggregate_metrics(results, results, output)

    def run_examples(self, rows: list[Row]) -> Iterator[Awaitable[tuple[Row, Row]]]:
        return asyncio.as_completed([asyncio.create_task(self._rollout(row), name=str(identity(row))) for row in rows])

    async def _call_aggregate_metrics(self, results: list[Row], rows: list[Row], output: Path) -> None:
        """One question a benchmark with a scored row; `results` and `rows` are parallel, as Gym's are."""
        entries = []
        for agent, scored in scored_by_agent(results).items():
            answer = await self._post(agent, "/aggregate_metrics", {"verify_responses": scored})
            entries.append({"agent_ref": {"name": agent}, **answer})
        files.beside(output, "_aggregate_metrics.json").write_text(json.dumps(entries))

    async def _rollout(self, row: Row) -> tuple[Row, Row]:
        async with self._slots:
            about = {"rollout": rollout_of(row), "attempt": row.get("_ng_attempt_index", 0)}
            self._truth.note("sent", **about)
            answer = await self._post(row["agent_ref"]["name"], "/run", row)
            omitted = bool(answer.get("_ng_no_persist"))
            self._truth.note("received", **about, omitted=omitted, execution=answer.get("execution"))
            return row, answer

    async def _add(self, config: RolloutCollectionConfig, row: Row, answer: Row) -> None:
        """Gym's rule for what a `/run` answer becomes."""
        if answer.get("_ng_no_persist"):
            return
        failed = answer.get("_ng_failure_class") is not None
        path = config.beside("_failures.jsonl") if failed else config.output_jsonl_fpath
        line = json.dumps({**answer, **{key: row[key] for key in IDENTITY if key in row}}) + "\n"
        with path.open("a", buffering=1 << 16) as out:
            out.write(line[: len(line) // 2])
            out.flush()
            await asyncio.sleep(0)
            out.write(line[len(line) // 2 :])

    async def _post(self, agent: str, path: str, body: Row) -> Row:
        while True:
            try:
                answer = await self._http.post(self._addresses[agent] + path, json=body)
            except aiohttp.ClientError:
                await asyncio.sleep(AGAIN_S)
                continue
            answer.raise_for_status()
            found: Row = await answer.json()
            return found


def _listeners() -> dict[str, str]:
    answer = control.call("POST", "/v1/config", {"config": os.environ["CHAOS_CONFIG"], "own": None})
    listeners.remember(answer)
    return addresses_of(yaml.safe_load(answer["config"]))


def collect_rollouts(config: RolloutCollectionConfig) -> None:
    """The command; the attach wraps it, and exits with the gate's status."""
    asyncio.run(RolloutCollectionHelper(truth_of("dispatcher")).run_from_config(config))


# Gym has two more commands, which the attach wraps as well.
e2e_rollout_collection = aggregate_rollouts = collect_rollouts


def main() -> None:
    output, rows, parallel = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    owner.fit_aiohttp(aiohttp.client_reqrep)
    this = sys.modules[__name__]
    dispatcher.install(this)
    ending.install(this)
    try:
        collect_rollouts(RolloutCollectionConfig(output, "--resume" in sys.argv, rows, parallel))
    except control.Failure as failure:
        control.stop(failure)
    except aiohttp.ClientError as error:
        sys.exit(f"the evaluation has ended early: {error!r}")


if __name__ == "__main__":
    main()
