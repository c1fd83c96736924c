"""Header fields on their way through: what Rollcall takes out and puts in. The fields of one hop are the engine's."""

from secrets import token_hex
from urllib.parse import quote

from .owners import BAGGAGE_KEY, COOKIE, OWNER_FIELD, SESSION_FIELD
from .wire import Field, Fields

_OWNER, _COOKIE = OWNER_FIELD.encode(), COOKIE.encode()
_OWN = frozenset({OWNER_FIELD.lower().encode(), SESSION_FIELD.lower().encode()})
ADDED = frozenset({OWNER_FIELD.lower().encode(), b"baggage", b"traceparent"})
"""What Rollcall adds to requests for every recipient, or adds to, by lower name."""
_FRAMES = frozenset({b"content-length", b"transfer-encoding"})
SHUTDOWN_FIELD = "Rollcall-Shutdown"
"""What the attach puts on each answer of a server that is being shut down."""


def request_fields(fields: Fields, owner: str | None) -> Fields:
    """A request's fields as they go to the server, with the owner that Rollcall names; None for a foreign server."""
    passed: Fields = []
    for pair in fields:
        if (name := pair[0].lower()) == b"cookie" and _COOKIE in pair[1]:
            passed += _without_own(pair)
        elif name not in _OWN:
            passed.append(pair)
    if owner is not None:
        passed.append((_OWNER, owner.encode()))
    return passed


def give_to_run(fields: Fields, owner: str, trace: str) -> None:
    """Let an outermost `/run` carry its owner in W3C baggage, and a trace id where it has no `traceparent`.

    Of several `baggage` fields OpenTelemetry for Python reads the first, so the owner is put behind what that has.
    """
    member = f"{BAGGAGE_KEY}={quote(owner, safe='~')}".encode()
    for place, (name, value) in enumerate(fields):
        if name.lower() == b"baggage":
            fields[place] = (name, value + b", " + member if value else member)
            break
    else:
        fields.append((b"baggage", member))
    if not values_of(fields, b"traceparent"):
        fields.append((b"traceparent", f"00-{trace}-{token_hex(8)}-01".encode()))


def values_of(fields: Fields, name: bytes) -> list[bytes]:
    """The values of a field, by its lower-case name."""
    return [value for each, value in fields if each.lower() == name]


def without(fields: Fields, *names: bytes) -> Fields:
    """The fields but for some, by their lower-case names."""
    return [pair for pair in fields if pair[0].lower() not in names]


def with_length(fields: Fields, length: int) -> Fields:
    """The fields for a body of this length, in whose place stood how it was framed."""
    framed: Fields = []
    for name, value in without(fields, b"trailer"):
        if name.lower() not in _FRAMES:
            framed.append((name, value))
        elif not values_of(framed, b"content-length"):
            framed.append((b"Content-Length" if name.lower() != b"content-length" else name, b"%d" % length))
    if length and not values_of(framed, b"content-length"):
        framed.append((b"Content-Length", b"%d" % length))
    return framed


def _without_own(cookies: Field) -> Fields:
    """Rollcall's own cookie never reaches a server; the others stay as they were written."""
    name, value = cookies
    pairs = [pair for pair in value.split(b";") if pair.strip().partition(b"=")[0] != _COOKIE]
    return [(name, b";".join(pairs).strip())] if pairs else []
