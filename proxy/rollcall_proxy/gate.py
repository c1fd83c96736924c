"""An outermost `/aggregate_metrics`: passed on when every benchmark of its server is released, else answered here.

Unknown is not complete: a collector that cannot be asked and events that have not reached it withhold as well.
Where a benchmark is released with failures, what is passed on is changed (`aggregating`).
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
from rollcall_collector.contract.exchange import Event
from rollcall_collector.contract.gate import Counts, coverage_metrics, withheld_metrics

from .aggregating import is_left_out
from .reporting import Known, Reporter
from .sender import NotStoredError, Sender

Untold = Callable[[], Sequence[Event]]
"""What this proxy knows and has not told yet; from then on it is told."""

_DELIVERY_S = 5.0
"""Seconds for which the gate waits until the spool has been delivered."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """Metrics are withheld; `metrics` is what stands in their place."""

    metrics: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Released:
    """Metrics are released. `left_out` are the rollouts whose rows are not aggregated: (task index, rollout index,
    stage index); `coverage` is what is added to the metrics, None where every rollout has succeeded."""

    left_out: frozenset[tuple[Any, ...]] = frozenset()
    coverage: dict[str, Any] | None = None

    def leaves(self, row: Any) -> bool:
        """Whether a row is taken out of what is aggregated."""
        return is_left_out(row, self.left_out)


class Gate:
    """Asks the collector whether metrics may be computed."""

    def __init__(
        self,
        client: aiohttp.ClientSession,
        collector: str,
        sender: Sender,
        known: Known,
        reporter: Reporter,
    ) -> None:
        self._client, self._collector, self._sender = client, collector, sender
        self._known, self._reporter = known, reporter

    @property
    def told_by(self) -> dict[str, str]:
        """What a question to the collector carries that is to wait for the other proxies."""
        return {"told_by": self._reporter.proxy}

    async def report(self) -> None:
        """Have the collector told that all is told."""
        await self._reporter.report()

    async def undelivered(self) -> str | None:
        """Why the collector may not know everything yet; waits a while for the spool to be delivered."""
        try:
            await self._sender.store(*await self._known())
        except NotStoredError as error:
            return str(error)
        for _ in range(int(_DELIVERY_S / 0.1)):
            if not self._sender.spooled:
                break
            await asyncio.sleep(0.1)
        if self._sender.spooled:
            return f"{self._sender.spooled} batches of events wait for the collector ({self._sender.away})"
        if lost := self._sender.not_stored:
            return f"{lost} batches of events were not stored"
        if rejected := self._sender.rejected:
            cure = f"look at them in {self._sender.rejects}, and move them away"
            return f"{rejected} batches of events were not stored, since the collector refused them; {cure}"
        await self._reporter.report()
        return None

    async def ask(self, run: str, server: str) -> Withheld | Released:
        """Whether the metrics of what was sent to `server` are withheld or released."""
        doubt = await self.undelivered()
        if doubt is None:
            try:
                answer = await self._answer(run, server)
                return withheld_at(answer["benchmarks"]) or released_at(answer)
            except (aiohttp.ClientError, OSError, TimeoutError, KeyError, ValueError) as error:
                doubt = f"the collector cannot be asked ({type(error).__name__}: {error})"
        return Withheld(withheld_metrics(Counts(), doubt))

    async def ask_about(self, run: str, agent: str) -> Withheld | Released:
        """Whether the metrics of an agent's rollouts in a run, which has dispatched them earlier, are withheld."""
        try:
            answer = await self._answer(run, None)
            of_agent = [each for each in answer["benchmarks"] if each["agent"] == agent]
            return withheld_at(of_agent) or released_at(answer | {"benchmarks": of_agent})
        except (aiohttp.ClientError, OSError, TimeoutError, KeyError, ValueError) as error:
            doubt = f"the collector cannot be asked about run {run} ({type(error).__name__}: {error})"
        return Withheld(withheld_metrics(Counts(), doubt))

    async def _answer(self, run: str, server: str | None) -> dict[str, Any]:
        """The gate's answer; a server is named by a dispatcher that dispatches nothing more."""
        url = f"{self._collector}/v1/runs/{run}/gate"
        named = self.told_by | ({} if server is None else {"server": server})
        asking = (self._client.get if server is None else self._client.post)(url, params=named, allow_redirects=False)
        async with asking as answer:
            answer.raise_for_status()
            found: dict[str, Any] = orjson.loads(await answer.read())
            return found


def withheld_at(benchmarks: list[dict[str, Any]]) -> Withheld | None:
    """What withholds the metrics of a server's benchmarks, None where all are released."""
    if not benchmarks:
        return Withheld(withheld_metrics(Counts(), "no rollout of this run was sent to this server"))
    withheld = [benchmark for benchmark in benchmarks if benchmark["metrics"] != "released"]
    if not withheld:
        return None
    return Withheld(withheld_metrics(_counts(withheld), "; ".join(str(each["reason"]) for each in withheld)))


def of_shards(gate: dict[str, Any] | None, server: str) -> Withheld | Released:
    """What the runs whose files are aggregated say together of a server's benchmarks; None where none had a gate."""
    if gate is None:
        return Released()
    named = ("benchmark", "agent", "environment_server")
    here = [each for each in gate.get("benchmarks", ()) if server in (each.get(name) for name in named)]
    if not here:
        reasons = gate.get("unknown") or ["none of the runs speaks of this server"]
        return Withheld(withheld_metrics(Counts(), "; ".join(map(str, reasons))))
    return withheld_at(here) or released_at({"benchmarks": here})


def released_at(answer: dict[str, Any]) -> Released:
    """What is changed of metrics that the gate has released."""
    partly = [each for each in answer["benchmarks"] if each.get("coverage_metrics")]
    if not partly:
        return Released()
    counted_as_zero = sum(each["coverage_metrics"]["rollcall/counted_as_zero"] for each in partly)
    left_out = frozenset(tuple(rollout) for rollout in answer.get("left_out", ()))
    return Released(left_out, coverage_metrics(_counts(answer["benchmarks"]), counted_as_zero))


def _counts(benchmarks: list[dict[str, Any]]) -> Counts:
    names = Counts.__dataclass_fields__
    return sum((Counts(**{name: each[name] for name in names}) for each in benchmarks), Counts())
