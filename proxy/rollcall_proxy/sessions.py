"""Which run a session belongs to.

The attach mints a session for each dispatcher process, registers it through the proxy and names it in
Rollcall-Session. A dispatcher without the attach belongs to the session of the config that was fetched last.
"""

import asyncio
from dataclasses import dataclass
from uuid import uuid4

import aiohttp
import orjson

_LOOK_UP_S = 30.0
"""Seconds for which a session that this proxy has not seen is asked of the collector."""


@dataclass(frozen=True, slots=True)
class SessionOfRun:
    """A session and its run."""

    session: str
    run: str


class UnknownSessionError(LookupError):
    """A session that nobody has registered, or that the collector could not be asked about."""


class Sessions:
    """The sessions that this proxy knows."""

    def __init__(self, client: aiohttp.ClientSession, collector: str) -> None:
        self._client, self._collector = client, collector
        self._known: dict[str, SessionOfRun] = {}
        self._unattached: SessionOfRun | None = None

    def learn(self, session: str, run: str) -> None:
        """A session has been registered."""
        self._known[session] = SessionOfRun(session, run)

    def config_fetched(self) -> None:
        """A dispatcher without the attach has fetched the config: a session and run of its own."""
        self._unattached = SessionOfRun(f"s-{uuid4().hex}", f"r-{uuid4().hex}")

    async def of(self, session: str | None) -> SessionOfRun:
        """The session of a dispatcher's request. Raises UnknownSessionError."""
        if session is None:
            if self._unattached is None:
                self.config_fetched()
            assert self._unattached is not None
            return self._unattached
        if session not in self._known:
            self.learn(session, await self._looked_up(session))
        return self._known[session]

    async def _looked_up(self, session: str) -> str:
        cause = "the collector cannot be reached"
        try:
            async with asyncio.timeout(_LOOK_UP_S):
                while True:
                    try:
                        async with self._client.get(f"{self._collector}/v1/sessions/{session}") as answer:
                            if answer.status == 200:
                                return str(orjson.loads(await answer.read())["run"])
                            if answer.status == 404:
                                raise UnknownSessionError(f"session {session} has not been registered")
                    except (aiohttp.ClientError, OSError) as error:
                        cause = str(error)
                    await asyncio.sleep(0.5)
        except TimeoutError:
            raise UnknownSessionError(f"session {session}: {cause}") from None
