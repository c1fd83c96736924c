"""Answers that reach the caller whole: those of the servers, read first, and those that Rollcall makes itself.

Rollcall's own answers are a short JSON object and carry the field Rollcall-Answer, which says why it answered.
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson
from rollcall_collector.contract.exchange import DispatchEnded

from . import wire
from .fields import SHUTDOWN_FIELD, with_length, without
from .upstream import Upstream, UpstreamError

ANSWER_FIELD = "Rollcall-Answer"
_SHUTDOWN = SHUTDOWN_FIELD.lower().encode()


class Said:
    """The head of a server's answer, and what Rollcall reads in it.

    `leaving`: it says that its server is being shut down. `length`: of its body, where it says that; else None.
    `empty`: nothing follows.
    """

    __slots__ = ("coding", "head", "leaving", "length", "media_type", "method", "status")

    def __init__(self, head: wire.AnswerHead, method: str) -> None:
        self.head, self.method, self.status = head, method, head.status
        said = head.noted.get(b"content-length")
        self.length, self.leaving = None if said is None else int(said[0]), False
        self.media_type = self.coding = ""
        for name, value in head.fields:
            lower = name.lower()
            if lower == b"content-type" and not self.media_type:
                self.media_type = value.partition(b";")[0].strip().lower().decode("latin-1")
            elif lower == b"content-encoding":
                self.coding += ("," if self.coding else "") + value.decode("latin-1")
            elif lower == _SHUTDOWN:
                self.leaving = True

    @property
    def empty(self) -> bool:
        """Whether nothing follows this head."""
        return self.length == 0 or self.method == "HEAD"

    @property
    def tunnel(self) -> bool:
        """Whether what follows is no HTTP (RFC 9110 7.8, 9.3.6)."""
        return self.status == 101 or (self.method == "CONNECT" and 200 <= self.status < 300)

    @property
    def endless(self) -> bool:
        """Whether only the end of the connection will end it."""
        if self.length is not None or b"transfer-encoding" in self.head.noted:
            return False
        return not (self.method == "HEAD" or self.status in (204, 304) or self.tunnel)

    def passed_on(self, cookie: str | None = None) -> wire.AnswerHead:
        """The head for the caller: without what the attach has told Rollcall, with a cookie of Rollcall's.

        One without an end of its own goes in chunks, so that its end and a cut-off cannot be taken for each other.
        """
        head, endless = self.head, self.endless
        if not (self.leaving or endless) and cookie is None:
            return head
        fields, noted = without(head.fields, _SHUTDOWN), head.noted
        if cookie is not None:
            fields.append((b"Set-Cookie", cookie.encode()))
        if endless:
            fields.append((b"Transfer-Encoding", b"chunked"))
            noted = noted | {b"transfer-encoding": [b"chunked"]}
        return wire.AnswerHead(self.status, head.reason, fields, head.minor, noted)


@dataclass(frozen=True, slots=True)
class Whole:
    """An answer that is there whole."""

    head: wire.AnswerHead
    body: bytes

    def give(self, request: wire.Exchange) -> None:
        """Answer, whether the caller takes it or not."""
        request.begin(self.head, "length")
        request.piece(self.body)
        request.end([])

    async def deliver(self, request: wire.Exchange) -> None:
        """Answer, and wait until the caller has taken nearly all. Raises ConnectionResetError when it has left."""
        request.begin(self.head, "length")
        request.piece(self.body)
        await request.ready()
        request.end([])


@dataclass(frozen=True, slots=True)
class Made:
    """What each caller is answered that waits for an outermost `/run`.

    Without an answer the caller's connection is broken, as the server would have broken it.
    """

    answer: Whole | None
    ended: DispatchEnded

    async def deliver(self, request: wire.Exchange) -> None:
        """Answer one of them. Raises ConnectionResetError when it has left."""
        if self.answer is None:
            request.cut()
        else:
            await self.answer.deliver(request)


def whole(said: Said, body: bytes) -> Whole:
    """A server's answer whose body has been read."""
    head = said.passed_on()  # in chunks it is not any more, now that it is whole
    fields = head.fields if head.status in (204, 304) else with_length(head.fields, len(body))
    return Whole(wire.AnswerHead(head.status, head.reason, fields, 1, head.noted), body)


def own_answer(word: str, value: Any, status: int = 200) -> Whole:
    """An answer that Rollcall makes itself."""
    body = orjson.dumps(value)
    fields = [
        (ANSWER_FIELD.encode(), word.encode()),
        (b"Content-Type", b"application/json"),
        (b"Content-Length", b"%d" % len(body)),
    ]
    return Whole(wire.AnswerHead(status, HTTPStatus(status).phrase.encode(), fields), body)


def of_a_fault() -> Whole:
    """The answer where Rollcall itself has failed; its log says how."""
    return own_answer("fault", {"error": "fault in Rollcall", "answered_by": "rollcall"}, 500)


def in_place_of(upstream: Upstream, error: UpstreamError) -> Whole:
    """The answer where a server gave none."""
    reason = {"error": error.what, "server": upstream.name, "detail": error.message, "answered_by": "rollcall"}
    return own_answer(error.what, reason, error.status)
