"""Whatever the two sides do, in any order: nothing of an exchange stays behind when both are gone."""

import asyncio
import gc
import weakref
from collections.abc import Awaitable
from typing import TypeVar

import uvloop
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from rollcall_proxy.wire import Consumer, Outcome
from wirestage.cases import CHUNKED, END, GET, HI, LENGTH_2, OK, POST
from wirestage.raw import Peer, Step, closes, eof, resets
from wirestage.through import Wire

Result = TypeVar("Result")

SAID = [GET + END, POST + LENGTH_2 + END + b"h", b"i", POST + CHUNKED + END, b"2\r\nhi\r\n", b"0\r\n\r\n", GET, b"\0"]
ANSWERED = [HI, OK + LENGTH_2 + END, b"h", OK + CHUNKED + END, b"1\r\nx\r\n", b"0\r\n\r\n", OK + END, b"\0\r\n"]


class AnyCourse(RuleBasedStateMachine):
    """Callers and servers that say, and do, what comes to their mind."""

    @initialize(keeps=st.booleans())
    def begin(self, keeps: bool) -> None:
        self.runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self.ends: list[Outcome] = []
        self.callers: list[Peer] = []
        ends, keeping = self.ends, keeps

        class Noting(Consumer):
            keeps = keeping

            def on_end(self, outcome: Outcome) -> None:
                ends.append(outcome)
                super().on_end(outcome)

        async def started() -> Wire:
            return await Wire().__aenter__()

        self.wire = self.run(started())
        self.wire.consumer = Noting

    def run(self, awaitable: Awaitable[Result]) -> Result:
        """Do this, and let the engine take it in."""

        async def done() -> Result:
            result = await awaitable
            await asyncio.sleep(0.002)
            return result

        return self.runner.run(done())

    @rule(said=st.sampled_from(SAID))
    def caller_comes(self, said: bytes) -> None:
        self.callers.append(self.run(self.wire.caller(said)))

    @rule(number=st.integers(0, 9), step=st.sampled_from([*SAID, closes, resets, eof]))
    def caller_goes_on(self, number: int, step: Step) -> None:
        if self.callers:
            self.run(self.callers[number % len(self.callers)].follow((step,)))

    @rule(number=st.integers(0, 9), step=st.sampled_from([*ANSWERED, closes, resets, eof]))
    def server_goes_on(self, number: int, step: Step) -> None:
        if peers := self.wire.server.peers:
            self.run(peers[number % len(peers)].follow((step,)))

    @rule(number=st.integers(0, 9))
    def exchange_is_cut(self, number: int) -> None:
        async def cut() -> None:
            self.wire.exchanges[number % len(self.wire.exchanges)].cut()

        if self.wire.exchanges:
            self.run(cut())

    def teardown(self) -> None:
        if not hasattr(self, "wire"):
            return
        gone = [weakref.ref(exchange) for exchange in self.wire.exchanges]
        self.wire.exchanges.clear()
        self.run(self.all_leave())
        assert self.run(self.wire.left_over()) == (0, 0)
        assert [ref for ref in gone if ref() is not None] == []
        assert len(self.ends) <= len(gone)
        self.run(self.wire.__aexit__())
        self.runner.close()

    async def all_leave(self) -> None:
        for peer in [*self.callers, *self.wire.server.peers]:
            await peer.close()
        await self.wire.server.close()


def test_nothing_stays_behind() -> None:
    gc.disable()  # what is freed is freed by its last reference
    try:
        run_state_machine_as_test(AnyCourse, settings=settings(max_examples=60, stateful_step_count=12, deadline=None))
    finally:
        gc.enable()
