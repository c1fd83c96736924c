"""The first process's half: it accepts, spreads connections, hears what workers tell, and starts others for those that
die."""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from rollcall_collector.contract.calls import CallKey
from rollcall_collector.contract.exchange import Tag
from rollcall_collector.tasks import spawn

from .. import wire
from ..departing import Departure
from ..door import Door
from ..exchange import head_from
from ..policy_in_force import PolicyInForce
from ..roles import MODEL_ROLES
from ..settings import ProxySettings, for_a_worker
from ..upstream import Upstream, Window
from ..wire.caller import Handler
from .asking import Rounds
from .channel import Message
from .hearing import Hearing
from .member import Worker, begun
from .places import BACKLOG, Accepting, Place
from .sharing import workers_owner
from .words import departure_as_json, place_as_json, standing_as_json, window_as_json

log = logging.getLogger(__name__)

_ANSWERS_S = 30.0
"""Seconds within which a worker must answer; one that does not is ended, since dispatches wait for it."""
_GRACE_S, _ENDS_S = 1.0, 5.0
"""Seconds that what is in flight has to end in, and those after which a worker that has not ended is made to."""
_AGAIN_S, _AGAIN_MOST_S = 0.5, 30.0
"""Seconds until a worker is started for one that has died: the first, and the most, of a number that doubles."""


Member = Worker | None
"""A process that may have connections; None: the first one."""


class Pool:
    """All workers of a proxy, and the listeners that they share."""

    def __init__(
        self, settings: ProxySettings, engine: wire.Engine, hearing: Hearing, in_force: PolicyInForce, door: Door
    ) -> None:
        self._settings, self._engine, self._hearing, self._in_force = settings, engine, hearing, in_force
        self._door = door
        hearing.records.spread = self.spread
        in_force.changed = lambda value: self._tell_all("policy", {"policy": value})
        self._workers: list[Worker] = []
        self._places: list[Place[Member]] = []
        self._accepting: list[Accepting] = []
        self._windows: dict[str, Window] = {}
        self._departures: dict[str, Departure] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._settling = Rounds(lambda: self._all_answer("tell", {}))
        self._closing = False
        self._kinds: dict[str, Callable[[Worker, Message], None]] = {
            "ready": self._is_ready,
            "answer": lambda worker, said: worker.answered(said.about["number"]),
            "spans": lambda _, said: hearing.spanned(said.about["events"], said.data),
            "counts": self._counts,
            "bad": self._bad,
            "good": lambda _, said: hearing.good(said.about),
            "not_inspected": lambda _, said: hearing.not_inspected(said.about),
            "cancelled": lambda _, said: hearing.cancelled(said.about),
            "window": self._window,
            "departure": self._departure,
            "closed": lambda worker, said: self._places[said.about["place"]].gone(worker),
            "back": self._back,
        }

    # For the proxy.

    async def start(self) -> None:
        """Start the workers and wait until they serve. Raises OSError when one does not."""
        for _ in range(self._settings.workers - 1):
            await self._started()
        for worker in list(self._workers):
            await worker.started()

    async def listen(self, bound: socket.socket, upstream: Upstream, handler: Handler) -> None:
        """Serve what comes to a bound socket, in all processes; `handler` is called with what comes to this one."""
        bound.listen(BACKLOG)
        bound.setblocking(False)
        place: Place[Member] = Place(len(self._places), upstream, bound, handler)
        self._places.append(place)
        self._windows[upstream.url], self._departures[upstream.url] = upstream.window, upstream.departure
        upstream.window.tell = lambda window: self._tell_all("window", window_as_json(upstream.url, window))
        upstream.departure.tell = lambda departure: self._tell_all("departure", departure_as_json(departure))
        self._tell_all("place", place_as_json(place.number, place.upstream))
        self._accepting.append(Accepting(bound, lambda accepted: self._spread(place, accepted)))

    async def settled(self) -> None:
        """Returns when everything is in that workers have seen before this was called."""
        await self._settling.wait()

    async def spread(self, tag: Tag, key: CallKey) -> None:
        """Let all workers know that a call stands failed; returns when they do."""
        about = standing_as_json(tag.dispatch or "", key, tag.role in MODEL_ROLES, tag.ended_at)
        await self._all_answer("standing", about)

    def know_standing(self) -> None:
        """The ledger has taken over calls that stand failed."""
        for standing in self._hearing.ledger.standing():
            self._tell_all("standing", standing_as_json(*standing))

    def dispatch_over(self, dispatch: str) -> None:
        """A dispatch has ended."""
        self._tell_all("over", {"dispatch": dispatch})

    def as_list(self) -> list[dict[str, Any]]:
        """The processes as the API shows them, this one first, with their connections by listener."""
        processes: list[tuple[int, Member]] = [(os.getpid(), None)]
        processes += [(each.process.pid, each) for each in self._workers if each.serves]
        return [
            {"pid": pid, "connections": {place.upstream.listener: place.open[each] for place in self._places}}
            for pid, each in processes
        ]

    def abandon(self) -> None:
        """End at once what has not ended."""
        for worker in self._workers:
            worker.stops = True
            worker.kill()
            worker.channel.close()

    async def close(self) -> None:
        """Accept nothing more, and let what is in flight end as the engine does."""
        self._closing = True
        for accepting in self._accepting:
            accepting.close()
        for worker in self._workers:
            worker.stops = True
            worker.channel.send("stop", {"grace": _GRACE_S})
        await asyncio.gather(self._engine.close(_GRACE_S), *(self._ended(worker) for worker in list(self._workers)))
        for task in list(self._tasks):
            task.cancel()

    # Processes.

    async def _started(self) -> Worker:
        worker = await begun(self._heard, self._lost)
        self._workers.append(worker)
        self._introduce(worker)
        return worker

    def _introduce(self, worker: Worker) -> None:
        """All that a worker must know before it has its first connection."""
        send = worker.channel.send
        settings = for_a_worker(self._settings)
        send("settings", {"settings": settings, "level": logging.getLogger().getEffectiveLevel()})
        send("policy", {"policy": self._in_force.value})
        for place in self._places:
            send("place", place_as_json(place.number, place.upstream))
        for url, window in self._windows.items():
            send("window", window_as_json(url, window))
        for departure in self._departures.values():
            send("departure", departure_as_json(departure))
        for standing in self._hearing.ledger.standing():
            send("standing", standing_as_json(*standing))

    def _lost(self, worker: Worker) -> None:
        """A worker is dead; what it had told has been heard."""
        worker.kill()  # if it only looks dead
        worker.gone.set()
        self._workers.remove(worker)
        if worker.ready.is_set() and not worker.stops:
            self._died(worker)
        for number in list(worker.asked):
            worker.answered(number)
        self._carries(worker, [])
        for place in self._places:
            place.open.pop(worker, None)

    def _died(self, worker: Worker) -> None:
        message = f"worker process {worker.process.pid} of the proxy has died, and cut off the calls that it carried"
        log.error("%s: every rollout that is open fails, and can be sent again; another worker is started", message)
        servers = {place.upstream.name: place.upstream for place in self._places if place.open[worker]}
        self._hearing.died(message, worker.heard_at, list(servers.values()))
        self._work("start a worker", self._replace(worker))

    async def _replace(self, dead: Worker) -> None:
        await dead.process.wait()
        pause = _AGAIN_S
        while not self._closing:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _AGAIN_MOST_S)
            try:
                worker = await self._started()
                await worker.started()
            except OSError as error:
                log.error("%s; another one is started in %g s", error, pause)
            else:
                return

    async def _ended(self, worker: Worker) -> None:
        try:
            async with asyncio.timeout(_GRACE_S + _ENDS_S):
                await worker.gone.wait()
        except TimeoutError:
            worker.kill()
            await worker.gone.wait()
        await worker.process.wait()

    # Connections.

    def _spread(self, place: Place[Member], accepted: socket.socket) -> None:
        here = self._crowded() or self._door.shuts_out(accepted) is not None  # this process says so
        others = [] if here else [each for each in self._workers if each.serves]
        chosen = place.turn_of([None, *others])
        if chosen is None:
            self._engine.adopt(accepted, place.handler, gone=lambda: place.gone(None))
        else:
            chosen.channel.send("connection", {"place": place.number}, connection=accepted)

    def _crowded(self) -> bool:
        """Whether one more caller is one too many: the engine of this process answers it."""
        most = self._settings.connections
        if most is None:
            return False
        elsewhere = sum(place.open.total() - place.open[None] for place in self._places)
        here = sum(place.open[None] for place in self._places)
        self._engine.elsewhere = elsewhere
        return elsewhere + max(here, len(self._engine.callers)) >= most

    def _back(self, worker: Worker, said: Message) -> None:
        """A request that a worker must not answer, with its connection."""
        if said.connection is None:
            return
        if self._closing:
            said.connection.close()
            return
        place = self._places[said.about["place"]]
        self._engine.adopt(said.connection, self._lent(worker, place), said.data)

    def _lent(self, worker: Worker, place: Place[Member]) -> Handler:
        """Serves a worker's connection until a request comes that the worker may answer."""

        def give(connection: socket.socket, received: bytes) -> None:
            place.open[worker] += 1
            worker.channel.send("connection", {"place": place.number}, received, connection)

        def handler(request: wire.Exchange) -> None:
            if (
                worker.serves
                and not request.surplus
                and workers_owner(head_from(request.head), place.upstream.kind) is not None
            ):
                request.hand_over(give)
            else:
                place.handler(request)

        return handler

    # What workers say.

    def _heard(self, worker: Worker, said: Message) -> None:
        worker.heard_at = said.at
        self._kinds[said.kind](worker, said)

    def _is_ready(self, worker: Worker, _: Message) -> None:
        worker.ready.set()

    def _counts(self, worker: Worker, said: Message) -> None:
        self._hearing.seen(said.about["seen"], lambda number: self._places[number].upstream)
        self._hearing.ended(said.about["ended"])
        self._carries(worker, said.about["in_flight"])

    def _carries(self, worker: Worker, in_flight: list[int]) -> None:
        """A worker has so many exchanges in flight, by listener."""
        for sign, numbers in ((-1, worker.in_flight), (1, in_flight)):
            for place, number in zip(self._places, numbers, strict=False):
                place.upstream.in_flight_elsewhere += sign * number
        worker.in_flight = in_flight

    def _bad(self, worker: Worker, said: Message) -> None:
        self._work("tag of a worker's", self._tagged(worker, said.about))

    async def _tagged(self, worker: Worker, about: dict[str, Any]) -> None:
        call = ""
        try:
            call = await self._hearing.bad(about, self._departures[about["url"]])
        except Exception:  # whatever it is, the exchange must end
            log.exception("the tag of a worker's exchange failed in Rollcall")
        worker.channel.send("stored", {"number": about["number"], "call": call})

    def _window(self, worker: Worker, said: Message) -> None:
        self._windows[said.about["url"]].learn(said.about["since"], said.about["last"])
        self._tell_all("window", said.about, but=worker)

    def _departure(self, worker: Worker, said: Message) -> None:
        self._departures[said.about["url"]].learn(said.about["since"])
        self._tell_all("departure", said.about, but=worker)

    # What workers are told.

    def _tell_all(self, kind: str, about: dict[str, Any], but: Worker | None = None) -> None:
        for worker in self._workers:
            if worker is not but:
                worker.channel.send(kind, about)

    async def _all_answer(self, kind: str, about: dict[str, Any]) -> None:
        """Send what all workers have to answer; one that does not is ended."""
        asked = {worker: worker.ask(kind, about) for worker in self._workers if worker.serves}
        for worker in self._workers:
            if worker not in asked:
                worker.channel.send(kind, about)  # it has no connections yet, and will have heard by then
        if not asked:
            return
        _, silent = await asyncio.wait(asked.values(), timeout=_ANSWERS_S)
        for worker, answer in asked.items():
            if answer in silent:
                log.error("worker process %d does not answer within %g s and is ended", worker.process.pid, _ANSWERS_S)
                worker.kill()
        if silent:
            await asyncio.wait(silent)

    def _work(self, name: str, work: Awaitable[None]) -> "asyncio.Task[None]":
        task = spawn(name, work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
