"""The registered servers and one listener for each.

A server is known by its name and URL, so two deployments with the same names have listeners of their own. A
dispatcher without the attach gets a set of listeners for itself: what comes there is its session's. No listener is
ever closed while the proxy runs, since its port would be another server's at once. Those that the last proxy at this
address has left are opened again at the start; one whose port is taken meanwhile is tried again until it is free.
"""

import asyncio
import logging
import socket
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from urllib.parse import urlsplit

from rollcall_collector.serving import Problem, listening, url_of

from . import wire
from .clock import now
from .departing import Departure
from .gym_config import GymServer
from .sessions import SessionOfRun
from .settings import ProxySettings
from .succession import Place
from .upstream import Upstream, Window
from .workers.crew import Crew

log = logging.getLogger(__name__)

_IDLE_SETS = 32
"""Sets of listeners through which no `/run` has come; some agents fetch the config too, and dispatch nothing. Above
that number the one used longest ago goes to the next who fetches the same config."""
_MOST = 4096
"""Listeners at the most."""
_REOPENED_S = 5.0
"""Seconds between attempts to open a listener whose port is taken."""
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]", "0.0.0.0"})

TakeIn = Callable[[wire.Exchange, Upstream], None]


class OwnAddressError(ValueError):
    """A server's address is a listener of Rollcall's own under another name."""


class Listeners:
    """Opens listeners and knows which server is behind which."""

    def __init__(self, settings: ProxySettings, host: str, crew: Crew, take_in: TakeIn) -> None:
        self._settings, self._host, self._crew, self._take_in = settings, host, crew, take_in
        self._upstreams: dict[tuple[str, str], Upstream] = {}
        self._sets: OrderedDict[str, list[Upstream]] = OrderedDict()
        self._windows: dict[str, Window] = {}
        self._departures: dict[str, Departure] = {}
        self._taken: list[Place] = []
        self._ports = _Ports(settings.port_range)
        self._registering = asyncio.Lock()

    def all(self) -> list[Upstream]:
        """The registered servers, in order of registration; those of sessions of their own behind them."""
        return [*self._upstreams.values(), *(each for listeners in self._sets.values() for each in listeners)]

    def places(self) -> list[Place]:
        """What a successor needs to open the same listeners, those that could not be opened again included."""
        return [*map(_place_of, self.all()), *self._taken]

    async def reopen(self, places: Iterable[Place]) -> None:
        """Open the listeners that the last proxy has left."""
        async with self._registering:
            for place in places:
                if (error := await self._reopened(place)) is not None:
                    self._taken.append(place)
                    log.error(
                        "the listener of %s (%s) cannot be opened again: %s; what is sent to that port does not come "
                        "here. End the process that has it, or start Gym's servers again; it is tried every %g s",
                        *(place.name, place.url, error, _REOPENED_S),
                    )

    async def run(self) -> None:
        """Try to open what could not be opened again, until cancelled."""
        while True:
            await asyncio.sleep(_REOPENED_S)
            async with self._registering:
                opened = [place for place in self._taken if await self._reopened(place) is None]
                self._taken = [place for place in self._taken if place not in opened]
            for place in opened:
                log.warning("the listener of %s (%s) is open again at port %d", place.name, place.url, place.port)

    async def _reopened(self, place: Place) -> OSError | None:
        """Open a listener at its old port; why that cannot be done."""
        server, session = GymServer(place.name, place.kind, place.url), place.session
        key = (place.name, place.url)
        try:
            upstream = await self._listen(server, session, place.port)
        except OSError as error:
            return error
        upstream.used_at = place.used_at
        if session is None:
            self._upstreams[key] = upstream
        else:
            upstream.has_run = True  # nobody knows: its set goes to no other session
            self._sets.setdefault(session.session, []).append(upstream)
        return None

    def at(self, url: str) -> Upstream | None:
        """The server at a URL or behind a listener; None where none is registered there."""
        place = _place(url)
        return next((each for each in self.all() if place in (_place(each.url), _place(each.listener))), None)

    def listener_of(self, url: str) -> str | None:
        """The listener in front of a server's URL, or the URL itself where it is one; None where none is."""
        upstream = self.at(url)
        return upstream.listener if upstream else None

    async def register(self, servers: Iterable[GymServer]) -> list[Upstream]:
        """The servers with their listeners; to register one again changes nothing. Raises OwnAddressError."""
        async with self._registering:  # Gym's processes start together, and all register the same config
            known = [self._own(server) or await self._one(server) for server in servers]
        for upstream in known:
            upstream.used_at = now()
        return known

    async def register_for(self, session: SessionOfRun, servers: Iterable[GymServer]) -> list[Upstream]:
        """The servers with listeners of this session's own. Raises OwnAddressError."""
        wanted = [self._real(server) for server in servers]
        async with self._registering:
            opened = self._idle_set(wanted) or [await self._listen(server, session) for server in wanted]
            for upstream in opened:
                upstream.session, upstream.used_at = session, now()
            self._sets[session.session] = opened
        return opened

    def _real(self, server: GymServer) -> GymServer:
        known = self._own(server)
        return server if known is None else GymServer(known.name, known.kind, known.url)

    def _own(self, server: GymServer) -> Upstream | None:
        """The upstream whose listener the server's address already is."""
        place = _place(server.url)
        found = next((each for each in self.all() if _place(each.listener) == place), None)
        if found is not None and found.name != server.name:
            raise OwnAddressError(
                f"{server.name} at {server.url}: this is Rollcall's own listener of {found.name}; "
                "register the server's real address"
            )
        return found

    async def _one(self, server: GymServer) -> Upstream:
        key = (server.name, server.url)
        if key not in self._upstreams:
            self._upstreams[key] = await self._listen(server, None)
            self._taken = [place for place in self._taken if place.session or (place.name, place.url) != key]
        return self._upstreams[key]

    def _idle_set(self, wanted: list[GymServer]) -> list[Upstream] | None:
        """A set for the same servers that may go to another session, taken away from the one it was for."""
        idle = [name for name, listeners in self._sets.items() if not any(each.has_run for each in listeners)]
        if len(idle) < _IDLE_SETS:
            return None
        for name in idle:
            listeners = self._sets[name]
            same = [(each.name, each.url) for each in listeners] == [(each.name, each.url) for each in wanted]
            if same and not any(each.in_flight + each.in_flight_elsewhere for each in listeners):
                return self._sets.pop(name)
        return None

    async def _listen(self, server: GymServer, session: SessionOfRun | None, port: int | None = None) -> Upstream:
        """Open a server's listener, at a port where one is given. Raises OSError."""
        limits = None if self._settings.mode == "observe" else self._settings
        window = self._windows.setdefault(server.url, Window(self._settings.connect_window))
        departure = self._departures.setdefault(server.url, Departure(server.url, self._settings.shutdown_probe))
        upstream = Upstream(server.name, server.kind, server.url, limits, window, departure, session)
        if port is None and len(self.all()) >= _MOST:
            raise Problem(
                503,
                "too many listeners",
                f"there are {_MOST}; start the proxy again with an empty spool folder once no run is on",
            )
        bound = self._bind() if port is None else listening(self._host, port)
        try:
            await self._crew.listen(bound, upstream, partial(self.take_in, upstream=upstream))
        except OSError:
            bound.close()
            raise
        upstream.address = (self._settings.advertised_host or self._host, bound.getsockname()[1])
        upstream.listener = url_of(bound, upstream.address[0])
        log.info("%s (%s) at %s is reached at %s", server.name, server.kind, server.url, upstream.listener)
        return upstream

    def take_in(self, request: wire.Exchange, upstream: Upstream) -> None:
        """Take in what is for a server, whether it came to its listener or by way of the main port."""
        upstream.used_at = now()
        if upstream.session is not None:
            self._sets.move_to_end(upstream.session.session)
        self._take_in(request, upstream)

    def _bind(self) -> socket.socket:
        for port in self._ports.candidates():
            try:
                return listening(self._host, port)
            except OSError:
                if port == 0:
                    raise
        raise Problem(503, "no free port", f"port_range {self._settings.port_range} is used up; widen it")


class _Ports:
    """The ports that a listener may take."""

    def __init__(self, port_range: str | None) -> None:
        low, _, high = (port_range or "0-0").partition("-")
        self._low, self._high = int(low), int(high)

    def candidates(self) -> Iterator[int]:
        """Each port of the range; 0, any free one, where there is no range."""
        yield from range(self._low, self._high + 1)


def _place_of(upstream: Upstream) -> Place:
    return Place(upstream.name, upstream.kind, upstream.url, upstream.address[1], upstream.used_at, upstream.session)


def _place(url: str) -> tuple[str, int | None]:
    parts = urlsplit(url)
    host = parts.netloc.rpartition(":")[0]
    return ("loopback" if host in _LOOPBACK else host, parts.port)
