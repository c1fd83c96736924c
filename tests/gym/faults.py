"""Faults on purpose at the servers of a test, and the truth about whose they were.

A request says in its content which rollout it belongs to and how often it may go wrong: `ticket-<seed>-<number>-
<per mille>`. Whether it does is a hash of the seed, the server, the path, the number and the how-manieth such request
it is, so it is the same in whatever order requests come. A server logs each answer of its own that is no success, one
that hands an inner failure on among them. Nothing of Rollcall's is read for that, and no order or time.

This file lies beside every server that imports it, in an environment that holds Gym and nothing of these tests.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

LOG = "TRUTH_LOG"
NOT_OF_A_ROLLOUT = ("/aggregate_metrics",)
ANY_STATUS = (400, 404, 409, 422, 500, 502, 503, 504)
# What a model server of Gym's hands on at the first try.
MODEL_STATUS = (400, 409, 422)
_TICKET = re.compile(r"ticket-([a-z0-9]+)-(\d+)-(\d+)")


@dataclass(frozen=True)
class Ticket:
    """The rollout that a request's content names, and how many of a thousand of its requests go wrong."""

    seed: str
    number: int
    per_mille: int

    def __str__(self) -> str:
        return f"ticket-{self.seed}-{self.number}-{self.per_mille}"

    def drawn(self, *what: object) -> int:
        """A number that depends on the ticket and on `what`, and on nothing else."""
        text = "/".join([self.seed, str(self.number), *(str(part) for part in what)])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    def fault(self, statuses: Sequence[int], *what: object) -> int:
        """The status that this request fails with, or 0."""
        drawn = self.drawn(*what)
        return statuses[drawn // 1_000 % len(statuses)] if drawn % 1_000 < self.per_mille else 0

    @property
    def rounds(self) -> int:
        """How many tools the model asks for, one after another, before it is content."""
        return 1 + self.drawn("rounds") % 3


def ticket_in(text: str) -> Ticket | None:
    found = _TICKET.search(text)
    return Ticket(found[1], int(found[2]), int(found[3])) if found else None


def log(server: str, path: str, status: int, number: int, repeat: int = 0, seed: str = "") -> None:
    """One line to the log that all servers append to; a write of this size is never torn."""
    entry = {"server": server, "path": path, "status": status, "number": number, "repeat": repeat, "seed": seed}
    with open(os.environ[LOG], "ab", buffering=0) as file:
        file.write(json.dumps(entry | {"pid": os.getpid()}).encode() + b"\n")


class Faults:
    """ASGI middleware that answers in the app's place where a fault is drawn, and logs what is no success."""

    def __init__(self, app: Any, server: str) -> None:
        self.app, self.server = app, server
        self.seen: Counter[tuple[Ticket, str]] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] in NOT_OF_A_ROLLOUT:
            return await self.app(scope, receive, send)
        messages = await whole_body(receive)
        ticket = ticket_in(b"".join(message.get("body", b"") for message in messages).decode())
        if ticket is None:
            return await self.app(scope, replaying(messages, receive), send)
        status = self.drawn(ticket, scope["path"])
        app = refusing(status) if status else self.app
        await self.watched(app, ticket, scope, replaying(messages, receive), send)

    def drawn(self, ticket: Ticket, path: str) -> int:
        self.seen[ticket, path] += 1
        return ticket.fault(ANY_STATUS, self.server, path, self.seen[ticket, path])

    async def watched(self, app: Any, ticket: Ticket, scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 400:
                self.log(ticket, scope["path"], message["status"])
            await send(message)

        try:
            await app(scope, receive, sending)
        except Exception:  # Gym's own middleware, which lies around this one, makes a 500 of it
            self.log(ticket, scope["path"], 500)
            raise

    def log(self, ticket: Ticket, path: str, status: int) -> None:
        log(self.server, path, status, ticket.number, seed=ticket.seed)


async def whole_body(receive: Any) -> list[Any]:
    messages = [await receive()]
    while messages[-1].get("more_body"):
        messages.append(await receive())
    return messages


def replaying(messages: list[Any], receive: Any) -> Any:
    waiting = list(messages)

    async def again() -> Any:
        return waiting.pop(0) if waiting else await receive()

    return again


def refusing(status: int) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        fields = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": b'{"error": "this server refuses on purpose"}'})

    return app
