"""Sends each rollout of the demo to its agent's `/run`, writes what comes back, and asks for the metrics."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import aiohttp

from rollcall_runner.demo.files import Output, Row
from rollcall_runner.demo.session import HEADER, Session

IN_PARALLEL = 8


class Dispatcher:
    """One collection over the pending rollouts of an output, then one set of metrics a benchmark."""

    def __init__(
        self, http: aiohttp.ClientSession, output: Output, addresses: Mapping[str, str], session: Session
    ) -> None:
        self.http, self.output, self.addresses, self.session = http, output, addresses, session
        self.slots = asyncio.Semaphore(IN_PARALLEL)

    async def collect(self) -> None:
        await asyncio.gather(*(self._rollout(row) for row in self.output.pending()))

    async def aggregate(self) -> None:
        """Every benchmark has an entry in the metrics file, one without any scored row too."""
        gate = await self.session.gate()
        entries = [await self._metrics(benchmark) for benchmark in gate["benchmarks"]]
        self.output.metrics.write_text(json.dumps(entries, indent=2) + "\n")

    async def _rollout(self, row: Row) -> None:
        async with self.slots:
            result = await self._post(row["agent_ref"]["name"], "/run", row)
        self.output.add(row, result)

    async def _metrics(self, benchmark: Mapping[str, Any]) -> Row:
        agent = benchmark["agent"]
        rows = self.output.scored(agent)
        if rows:
            answer = await self._post(agent, "/aggregate_metrics", {"verify_responses": rows})
        else:
            withheld = benchmark["withheld_metrics"]
            answer = {"group_level_metrics": [], "agent_metrics": withheld, "key_metrics": withheld}
        print(f"Key metrics for {agent}: {json.dumps(answer['key_metrics'])}")
        return {"agent_ref": {"name": agent}, **answer}

    async def _post(self, agent: str, path: str, body: Row) -> Row:
        headers = {HEADER: self.session.session}
        async with self.http.post(self.addresses[agent] + path, json=body, headers=headers) as answer:
            answer.raise_for_status()
            loaded: Row = await answer.json()
            return loaded


def client() -> aiohttp.ClientSession:
    """Without limits of its own, as Gym's is."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None))
