"""Which run a session belongs to.

The attach mints a session for each dispatcher process, registers it through the proxy and names it in
Rollcall-Session. Without the attach each fetch of the config is a session and run of its own, with listeners of its
own: what a dispatcher sends to those belongs to it and to nobody else.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import orjson

from .clock import now
from .keeping import keep, kept

_LOOK_UP_S = 30.0
"""Seconds for which a session that this proxy has not seen is asked of the collector."""


_KEPT = 1000
"""Sessions that are kept in the file, the latest."""

_UNATTACHED_ON_S = 600.0
"""Seconds after its last `/run` for which a run without the attach counts as on."""


@dataclass(frozen=True, slots=True)
class SessionOfRun:
    """A session and its run."""

    session: str
    run: str


class UnknownSessionError(LookupError):
    """A session that nobody has registered, or that the collector could not be asked about."""


class Sessions:
    """The sessions that this proxy knows."""

    def __init__(self, client: aiohttp.ClientSession, collector: str, folder: Path, static: SessionOfRun) -> None:
        self._client, self._collector, self._path = client, collector, folder / "sessions.json"
        self._static = static
        self._known: dict[str, SessionOfRun] = {}
        self._on: set[str] = set()
        self._used: dict[str, float] = {}
        self._shards: dict[str, dict[str, Any] | None] = {}
        self._reverified: dict[str, str] = {}

    def learn_shards(self, session: str, gate: dict[str, Any] | None) -> None:
        """A session only aggregates what other runs wrote; `gate` is what those say together, None where none did."""
        self._shards[session] = gate
        self._keep(session, shards=[gate])

    def learn_reverified(self, session: str, run: str) -> None:
        """A session verifies again what a run wrote."""
        self._reverified[session] = run
        self._keep(session, reverifies=run)

    def reverified_by(self, session: str) -> str | None:
        """The run whose rows a session verifies again."""
        return self._reverified.get(session)

    def shards_of(self, session: str) -> tuple[bool, dict[str, Any] | None]:
        """Whether a session only aggregates, and the gate of the runs whose files it does that over."""
        return session in self._shards, self._shards.get(session)

    def learn(self, session: str, run: str) -> None:
        """A session has been registered; a later process of this proxy will know it while the collector is away."""
        self._on.add(session)
        if session in self._known:
            return
        self._known[session] = SessionOfRun(session, run)
        self._keep(session, run=run)

    def lives(self, session: str) -> None:
        """A session has given a sign of life, maybe to a proxy that was started after it."""
        if session not in self._known and (run := self._recalled(session)) is not None:
            self._known[session] = SessionOfRun(session, run)
        if session in self._known:
            self._on.add(session)

    def ended(self, session: str) -> None:
        """A session has said that it ended."""
        self._on.discard(session)
        self._shards.pop(session, None)
        self._reverified.pop(session, None)

    def runs_on(self) -> Iterable[str]:
        """The runs whose sessions have not ended; without the attach, those that dispatched a while ago at most."""
        lately = now() - _UNATTACHED_ON_S
        self._used = {run: used for run, used in self._used.items() if used > lately}
        return {self._known[session].run for session in self._on} | set(self._used)

    async def of(self, session: str | None, listener: SessionOfRun | None) -> SessionOfRun:
        """The session of a dispatcher's request: the one it names, else its listener's. Raises UnknownSessionError."""
        if session is None:
            found = listener or self._static  # servers named by hand: all they are sent is one session's
            self._used[found.run] = now()
            return found
        if session not in self._known:
            self.learn(session, self._recalled(session) or await self._looked_up(session))
        return self._known[session]

    def _recalled(self, session: str) -> str | None:
        """The run of a session that an earlier process of this proxy has known, with what else it knew of it."""
        found = _kept(self._path).get(session)
        if found is None:
            return None
        if isinstance(shards := found.get("shards"), list) and shards:
            self._shards[session] = shards[0]
        if isinstance(reverified := found.get("reverifies"), str):
            self._reverified[session] = reverified
        return str(found["run"])

    def _keep(self, session: str, **said: Any) -> None:
        known = _kept(self._path)
        known[session] = known.get(session, {}) | said
        keep(self._path, dict(list(known.items())[-_KEPT:]))

    async def _looked_up(self, session: str) -> str:
        cause = "the collector cannot be reached"
        try:
            async with asyncio.timeout(_LOOK_UP_S):
                while True:
                    try:
                        return await self._asked(session)
                    except (aiohttp.ClientError, OSError) as error:
                        cause = str(error)
                    await asyncio.sleep(0.5)
        except TimeoutError:
            raise UnknownSessionError(f"session {session}: {cause}") from None

    async def _asked(self, session: str) -> str:
        async with self._client.get(f"{self._collector}/v1/sessions/{session}", allow_redirects=False) as answer:
            if answer.status == 404:
                raise UnknownSessionError(f"session {session} has not been registered")
            answer.raise_for_status()
            return str(orjson.loads(await answer.read())["run"])


def unattached() -> SessionOfRun:
    """A session and run of its own, for a dispatcher without the attach."""
    return SessionOfRun(f"s-{uuid4().hex}", f"r-{uuid4().hex}")


def _kept(path: Path) -> dict[str, dict[str, Any]]:
    """What is known of each session: its `run`; `shards`, a list of one, and `reverifies` where those were learnt."""
    value = kept(path)
    pairs = value.items() if isinstance(value, dict) else ()
    return {session: said for session, said in pairs if isinstance(said, dict) and isinstance(said.get("run"), str)}
