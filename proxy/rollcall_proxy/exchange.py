"""One exchange on its way through the proxy, and the tag it leaves when it does not end well."""

import hashlib
import time
from dataclasses import dataclass, field

from aiohttp import web
from rollcall_collector.contract.calls import CallKey
from rollcall_collector.contract.excerpt import excerpt
from rollcall_collector.contract.exchange import Role, Tag, What

from .owners import Head, Owner
from .upstream import Upstream, UpstreamError


@dataclass(slots=True)
class Exchange:
    """A request that has been taken in, and what is known of it."""

    id: str
    upstream: Upstream
    role: Role
    method: str
    target: str
    owner: Owner | None
    head: Head
    dispatch: str | None = None
    depth: int = 0
    started_at: float = field(default_factory=time.time)
    digest: "hashlib.blake2b" = field(default_factory=lambda: hashlib.blake2b(digest_size=16))

    @property
    def path(self) -> str:
        """The path without the query, whose values are never stored."""
        return self.head.path

    def key(self) -> CallKey:
        """What a retry of this exchange has in common with it; the body must have passed."""
        return (self.upstream.name, self.method, self.target, self.digest.digest())

    def minted(self) -> str:
        """The owner that the server's own calls will name."""
        return Owner(self.dispatch, self.id, self.depth, self.role).field()

    def tag(self, call: str, bad: "Bad") -> Tag:
        """The record of how it ended."""
        return Tag(
            exchange=self.id,
            call=call,
            server=self.upstream.name,
            kind=self.upstream.kind,
            role=self.role,
            method=_storable(self.method[:40]),
            path=_storable(self.path[:1000]),
            what=bad.what,
            started_at=self.started_at,
            ended_at=time.time(),
            depth=self.depth,
            owner_by=self.owner.by if self.owner else "none" if self.dispatch is None else "run",
            dispatch=self.dispatch,
            status=bad.status,
            message=bad.message,
            excerpt=excerpt(bytes(bad.body)),
        )


@dataclass(slots=True)
class Bad:
    """How an exchange ended that did not end well; `body` is the beginning of a failed answer's."""

    what: What
    message: str = ""
    status: int | None = None
    body: bytes | bytearray = b""


def bad_from(error: UpstreamError, status: int | None = None) -> Bad:
    """What a server's failure is in the contract's words."""
    return Bad(error.what, error.message, status)


def _storable(text: str) -> str:
    """The text as Unicode that JSON can hold: bytes of a request line that are none are replaced."""
    return text.encode("utf-8", "replace").decode()


def head_from(request: web.BaseRequest) -> Head:
    """What the ways to name an owner look at."""
    fields = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in request.raw_headers}
    return Head(request.raw_path.partition("?")[0], fields)
