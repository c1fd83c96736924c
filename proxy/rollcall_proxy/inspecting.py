"""The reading of one answer's copy while the answer passes on unchanged.

A failed status keeps the beginning of its body. A good one is read by the contract's inspector and by the user's rules,
decoded where it is coded. Nothing that goes wrong in here changes what is forwarded: the answer counts as not
inspected, and one line in the log says so.
"""

import logging
from dataclasses import dataclass, field, replace
from typing import Protocol

from rollcall_collector.contract.inspection import Finding, Inspector, inspector_for
from rollcall_collector.contract.policy import Policy, ended_well

from .answers import Said
from .encoding import Decoder, UnreadableError, beginning
from .exchange import Bad, Exchange
from .users_rules import KEPT, Asked, asked_of

log = logging.getLogger(__name__)

STREAM = "text/event-stream"


class Reading(Protocol):
    """Reads one answer."""

    @property
    def may_fail(self) -> bool:
        """Whether something in the answer can say that it failed: then it is not whole before it has been read."""

    @property
    def unread(self) -> bool:
        """Whether something in the answer could have said that it failed, and could not be read."""

    def feed(self, piece: bytes) -> Bad | None:
        """Read the next piece; how the exchange has ended, where this piece says so."""

    def end(self) -> Bad | None:
        """The answer has ended cleanly; how the exchange has ended, where it did not end well."""


def reading_of(exchange: Exchange, said: Said, policy: Policy, limit: int) -> Reading:
    """How an answer is read; `limit` are the bytes of its body that are held for that."""
    try:
        return _reading_of(exchange, said, policy, limit)
    except Exception:  # whatever it is, the answer must pass, and a failed status is a failure
        log.exception("reading an answer failed in Rollcall; it passes as it is and counts as not inspected")
        if ended_well(said.status):
            return Unread(unread=True)
        return FailedStatus(About(said.status, said.coding, said.media_type == STREAM, Asked(())))


def _reading_of(exchange: Exchange, said: Said, policy: Policy, limit: int) -> Reading:
    status, kind = said.status, said.media_type
    if said.tunnel:
        return Unread()
    asked = asked_of(exchange, status, policy)
    about = About(status, said.coding, kind == STREAM, asked)
    if not ended_well(status):
        return FailedStatus(about)
    inspector = None
    if 200 <= status < 300 and status != 204 and exchange.method != "HEAD":
        inspector = inspector_for(
            role=exchange.role,
            kind=exchange.upstream.kind,
            method=exchange.method,
            path=exchange.route,
            content_type=kind,
            limit=limit,
        )
    if status >= 300 or (inspector is None and not asked.candidates):
        return Unread()
    return GoodStatus(about, inspector)


_UNCODED = Decoder("")  # it keeps nothing, so that one serves all


@dataclass(slots=True)
class About:
    """What the head of an answer says."""

    status: int
    coding: str
    stream: bool
    asked: Asked


@dataclass(slots=True)
class Unread:
    """An answer in which nothing can say that it failed."""

    may_fail: bool = False
    unread: bool = False

    def feed(self, piece: bytes) -> Bad | None:
        """Nothing is read."""
        return None

    def end(self) -> Bad | None:
        """It has ended well."""
        return None


@dataclass(slots=True)
class FailedStatus:
    """An answer whose status says that it failed: its beginning is kept."""

    about: About
    may_fail: bool = True
    unread: bool = False
    _body: bytearray = field(default_factory=bytearray)

    def feed(self, piece: bytes) -> Bad | None:
        """Keep the beginning."""
        if len(self._body) < KEPT:
            self._body += piece
        return None

    def end(self) -> Bad | None:
        """The status, the body's beginning, and what the user's rules find in it."""
        about, rules = self.about, tuple[str, ...]()
        try:
            if about.asked.need_body:
                rules = about.asked.in_body(beginning(bytes(self._body), about.coding)[:KEPT])
        except Exception:  # whatever it is, the answer must pass
            log.exception("reading a failed answer failed in Rollcall; it passes as it is, and no rule speaks of it")
        return Bad("http_status", "", about.status, self._body, about.coding, stream=about.stream, rules=rules)


class GoodStatus:
    """An answer that only its body, or a rule of the user's, can call a failure."""

    may_fail = True

    def __init__(self, about: About, inspector: Inspector | None) -> None:
        self._about, self._inspector = about, inspector
        self._decoder: Decoder | None = None
        self._body = bytearray()
        self._wants_body = about.asked.need_body
        self._over = self._broken = False
        try:
            self._decoder = Decoder(about.coding) if about.coding else _UNCODED
        except UnreadableError as error:
            self._stop(error)

    @property
    def unread(self) -> bool:
        """Whether what should have been read could not be."""
        if self._broken:
            return self._inspector is not None or self._wants_body
        return self._inspector is not None and not self._inspector.inspected

    def feed(self, piece: bytes) -> Bad | None:
        """Read a piece."""
        if self._over or self._decoder is None:
            return None
        try:
            return self._read(self._decoder, piece)
        except UnreadableError as error:
            self._stop(error)
        except Exception:  # whatever it is, the answer must pass
            self._fail()
        return None

    def end(self) -> Bad | None:
        """Read what the whole says."""
        if self._over and not self._broken:
            return None
        try:
            return self._found(None if self._broken else self._whole())
        except Exception:  # whatever it is, the answer must pass
            self._fail()
        return None

    def _read(self, decoder: Decoder, piece: bytes) -> Bad | None:
        for plain in (piece,) if decoder is _UNCODED else decoder.feed(piece):
            if self._wants_body and len(self._body) < KEPT:
                self._body += plain[: KEPT - len(self._body)]
            found = self._inspector.feed(plain) if self._inspector else None
            if found is not None:
                self._over = True
                return self._found(found)
            if self._has_enough():
                self._decoder = None
                break
        return None

    def _has_enough(self) -> bool:
        """Whether more of the body would say nothing more."""
        kept = not self._wants_body or len(self._body) >= KEPT
        return kept and (self._inspector is None or not self._inspector.inspected)

    def _whole(self) -> Finding | None:
        if self._inspector is None:
            return None
        cut = self._decoder not in (None, _UNCODED) and not self._decoder.whole
        found = self._inspector.end()
        if found is None and cut and self._inspector.inspected:
            return Finding("peer_drop", "the answer ends in the middle of its content coding")
        return found

    def _found(self, found: Finding | None) -> Bad | None:
        about = self._about
        if found is None and not about.asked.candidates:
            return None
        body = bytes(self._body)
        rules = about.asked.in_body(body)
        if found is not None:
            text = found.excerpt.encode("utf-8", "replace")
            bad = Bad(found.what, found.message, about.status, text)
            return replace(bad, marker=found.marker, stream=about.stream, rules=rules)
        rule = about.asked.failing(body)
        if rule is None:
            return None
        message = f"the rule {rule.name} says that such an answer is a failure"
        return Bad("body_failure", message, about.status, body, stream=about.stream, rules=rules, by_rule=True)

    def _stop(self, error: UnreadableError) -> None:
        self._over = self._broken = True
        log.debug("an answer cannot be read: %s", error)

    def _fail(self) -> None:
        self._over = self._broken = True
        log.exception("reading an answer failed in Rollcall; it passes as it is and counts as not inspected")
