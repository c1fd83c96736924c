"""Stands where Gym's `nemo_gym.rollout_collection` stands, with the names in it that the attach hooks.

So the session, the heartbeat, what is expected, the run file and the gate are the attach's, as in a real run.
"""

import asyncio
import json
from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from rollcall_attach import owner

from rollcall_runner.demo.files import Output, Row, identity, scored_by_agent
from rollcall_runner.demo.plan import planned_rows
from rollcall_runner.demo.wire import SESSION_FIELD

IN_PARALLEL = 8


@dataclass(frozen=True)
class RolloutCollectionConfig:
    """What the attach reads of Gym's class of this name."""

    output_jsonl_fpath: Path
    resume_from_cache: bool
    disable_aggregation: bool = False

    @property
    def output(self) -> Output:
        return Output(self.output_jsonl_fpath)

    @property
    def materialized_jsonl_fpath(self) -> Path:
        return self.output.inputs


class RolloutCollectionHelper:
    """Sends each pending rollout to its agent's `/run`, writes what comes back, asks for the metrics."""

    def __init__(self, http: aiohttp.ClientSession, addresses: Mapping[str, str]) -> None:
        self.http, self.addresses = http, addresses
        self.slots = asyncio.Semaphore(IN_PARALLEL)
        self.sent: list[asyncio.Task[tuple[Row, Row]]] = []

    async def run_from_config(self, config: RolloutCollectionConfig) -> None:
        output = config.output
        if not (config.resume_from_cache and output.inputs.exists() and output.main.exists()):
            output.start(planned_rows())
        try:
            for finished in self.run_examples(output.pending()):
                output.add(*await finished)
        finally:
            await self._stop()
        results = output.results()
        await self._call_aggregate_metrics(results, results, output.main)

    def run_examples(self, rows: list[Row]) -> Iterator[Awaitable[tuple[Row, Row]]]:
        self.sent = [asyncio.create_task(self._rollout(row), name=f"rollout {identity(row)}") for row in rows]
        return asyncio.as_completed(self.sent)

    async def _stop(self) -> None:
        """One `/run` that is not 2xx ends the run, as in Gym, and takes the others with it."""
        for rollout in self.sent:
            rollout.cancel()
        await asyncio.gather(*self.sent, return_exceptions=True)

    async def _call_aggregate_metrics(self, results: list[Row], rows: list[Row], output_fpath: Path) -> None:
        """One question a benchmark with a scored row, answered with numbers or with the word that they are withheld.

        `results` and `rows` are parallel, as Gym's are.
        """
        entries = [await self._metrics(agent, scored) for agent, scored in scored_by_agent(results).items()]
        Output(output_fpath).metrics.write_text(json.dumps(entries, indent=2) + "\n")

    async def _rollout(self, row: Row) -> tuple[Row, Row]:
        async with self.slots:
            return row, await self._post(row["agent_ref"]["name"], "/run", row)

    async def _metrics(self, agent: str, rows: list[Row]) -> Row:
        answer = await self._post(agent, "/aggregate_metrics", {"verify_responses": rows})
        print(f"Key metrics for {agent}: {json.dumps(answer['key_metrics'])}", flush=True)
        return {"agent_ref": {"name": agent}, **answer}

    async def _post(self, agent: str, path: str, body: Row) -> Row:
        session = owner.SESSION.get()
        headers = {SESSION_FIELD: session} if session else {}
        async with self.http.post(self.addresses[agent] + path, json=body, headers=headers) as answer:
            answer.raise_for_status()
            loaded: Row = await answer.json()
            return loaded
