"""One exchange on its way through the proxy, and the tag it leaves when it does not end well."""

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from uuid import uuid4

import xxhash
from rollcall_collector.contract.calls import CallKey
from rollcall_collector.contract.context_limit import refused_for_length
from rollcall_collector.contract.excerpt import clean, excerpt_of
from rollcall_collector.contract.exchange import Role, Tag, What
from rollcall_collector.contract.remembering import remembered

from . import wire
from .clock import now
from .encoding import beginning
from .owners import ASKED, COOKIE, DEEPEST, LISTS, Head, Owner, token_of, without_url_owner
from .roles import asked_by, without_prefix
from .upstream import Upstream, UpstreamError

log = logging.getLogger(__name__)

_SMALL = 4096
"""Bytes of a body that are kept, to be digested later."""
_OFTEN = 2048
"""Bytes of a failed answer that is read once for all that say the same: one server's mostly do."""
_MESSAGE, _MARKER, _METHOD, _PATH = 2000, 200, 40, 1000
"""Characters that are kept."""
_ABSOLUTE = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
"""What of a target in absolute-form is no part of its path and query (RFC 3986 3.2, 6.2.2.1)."""


@dataclass(slots=True)
class Exchange:
    """A request that has been taken in, and what is known of it; `request` is its head as it came."""

    id: str
    upstream: Upstream
    role: Role
    owner: Owner | None
    head: Head
    request: wire.RequestHead
    method: str
    dispatch: str | None = None
    depth: int = 0
    started_at: float = field(default_factory=now)
    sent: "Sent | None" = None
    tagged: bool = False
    counted: bool = False
    status: int | None = None
    _beginning: bytes = b""
    _digesting: "xxhash.xxh3_128 | None" = None

    @property
    def path(self) -> str:
        """The path without the query, whose values are never stored."""
        return self.head.path

    @property
    def target(self) -> str:
        """The target in origin-form."""
        return origin_form(in_text(self.request.target), self.method)

    @property
    def server_target(self) -> str:
        """The target as the server knows it: without an owner that a base URL put in front."""
        target = in_text(self.request.target)
        if target.startswith("/") and not target.startswith("/rollcall-"):
            return target
        path, mark, query = origin_form(target, self.method).partition("?")
        return without_url_owner(path) + mark + query

    @property
    def route(self) -> str:
        """The path as the server's own routes name it: without an owner and without Gym's prefixes."""
        return route_of(self.head.path)

    @property
    def sent_target(self) -> bytes:
        """The target as it is sent."""
        target = self.request.target
        if target.startswith(b"/") and not (self.upstream.prefix or target.startswith(b"/rollcall-")):
            return target
        servers = self.server_target
        return in_bytes(self.upstream.prefix + servers if servers.startswith("/") else servers)

    def passes(self, piece: bytes) -> None:
        """A piece of the request's body is on its way to the server."""
        if self.sent is not None:
            self.sent.add(piece)
        if self._digesting is not None:
            self._digesting.update(piece)
        elif not self._beginning and len(piece) <= _SMALL:
            self._beginning = piece  # digested when somebody asks, which nobody does where nothing has failed
        else:
            self._digesting = xxhash.xxh3_128(self._beginning + piece)

    def digest(self) -> bytes:
        """The digest of what has passed of the body."""
        if self._digesting is None:
            return xxhash.xxh3_128_digest(self._beginning)
        return self._digesting.digest()

    def key(self) -> CallKey:
        """What a retry of this exchange has in common with it; the body must have passed."""
        return (self.upstream.name, self.method, self.server_target, self.digest())

    def minted(self) -> str:
        """The owner that the server's own calls will name."""
        return token_of(self.dispatch, self.id, self.depth, self.role, self.upstream.name)

    def cookie(self) -> str | None:
        """The cookie that lets later calls of the same caller name this owner; None where they do so by themselves."""
        by_itself = self.owner is None or self.owner.by in ("header", "url")
        if by_itself or self.owner is None or self.dispatch is None or self.upstream.kind != "resources":
            return None
        return f"{COOKIE}={self.owner.token()}; Path=/"

    def tag(self, call: str, bad: "Bad", ended_at: float) -> Tag:
        """The record of how it ended."""
        try:
            read = _read_before if len(bad.body) <= _OFTEN else _read
            excerpt, too_long = read(bad.status, bytes(bad.body), bad.coding)
        except Exception:  # whatever it is, what has failed must be on record
            log.exception("reading a failed answer failed in Rollcall; its tag has no excerpt")
            excerpt, too_long = "", False
        owner = self.owner
        return Tag(  # in the order of its fields: naming them would take three times as long as all of it (measured)
            self.id,
            call,
            self.upstream.name,
            self.upstream.kind,
            self.role,
            stored_method(self.method),
            stored_route(self.path),
            bad.what,
            self.started_at,
            ended_at,
            self.depth,
            owner.by if owner else "none" if self.dispatch is None else "run",
            self.dispatch,
            bad.status,
            clean(bad.message[:_MESSAGE]) if bad.message else "",
            excerpt,
            owner.carrier if owner else "",
            owner.conflict if owner else "",
            clean(storable(bad.marker[:_MARKER])) if bad.marker else "",
            too_long,
            bad.stream,
            bad.shutdown,
            bad.rules,
            bad.by_rule,
        )


def taken_in(
    id: str, upstream: Upstream, request: wire.RequestHead, head: Head, owner: Owner | None, role: Role
) -> Exchange:
    """The exchange that a request begins at the listener of `upstream`; `role` as its route has it."""
    method = request.method.decode()
    if owner is None:
        return Exchange(id, upstream, role, owner, head, request, method)
    depth = owner.depth + 1 if owner.depth < DEEPEST else DEEPEST
    return Exchange(id, upstream, asked_by(owner.role, role), owner, head, request, method, owner.dispatch, depth)


@dataclass(slots=True)
class Sent:
    """A request's body as far as it has passed; nothing of it once it was longer than `limit` bytes."""

    limit: int
    body: bytearray = field(default_factory=bytearray)
    over: bool = False

    def add(self, piece: bytes) -> None:
        """Keep a piece."""
        self.over = self.over or len(self.body) + len(piece) > self.limit
        if self.over:
            self.body = bytearray()
        else:
            self.body += piece


@dataclass(slots=True)
class Bad:
    """How an exchange ended that did not end well; `body` is the beginning of a failed answer's, or what of a good
    status' body says so. The other fields are those of a Tag."""

    what: What
    message: str = ""
    status: int | None = None
    body: bytes | bytearray = b""
    coding: str = ""
    marker: str = ""
    stream: bool = False
    shutdown: bool = False
    rules: tuple[str, ...] = ()
    by_rule: bool = False


def _read(status: int | None, body: bytes, coding: str) -> tuple[str, bool]:
    """The excerpt of a failed answer, and whether that refuses the request for its length."""
    text = beginning(body, coding).decode("utf-8", "replace")
    return excerpt_of(text), status is not None and refused_for_length(status, text)


_read_before = lru_cache(maxsize=512)(_read)


@remembered(4096)
def route_of(path: str) -> str:
    """The path as the server's own routes name it."""
    return without_prefix(without_url_owner(path))


def bad_from(error: UpstreamError, status: int | None = None) -> Bad:
    """What a server's failure is in the contract's words."""
    return Bad(error.what, error.message, status)


def storable(text: str) -> str:
    """The text as Unicode that JSON can hold: bytes of a request line that are none are replaced."""
    return text.encode("utf-8", "replace").decode()


@remembered(512)
def stored_route(path: str) -> str:
    """`Exchange.route` as it is kept: some servers take a key as a part of it."""
    return clean(storable(route_of(path)[:_PATH]))[:_PATH]


@remembered(64)
def stored_method(method: str) -> str:
    """A request's method as it is kept."""
    return storable(method[:_METHOD])


def exchange_ids() -> Iterator[str]:
    """The ids of a process's exchanges, each of which is unique among all processes."""
    return numbered(uuid4().hex[:12])


def numbered(name: str) -> Iterator[str]:
    """Ids that begin with a name."""
    return (f"{name}.{number}" for number in count(1))


def origin_form(target: str, method: str = "GET") -> str:
    """The target in origin-form; servers must take the absolute-form too (RFC 9112 3.2.2).

    An empty path is `/` (3.2.1); without a query `OPTIONS` asks about the server as a whole then, `*` (3.2.4). The
    asterisk-form, and the authority-form of CONNECT (3.2.3), are what they are.
    """
    if target.startswith("/") or (found := _ABSOLUTE.match(target)) is None:
        return target
    rest = target[found.end() :]
    if rest.startswith("/"):
        return rest
    return "*" if method == "OPTIONS" and not rest else f"/{rest}"


def head_from(request: wire.RequestHead) -> Head:
    """What the ways to name an owner look at; of a field that is no list the last one counts."""
    fields: dict[str, str] = {}
    for name, value in request.fields:
        if (asked := ASKED.get(name.lower())) is not None:
            text = value.decode("latin-1")
            fields[asked] = fields[asked] + LISTS[asked] + text if asked in fields and asked in LISTS else text
    target = in_text(request.target)
    if not target.startswith("/"):
        target = origin_form(target, request.method.decode())
    return Head(target.partition("?")[0], fields)


def in_text(target: bytes) -> str:
    """A target as text, from which it comes back byte for byte."""
    return target.decode("utf-8", "surrogateescape")


def in_bytes(target: str) -> bytes:
    """The bytes of what was a target."""
    return target.encode("utf-8", "surrogateescape")
