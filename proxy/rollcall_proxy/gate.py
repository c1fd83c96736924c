"""An outermost `/aggregate_metrics`: passed on when every benchmark of its server is complete, else answered here.

Unknown is not complete: a collector that cannot be asked and events that have not reached it withhold as well.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
from aiohttp import web
from rollcall_collector.contract.gate import Counts, withheld_metrics

from .answers import own_answer
from .sender import NotStoredError, Sender
from .watch import Watch

_DELIVERY_S = 5.0
"""Seconds for which the gate waits until the spool has been delivered."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """Metrics are withheld; `metrics` is what stands in their place."""

    metrics: dict[str, Any]


class Gate:
    """Asks the collector whether metrics may be computed."""

    def __init__(self, client: aiohttp.ClientSession, collector: str, sender: Sender, watch: Watch) -> None:
        self._client, self._collector, self._sender, self._watch = client, collector, sender, watch

    async def undelivered(self) -> str | None:
        """Why the collector may not know everything yet; waits a while for the spool to be delivered."""
        try:
            await self._sender.store(*self._watch.told())
        except NotStoredError as error:
            return str(error)
        for _ in range(int(_DELIVERY_S / 0.1)):
            if not self._sender.spooled:
                break
            await asyncio.sleep(0.1)
        if self._sender.spooled:
            return f"{self._sender.spooled} batches of events wait for the collector ({self._sender.away})"
        lost = self._sender.rejected + self._sender.not_stored
        return f"{lost} batches of events were not stored" if lost else None

    async def ask(self, run: str, server: str) -> Withheld | None:
        """Whether the metrics of what was sent to `server` are withheld; None when they are released."""
        doubt = await self.undelivered()
        if doubt is None:
            try:
                return withheld_at(await self._benchmarks(run, server))
            except (aiohttp.ClientError, OSError, TimeoutError, KeyError) as error:
                doubt = f"the collector cannot be asked ({type(error).__name__}: {error})"
        return Withheld(withheld_metrics(Counts(), doubt))

    async def _benchmarks(self, run: str, server: str) -> list[dict[str, Any]]:
        url = f"{self._collector}/v1/runs/{run}/gate"
        async with self._client.post(url, params={"server": server}) as answer:
            answer.raise_for_status()
            found: list[dict[str, Any]] = orjson.loads(await answer.read())["benchmarks"]
            return found


def withheld_at(benchmarks: list[dict[str, Any]]) -> Withheld | None:
    """What withholds the metrics of a server's benchmarks, None where all are released."""
    if not benchmarks:
        return Withheld(withheld_metrics(Counts(), "no rollout of this run was sent to this server"))
    withheld = [benchmark for benchmark in benchmarks if benchmark["metrics"] != "released"]
    if not withheld:
        return None
    names = Counts.__dataclass_fields__
    counts = sum((Counts(**{name: each[name] for name in names}) for each in withheld), Counts())
    return Withheld(withheld_metrics(counts, "; ".join(str(each["reason"]) for each in withheld)))


async def withheld_answer(request: web.BaseRequest, withheld: Withheld) -> web.Response:
    """The answer in the form that Gym prints and saves (nemo_gym 0.4.0 to 0.7.0, AggregateMetrics)."""
    while await request.content.readany():
        pass  # the caller must be able to finish sending
    metrics = withheld.metrics
    value = {"group_level_metrics": [], "agent_metrics": metrics, "key_metrics": metrics}
    return own_answer("withheld", value)
