"""Notices to a webhook: that a run has ended, and that its rollouts fail too often.

Each is told once in effect: its row in the store says so to every collector of the database, and its id is the same in
each try, for a try whose answer was lost. Nothing waits for a webhook, and only the URL of the setting is called.
"""

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import aiohttp
import orjson
from pydantic import SecretStr
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError
from yarl import URL

from .store import Reader, StoreBusyError
from .store.noticing import PAUSES_S, TRIES, Watched, note_failed, note_sent, over_with, take, watched_runs
from .store.reading import OF_OTHERS, UnknownRunError

PAUSE_S = 2.0
"""Seconds between two looks at the runs."""

WATCHED_S = 3600.0
"""Seconds after a run's last sign of life in which something is told of it: not of what is long over."""

ENOUGH = 10
"""Rollouts that must have ended before their failure rate is told of."""

_CAUSES = 5
_TIMEOUT = aiohttp.ClientTimeout(total=10)
_LATER_AT_MOST_S = 600.0

log = logging.getLogger(__name__)

Event = Literal["run.ended", "run.failure_rate"]
Submit = Callable[[Callable[[Connection], Any]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where notices go, what signs them, and from which failure rate on one is due."""

    url: str
    secret: SecretStr | None = None
    failure_rate: float | None = None

    def fields(self, body: bytes, id: str, now: float) -> dict[str, str]:
        """The header fields of a notice. What is signed is its timestamp, a dot and its body."""
        timestamp = str(int(now))
        fields = {"Content-Type": "application/json", "Idempotency-Key": f'"{id}"', "Rollcall-Timestamp": timestamp}
        if self.secret is not None and (key := self.secret.get_secret_value()):
            signed = hmac.new(key.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
            fields["Rollcall-Signature"] = f"sha256={signed}"
        return fields


@dataclass(slots=True)
class Notices:
    """Looks for what is to be told, and tells it."""

    webhook: Webhook
    engine: Engine
    reader: Reader
    submit: Submit
    clock: Callable[[], float]

    async def watch(self) -> None:
        """Look again and again."""
        client = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), timeout=_TIMEOUT)
        async with client:
            while True:
                try:
                    await self._look(client)
                except (SQLAlchemyError, StoreBusyError, UnknownRunError) as error:
                    log.warning("what is to be told to the webhook cannot be read: %s", error)
                await asyncio.sleep(PAUSE_S)

    async def _look(self, client: aiohttp.ClientSession) -> None:
        due = await asyncio.to_thread(self._due)
        await asyncio.gather(*(self._tell(client, *each) for each in due))

    def _due(self) -> list[tuple[str, Event, int]]:
        """What is to be told, as (run, event, number): a run that is resumed ends more than once."""
        now, due = self.clock(), list[tuple[str, Event, int]]()
        with self.engine.connect() as connection:
            runs = watched_runs(connection, self.reader.at(now), now - WATCHED_S, OF_OTHERS)
            done = {each.run: over_with(connection, each.run) for each in runs}
        for each in runs:
            if not each.alive and ("run.ended", each.sessions) not in done[each.run]:
                due.append((each.run, "run.ended", each.sessions))
            if ("run.failure_rate", 0) not in done[each.run] and self._fails_too_often(each):
                due.append((each.run, "run.failure_rate", 0))
        return due

    def _fails_too_often(self, watched: Watched) -> bool:
        if self.webhook.failure_rate is None:
            return False
        rate, ended = _failure_rate(self.reader.status(watched.run, self.clock())["totals"])
        return ended >= ENOUGH and rate >= self.webhook.failure_rate

    async def _tell(self, client: aiohttp.ClientSession, run: str, event: Event, number: int) -> None:
        one: dict[str, Any] = {"run": run, "event": event, "number": number}
        tried = await self.submit(partial(take, **one, now=self.clock()))
        if tried is None:
            return
        id = hashlib.sha256(f"{run}\n{event}\n{number}".encode()).hexdigest()[:32]
        try:
            body = await asyncio.to_thread(self._body, run, event, id)
        except UnknownRunError:
            return  # it has been pruned
        trouble, later = await self._post(client, body, id)
        if trouble is None:
            await self.submit(partial(note_sent, **one, now=self.clock()))
            log.info("run %s: the webhook was told %s", run, event)
            return
        text = "run %s: the webhook was not told %s, try %d of %d: %s"
        log.log(logging.ERROR if tried == TRIES else logging.WARNING, text, run, event, tried, TRIES, trouble)
        pause = max((*PAUSES_S, 0.0)[tried - 1], later)
        await self.submit(partial(note_failed, **one, next_at=self.clock() + pause))

    async def _post(self, client: aiohttp.ClientSession, body: bytes, id: str) -> tuple[str | None, float]:
        """What went wrong, without the URL, which may hold a secret; and for how long the answer asks to wait."""
        fields = self.webhook.fields(body, id, self.clock())
        try:
            async with client.post(URL(self.webhook.url), data=body, headers=fields, allow_redirects=False) as answer:
                if 200 <= answer.status < 300:
                    return None, 0.0
                return f"it answered {answer.status}", _later(answer.headers.get("Retry-After", ""))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return type(error).__name__, 0.0

    def _body(self, run: str, event: Event, id: str) -> bytes:
        now = self.clock()
        status, causes = self.reader.status(run, now), self.reader.groups(run, "cause", _CAUSES)
        told = {name: status[name] for name in _TOLD}
        rate, _ = _failure_rate(status["totals"])
        about = {"event": event, "id": id, "at": now, "failure_rate": rate, "causes": causes["groups"]}
        return orjson.dumps(about | told)


_TOLD = ("run", "state", "output", "complete", "exit_status", "reasons", "sessions", "totals", "benchmarks")


def _failure_rate(totals: Mapping[str, int]) -> tuple[float, int]:
    """The share of failed rollouts among those that have ended, and how many these are."""
    ended = totals["succeeded"] + totals["failed"]
    return (totals["failed"] / ended if ended else 0.0), ended


def _later(retry_after: str) -> float:
    """The seconds that an answer asks to wait (RFC 9110 10.2.3); a date counts as none."""
    return min(float(retry_after[:9]), _LATER_AT_MOST_S) if retry_after.isdecimal() else 0.0
