"""How the calls of dispatches travel to the collector: those of many together, and the last at once."""

import asyncio
from typing import cast

import orjson
from rollcall_collector.tasks import background
from rollcall_proxy.posting import Posted, Posting
from rollcall_proxy.span_sender import SpanSender

FOR_EVER = 3600.0


class Collector:
    """Takes every batch; `batches` has the dispatches of each."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.came = asyncio.Event()

    async def post(self, batch: bytes) -> Posted:
        self.batches.append([event["dispatch"] for event in orjson.loads(batch)["events"]])
        self.came.set()
        return Posted(200, b"{}")


def put(sender: SpanSender, dispatch: str) -> None:
    sender.put(dispatch, orjson.dumps({"event": "spans", "dispatch": dispatch}), 1)


async def test_the_first_goes_at_once_and_those_behind_it_together_at_the_end_at_the_latest() -> None:
    collector = Collector()
    sender = SpanSender(cast(Posting, collector), "q-1", 10_000, FOR_EVER)
    async with background(sender.run(), "spans"):
        put(sender, "d-1")
        await collector.came.wait()
        for dispatch in ("d-2", "d-3", "d-4"):
            put(sender, dispatch)
            await asyncio.sleep(0.01)
        assert collector.batches == [["d-1"]]
        await sender.flush()
    assert collector.batches == [["d-1"], ["d-2", "d-3", "d-4"]]
