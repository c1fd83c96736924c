"""Posts batches of events to the collector by the engine that calls the servers.

A stream of failures is a stream of posts, for each of which a general HTTP client makes objects that nobody needs here.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp
import orjson
from rollcall_collector.hiding import hidden

from . import wire

NOT_LET_IN = frozenset({401, 403, 407})
"""Statuses by which a collector refuses who asks, and not what was asked."""

_LIMITS = wire.Limits(connect=5.0, total=30.0)


@dataclass(frozen=True, slots=True)
class Posted:
    """The collector's answer; `retry_after` is that field's value (RFC 9110 10.2.3), empty where it is not there."""

    status: int
    body: bytes
    retry_after: str = ""


class Posting:
    """The way of events to a collector, with a token, or with the credentials that stand in its URL."""

    def __init__(self, engine: wire.Engine, collector: str, token: str | None = None) -> None:
        parts = urlsplit(collector)
        tls = parts.scheme == "https"
        port = parts.port or (443 if tls else 80)
        self._engine, self._address = engine, wire.Address(parts.hostname or "", port, tls)
        self._target = f"{parts.path}/v1/events".encode()
        self._fields = [
            (b"Host", parts.netloc.rpartition("@")[2].encode()),
            (b"Content-Type", b"application/json"),
        ]
        if token is not None:
            self._fields.append((b"Authorization", f"Bearer {token}".encode()))
        elif parts.username is not None:
            credentials = aiohttp.BasicAuth(parts.username, parts.password or "").encode()
            self._fields.append((b"Authorization", credentials.encode()))

    async def post(self, batch: bytes) -> Posted:
        """Post a batch. Raises wire.FailedError where no whole answer comes."""
        fields = [*self._fields, (b"Content-Length", b"%d" % len(batch))]
        head = wire.RequestHead(b"POST", self._target, fields)
        async with await self._engine.send(self._address, head, batch, _LIMITS) as answer:
            return Posted(answer.head.status, await answer.read(), _retry_after(answer.head.fields))


def not_let_in(collector: str, said: bytes) -> str:
    """What such an answer means here, and what to do."""
    try:
        detail = str(orjson.loads(said)["detail"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        detail = said[:200].decode("utf-8", "replace")
    return f"{hidden(collector)} does not let this proxy in ({detail}); set collector_token to the collector's token"


def _retry_after(fields: wire.Fields) -> str:
    return next((value.decode("latin-1") for name, value in fields if name.lower() == b"retry-after"), "")
