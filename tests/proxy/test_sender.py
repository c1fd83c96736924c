"""What waits for the collector in memory: how long, and how much of it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from proxystage.world import eventually
from rollcall_collector.contract.exchange import NotInspected
from rollcall_collector.tasks import background
from rollcall_proxy import wire
from rollcall_proxy.posting import Posting
from rollcall_proxy.sender import Sender

EVENT = NotInspected("d-1", "model", 5.0)


@pytest.fixture
async def sender(tmp_path: Path) -> AsyncIterator[Sender]:
    """One whose collector is away: what it sends is in the spool. It does not run yet."""
    engine = wire.Engine()
    sender = Sender(Posting(engine, "http://127.0.0.1:9"), tmp_path, "p-1", limit=100)
    yield sender
    sender.close()
    await engine.close()


async def _spooled(sender: Sender, batches: int) -> bool:
    return sender.spooled == batches


async def test_what_nobody_waits_for_is_sent_although_nothing_comes_behind_it(sender: Sender) -> None:
    """Alone, and again once that has been sent."""
    async with background(sender.run(), "sender"):
        for batches in (1, 2):
            sender.put_later(EVENT)
            assert await eventually(lambda batches=batches: _spooled(sender, batches))


async def test_what_nobody_waits_for_goes_before_what_comes_behind_it_and_with_it(sender: Sender) -> None:
    """Three events put at once, the last of which is waited for: one batch."""
    async with background(sender.run(), "sender"):
        sender.put_later(EVENT)
        sender.put(EVENT)
        await sender.store(EVENT)
    assert (sender.spooled, sender.has_room) == (1, True)


async def test_there_is_no_room_beyond_the_limit_until_what_waits_is_on_disk(sender: Sender) -> None:
    """An event of half the limit, and a second one."""
    found = []
    for _ in range(2):
        sender.put_later(EVENT)
        found.append(sender.has_room)
    async with background(sender.run(), "sender"):
        assert await eventually(lambda: _spooled(sender, 1))
        found.append(sender.has_room)
    assert found == [True, False, True]
