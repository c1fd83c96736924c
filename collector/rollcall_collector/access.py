"""Who may ask a service for what: a pure answer from a request's head.

Three walls, each for somebody else. The Host field must name this service, since a page of another site whose name its
owner points at this address (DNS rebinding) is one origin with it to a browser. What changes anything must not come
from a page of another site (Fetch Metadata, `Origin`), since a browser sends it with the operator's credentials. And
where there are tokens, one must be shown: to read, or to write.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .tokens import Right, Tokens, shown_in

Reason = Literal["host", "cross_site", "token", "right", "user", "network", "server"]

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""RFC 9110 9.2.1."""
_OPEN = frozenset({"/healthz", "/readyz"})
"""Probes carry no token."""
_CHANGES_ALL_THE_SAME = frozenset({"/global_config_dict_yaml"})
"""Gym's head server is asked by GET: it opens listeners here, and what it answers holds Gym's API keys."""
_TOLD_BY = "told_by"
"""A GET with it says that a proxy has told all."""

_CHALLENGES = ('Basic realm="Rollcall", charset="UTF-8"', 'Bearer realm="Rollcall"')
"""Each in a field of its own: Chromium asks for no password where a field begins with another one (131)."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that refuses, in the form of RFC 9457, and the reason by which it is counted."""

    reason: Reason
    status: int
    title: str
    detail: str
    fields: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a request's head decides. `fields` by name in any case; `proxied`: meant for an HTTP proxy."""

    method: str
    path: str
    query: Mapping[str, str]
    fields: Mapping[str, str]
    proxied: bool = False

    @property
    def needs(self) -> Right:
        """The right that it takes."""
        if self.proxied:
            return Right.WRITE
        if self.path in _OPEN and self.method in _SAFE:
            return Right.NONE
        changes = self.method not in _SAFE or self.path in _CHANGES_ALL_THE_SAME or _TOLD_BY in self.query
        return Right.WRITE if changes else Right.READ


class Access:
    """The rule of one service. `names` are those under which it may be asked; `service` is its settings' prefix."""

    def __init__(self, tokens: Tokens, names: Iterable[str], service: str) -> None:
        self._tokens, self._service = tokens, service
        self._names = frozenset(name.lower().rstrip(".") for name in names)

    def refusal(self, asked: Asked) -> Refusal | None:
        """Why the request is refused; None: it is not."""
        if asked.proxied:  # no browser sends that to a page's own origin
            return self._by_token(asked)
        return self._by_host(asked) or _by_site(asked) or self._by_token(asked)

    def _by_host(self, asked: Asked) -> Refusal | None:
        host = asked.fields.get("Host", "")
        name = _name_of(host)
        if not name or _is_safe(name) or name in self._names:
            return None
        cure = f"if it is one of this service's names, add it to host_names ({self._service}HOST_NAMES)"
        return Refusal("host", 403, "this is not the service that was asked", f"Host {host[:200]!r}: {cure}")

    def _by_token(self, asked: Asked) -> Refusal | None:
        needs, field_name = asked.needs, "Proxy-Authorization" if asked.proxied else "Authorization"
        shown = shown_in(asked.fields[field_name]) if field_name in asked.fields else None
        has = self._tokens.right_of(shown)
        if has >= needs and (shown is None or has > Right.NONE):
            return None
        if has is Right.READ:
            detail = f"the token shown is read_token; show the one of {self._service}TOKEN"
            return Refusal("right", 403, "this token may only read", detail)
        return _unknown(asked, shown, self._service, field_name)


def _unknown(asked: Asked, shown: str | None, service: str, field_name: str) -> Refusal:
    status, challenge = (407, "Proxy-Authenticate") if asked.proxied else (401, "WWW-Authenticate")
    if shown is not None:
        title, detail = "a wrong token", f"the one of {service}TOKEN or {service}READ_TOKEN is asked for"
    else:
        title = "a token is needed"
        detail = f"send '{field_name}: Bearer TOKEN', or TOKEN as Basic's password; Rollcall's commands: ROLLCALL_TOKEN"
    if {"token", "access_token"} & asked.query.keys():
        detail += "; none is taken from a URL, since those are written to logs"
    return Refusal("token", status, title, detail, [(challenge, each) for each in _CHALLENGES])


def _by_site(asked: Asked) -> Refusal | None:
    """What changes something and comes from a page of another origin: another port of this machine is one, too."""
    if asked.needs is not Right.WRITE:
        return None
    site, origin = asked.fields.get("Sec-Fetch-Site"), asked.fields.get("Origin")
    if site is not None:
        foreign = site not in ("same-origin", "none")
    else:
        foreign = origin is not None and origin.partition("://")[2].lower() != asked.fields.get("Host", "").lower()
    if not foreign:
        return None
    detail = f"from {(origin or 'a page of another site')[:200]}; only pages of this service may change anything"
    return Refusal("cross_site", 403, "a request from another site", detail)


def _name_of(host: str) -> str:
    """The name in a Host field, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0].lower().rstrip(".") if ":" in host else host.lower().rstrip(".")


def _is_safe(name: str) -> bool:
    """A name that nobody else can point here: an address itself, or localhost (RFC 6761 6.3)."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
