"""Whose call is this? The ways to name an owner, in order; the first that answers counts.

Nothing is guessed: a call that none of the ways can name has no owner. Each way is a function from the request's
head to an Owner or None; to add one, write it and put it into WAYS, with the part of the head that it reads. A way that
an earlier one has overruled and that names another dispatch is recorded as a conflict.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from secrets import token_hex
from urllib.parse import quote, unquote

from rollcall_collector.contract.identity import Identity
from rollcall_collector.contract.remembering import remembered

from .carriers import Carriers
from .roles import ROLLOUT_PREFIX

OWNER_FIELD = "Rollcall-Owner"
SESSION_FIELD = "Rollcall-Session"
URL_PREFIX = "/rollcall-owner/"
POLICY_PREFIX = "/rollcall-policy/"
COOKIE = "rollcall-owner"
BAGGAGE_KEY = "rollcall-owner"

_OWNER_FIELD = OWNER_FIELD.lower()
ASKED = {
    name.encode(): name
    for name in (_OWNER_FIELD, SESSION_FIELD.lower(), "baggage", "content-encoding", "cookie", "origin", "traceparent")
}
"""The fields of a request that are read as text, by their names as bytes."""
LISTS = {"baggage": ",", "content-encoding": ",", "cookie": ";"}
"""Those of them that may come in several lines, with what joins these (RFC 9110 5.3, RFC 6265 5.4)."""
DEEPEST = 999
"""The depth of an exchange, above which nothing is counted: of an owner's three digits."""
_LONGEST_SERVER = 300
"""Characters of a server's name in an owner; a longer one is not said."""
_TOKEN = re.compile(
    r"v1~(?P<dispatch>-|[A-Za-z0-9][A-Za-z0-9._-]{0,99})~(?P<exchange>[A-Za-z0-9._-]{1,120})"
    r"~(?P<depth>[0-9]{1,3})~(?P<role>[a-z_]{1,20})~(?P<server>[A-Za-z0-9._%-]{0,300})"
)
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-(?P<trace>[0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")


@dataclass(frozen=True, slots=True)
class Owner:
    """The exchange on whose behalf a call is made, and the dispatch that it belongs to.

    `dispatch` is None for what belongs to no rollout, such as the way of an `/aggregate_metrics` down. `server` is
    the one that makes the call, `` where that is not known. `by` is the way that found it, `carrier` what named it
    where that may be shared, `conflict` what later ways said otherwise.
    """

    dispatch: str | None
    exchange: str
    depth: int
    role: str
    server: str = ""
    by: str = "header"
    carrier: str = ""
    conflict: str = ""

    def token(self) -> str:
        """The owner as one word that a header field, a URL, a cookie and W3C baggage can carry."""
        return token_of(self.dispatch, self.exchange, self.depth, self.role, self.server)


@dataclass(slots=True)
class Head:
    """What the ways look at: the path without its query, the header fields in ASKED by lower-case name, and the rollout
    that the body names where it had to be read for that."""

    path: str
    fields: Mapping[str, str]
    identity: Identity | None = None

    def parts(self) -> set[str]:
        """The parts of it that there are and that may name an owner: fields by their names, PATH and BODY."""
        parts = set(self.fields)
        if self.path.startswith("/rollcall-") or "/ng-rollout/" in self.path:
            parts.add(PATH)
        if self.identity is not None:
            parts.add(BODY)
        return parts


PATH, BODY = ":path", ":body"
Way = Callable[[Head, Carriers], Owner | None]
Ways = Mapping[Way, str]


def by_header(head: Head, _: Carriers) -> Owner | None:
    """Rollcall's own field, minted by a proxy and echoed by the attach."""
    token = head.fields.get(_OWNER_FIELD)
    return None if token is None else _parsed(token)


def by_url(head: Head, _: Carriers) -> Owner | None:
    """A base URL that names the owner, which the attach gives to a child process."""
    if not head.path.startswith(URL_PREFIX):
        return None
    return parse_token(head.path.removeprefix(URL_PREFIX).partition("/")[0], "url")


def by_path(head: Head, carriers: Carriers) -> Owner | None:
    """Gym's path prefix `/ng-rollout/<id>/` (nemo_gym 0.5), where one dispatch runs under that id."""
    if "/ng-rollout/" not in head.path:
        return None
    found = ROLLOUT_PREFIX.match(without_url_owner(head.path))
    return _carried(f"id:{found['rollout']}", "path", carriers) if found else None


def by_body(head: Head, carriers: Carriers) -> Owner | None:
    """The row's or episode's identity in the body of `/run`, `/seed_session` and `/verify`, while it is open."""
    if head.identity is None:
        return None
    owner = _carried(body_carrier(head.identity), "body", carriers)
    return owner if owner and owner.dispatch and carriers.is_open(owner.dispatch) else None


def by_trace(head: Head, carriers: Carriers) -> Owner | None:
    """W3C `traceparent` whose trace id was seen on, or given to, one `/run` alone."""
    trace = trace_of(head)
    return _carried(f"trace:{trace}", "trace", carriers) if trace else None


def by_baggage(head: Head, _: Carriers) -> Owner | None:
    """W3C `baggage` that was given to a `/run`."""
    if BAGGAGE_KEY not in (baggage := head.fields.get("baggage", "")):
        return None
    for member in baggage.split(","):
        key, _sep, value = member.partition(";")[0].partition("=")
        if key.strip() == BAGGAGE_KEY:
            return parse_token(unquote(value.strip()), "baggage")
    return None


def by_cookie(head: Head, _: Carriers) -> Owner | None:
    """Rollcall's own cookie, which rides along an agent's calls of resources servers."""
    if COOKIE not in (cookies := head.fields.get("cookie", "")):
        return None
    for pair in cookies.split(";"):
        name, _sep, value = pair.strip().partition("=")
        if name == COOKIE:
            return parse_token(value.strip('"'), "cookie")
    return None


def by_policy_base_url(head: Head, _: Carriers) -> Owner | None:
    """The `policy_base_url` of a `/run` body, into which the proxy has put the owner (nemo_gym 0.6)."""
    if not head.path.startswith(POLICY_PREFIX):
        return None
    return parse_token(head.path.removeprefix(POLICY_PREFIX).partition("/")[0], "policy_base_url")


WAYS: Ways = {
    by_header: _OWNER_FIELD,
    by_url: PATH,
    by_path: PATH,
    by_body: BODY,
    by_trace: "traceparent",
    by_baggage: "baggage",
    by_cookie: "cookie",
    by_policy_base_url: PATH,
}
"""In their order; each with the part that it reads: where that is not there, which is mostly, it is not asked."""
_NO_CARRIERS = Carriers()
_BY_TOKEN: Ways = {way: WAYS[way] for way in (by_baggage, by_cookie, by_policy_base_url)}
NAMING_A_NESTED_RUN: Ways = {way: WAYS[way] for way in (by_header, by_url, by_path, by_body)}
"""A `/run` is nested only when something that belongs to one rollout alone says so: dispatchers send trace ids too."""


def find_owner(head: Head, carriers: Carriers, ways: Ways = WAYS) -> Owner | None:
    """The owner that the first of the ways names, with what later ways say otherwise; or None."""
    parts, first = head.parts(), None
    asked = [way for way, part in ways.items() if part in parts]
    if len(asked) == 1:
        return asked[0](head, carriers)
    against: list[str] = []
    for way in asked:
        if (owner := way(head, carriers)) is None:
            continue
        if first is None:
            first = owner
        elif owner.dispatch != first.dispatch:
            against.append(f"{owner.by} names {owner.dispatch}")
    if first is None:
        return None
    return replace(first, conflict="; ".join(against)) if against else first


def by_token_alone(head: Head) -> Owner | None:
    """The owner where a token names it and no carrier could name another one first; None also where one could."""
    if (owner := by_header(head, _NO_CARRIERS) or by_url(head, _NO_CARRIERS)) is not None:
        return owner
    if "/ng-rollout/" in head.path or "traceparent" in head.fields:
        return None
    return find_owner(head, _NO_CARRIERS, _BY_TOKEN)


def parse_token(text: str, by: str) -> Owner | None:
    """The owner that a token names, or None where it is none; `by` is the way that found the token."""
    owner = _parsed(text)
    return None if owner is None else replace(owner, by=by)


@remembered(4096)
def _parsed(text: str) -> Owner | None:
    found = _TOKEN.fullmatch(text)
    if found is None:
        return None
    dispatch = None if found["dispatch"] == "-" else found["dispatch"]
    return Owner(dispatch, found["exchange"], int(found["depth"]), found["role"], unquote(found["server"]))


def token_of(dispatch: str | None, exchange: str, depth: int, role: str, server: str) -> str:
    """The token of an owner."""
    return f"v1~{dispatch or '-'}~{exchange}~{depth}~{role}~{_quoted(server)}"


@remembered(1024)
def _quoted(server: str) -> str:
    quoted = quote(server, safe="")
    return quoted if len(quoted) <= _LONGEST_SERVER else ""


def body_carrier(identity: Identity) -> str:
    """The carrier that a body's identity is: the one of the path prefix, or with its stage one of its own."""
    stage = "" if identity.stage_index is None else f"-s{identity.stage_index}"
    kind = "stage" if stage else "id"
    return f"{kind}:{with_attempt(explicit_id(identity.keys) or identity.rollout, identity.attempt)}"


def explicit_id(keys: Mapping[str, object]) -> str | None:
    """The rollout id that a row's sender chose itself (`_ng_rollout_id`, nemo_gym 0.6)."""
    value = keys.get("_ng_rollout_id")
    return value if isinstance(value, str) and _ID.fullmatch(value) else None


def with_attempt(rollout: str, attempt: int) -> str:
    """Gym's id of a rollout's attempt: `3-0`, on a retry `3-0-a1` (nemo_gym 0.5 to 0.7)."""
    return f"{rollout}-a{attempt}" if attempt else rollout


def trace_of(head: Head) -> str | None:
    """The trace id of a W3C traceparent, or None."""
    if (parent := head.fields.get("traceparent")) is None:
        return None
    found = _TRACEPARENT.fullmatch(parent.strip())
    return found["trace"] if found and found["trace"] != "0" * 32 else None


def trace_for(head: Head) -> str:
    """The trace id that a `/run` comes with, a new one where it has none, and nothing where it cannot be read."""
    return (trace_of(head) or "") if "traceparent" in head.fields else token_hex(16)


def without_url_owner(path: str) -> str:
    """The path without the owner that a base URL put in front of it."""
    for prefix in (URL_PREFIX, POLICY_PREFIX) if path.startswith("/rollcall-") else ():
        if path.startswith(prefix):
            return "/" + path.removeprefix(prefix).partition("/")[2]
    return path


def session_of(head: Head) -> str | None:
    """The session that an attached dispatcher names, or None."""
    value = head.fields.get(SESSION_FIELD.lower(), "")
    return value if _ID.fullmatch(value) else None


def _carried(carrier: str, by: str, carriers: Carriers) -> Owner | None:
    """What a carrier names: the dispatch as a whole, since the exchange that made the call is not known."""
    dispatch = carriers.find(carrier)
    return Owner(dispatch, by, 1, "other", "", by, carrier) if dispatch else None
