"""A worker: `python -m rollcall_proxy.workers.process FD`, FD being its end of the channel to the first process."""

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import uvloop
from rollcall_collector.contract.policy import policy_from
from rollcall_collector.logs import log_to_stderr
from rollcall_collector.serving import collect_less
from rollcall_collector.tasks import background, spawn

from .. import wire
from ..departing import Departure
from ..exchange import exchange_ids, head_from, route_of, taken_in
from ..forwarding import Forwarder
from ..reach import Reach
from ..roles import role_of
from ..settings import ProxySettings, engine_settings
from ..spans import SOON_S, Spans
from ..upstream import Upstream, Window
from .channel import Channel, Message
from .sharing import workers_owner
from .standing import Standing
from .telling import InForce, Outlet, Telling
from .words import departure_as_json, key_from, window_as_json

log = logging.getLogger(__name__)

_TOLD_S = 0.5
"""Seconds between two tellings of what has been counted; it is lost if the worker is killed."""


class Worker:
    """Carries the exchanges of the connections that it is given."""

    def __init__(self, channel: Channel, settings: ProxySettings) -> None:
        self._channel, self.settings = channel, settings
        alone = self.settings.model_copy(update={"connections": None})  # the first process counts them
        self._engine = wire.Engine(engine_settings(alone), why_not=Reach(settings).why_not)
        self._in_force, self._standing = InForce(), Standing()
        self._outlet = Outlet(channel)
        self._spans = Spans(self._outlet, self.settings.spans)
        self._telling = Telling(channel, self._in_force, self._standing, self._spans)
        observe = self.settings.mode == "observe"
        self._forwarder = Forwarder(self._engine, self._telling, observe, self.settings.inspect_limit)
        self._upstreams: dict[int, Upstream] = {}
        self._windows: dict[str, Window] = {}
        self._departures: dict[str, Departure] = {}
        self._ids: Iterator[str] = exchange_ids()
        self._kinds: dict[str, Callable[[dict[str, Any]], None]] = {
            "policy": self._policy,
            "place": self._place,
            "window": lambda said: self._window_of(said["url"]).learn(said["since"], said["last"]),
            "departure": lambda said: self._departure_of(said["url"]).learn(said["since"]),
            "standing": self._stands,
            "over": self._ended,
            "stored": lambda said: self._telling.stored(said["number"], said["call"]),
            "tell": self._tell,
        }

    def heard(self, said: Message) -> None:
        """What the first process says."""
        if said.kind == "connection":
            self._adopt(said)
        else:
            self._kinds[said.kind](said.about)

    async def tell(self) -> None:
        """Tell from time to time what has been counted."""
        while True:
            await asyncio.sleep(_TOLD_S)
            self._tell_counts()

    async def tell_spans(self) -> None:
        """Tell from time to time what was seen of dispatches that go on."""
        while True:
            await asyncio.sleep(SOON_S)
            self._spans.tell()

    async def close(self, grace: float) -> None:
        """End as the engine does, and tell the rest."""
        await self._engine.close(grace)
        self._telling.close()
        self._tell_counts()
        self._spans.tell()
        self._outlet.send()

    def _adopt(self, said: Message) -> None:
        if said.connection is None:
            return
        number = said.about["place"]
        upstream = self._upstreams[number]
        self._engine.adopt(
            said.connection,
            lambda request: self._take_in(request, upstream, number),
            said.data,
            lambda: self._channel.send("closed", {"place": number}),
        )

    def _take_in(self, request: wire.Exchange, upstream: Upstream, number: int) -> None:
        exchange = None
        try:
            head = head_from(request.head)
            owner = workers_owner(head, upstream.kind)
            if owner is not None and not request.surplus:
                role = role_of(upstream.kind, route_of(head.path))
                exchange = taken_in(next(self._ids), upstream, request.head, head, owner, role)
                self._telling.saw(exchange, number)
                self._forwarder.forward(request, exchange)
                return
        except Exception:
            log.exception("taking in an exchange with %s failed in Rollcall", upstream.name)
            if exchange is not None:
                task = spawn(f"exchange at {upstream.name}", self._forwarder.faulted(request, exchange))
                request.on_left = task.cancel
                return
        request.hand_over(
            lambda connection, received: self._channel.send("back", {"place": number}, received, connection)
        )

    # What is told.

    def _policy(self, said: dict[str, Any]) -> None:
        if said["policy"] is not None:
            self._in_force.policy = policy_from(said["policy"])

    def _place(self, said: dict[str, Any]) -> None:
        limits = None if self.settings.mode == "observe" else self.settings
        url = said["url"]
        upstream = Upstream(
            said["name"], said["server_kind"], url, limits, self._window_of(url), self._departure_of(url)
        )
        self._upstreams[said["place"]] = upstream

    def _stands(self, said: dict[str, Any]) -> None:
        self._standing.failed(said["dispatch"], key_from(said["key"]), said["generating"], said["ended_at"])
        self._answer(said)

    def _ended(self, said: dict[str, Any]) -> None:
        self._standing.over(said["dispatch"])
        self._spans.close(said["dispatch"])

    def _tell(self, said: dict[str, Any]) -> None:
        self._tell_counts()
        self._answer(said)

    def _tell_counts(self) -> None:
        self._telling.tell_counts([upstream.in_flight for upstream in self._upstreams.values()])

    def _answer(self, said: dict[str, Any]) -> None:
        if "number" in said:
            self._channel.send("answer", {"number": said["number"]})

    def _window_of(self, url: str) -> Window:
        if url not in self._windows:
            window = self._windows[url] = Window(self.settings.connect_window)
            window.tell = lambda found: self._channel.send("window", window_as_json(url, found))
        return self._windows[url]

    def _departure_of(self, url: str) -> Departure:
        if url not in self._departures:
            departure = self._departures[url] = Departure(url, self.settings.shutdown_probe)
            departure.tell = lambda found: self._channel.send("departure", departure_as_json(found))
        return self._departures[url]


class Life:
    """What begins and ends a worker's work."""

    def __init__(self, end: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._begun: asyncio.Future[Worker | None] = loop.create_future()
        self._over: asyncio.Future[float] = loop.create_future()
        self._channel = Channel(end, self._heard, lambda: self._ends(0.0))

    async def live(self) -> None:
        """Work until the first process says stop, or is gone."""
        if (worker := await self._begun) is not None:
            async with background(worker.tell(), "tell"), background(worker.tell_spans(), "spans"):
                grace = await self._over
                await worker.close(grace)
        self._channel.close()

    def _heard(self, said: Message) -> None:
        if said.kind == "settings":
            worker = Worker(self._channel, ProxySettings(**said.about["settings"]))
            log_to_stderr(worker.settings.log_format)
            logging.getLogger().setLevel(said.about["level"])
            self._begun.set_result(worker)
            self._channel.send("ready", {})
        elif said.kind == "stop":
            self._ends(said.about["grace"])
        elif (begun := self._begun.result()) is not None:
            begun.heard(said)

    def _ends(self, grace: float) -> None:
        if not self._begun.done():
            self._begun.set_result(None)
        if not self._over.done():
            self._over.set_result(grace)


async def work(end: socket.socket) -> None:
    """Be a worker."""
    await Life(end).live()


def main() -> None:
    """Signals that a terminal or a supervisor sends to the whole group are the first process's to obey."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    collect_less()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work(socket.socket(fileno=int(sys.argv[1]))))


if __name__ == "__main__":
    main()
