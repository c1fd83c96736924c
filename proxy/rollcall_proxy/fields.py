"""Header fields on their way through: what is passed on, and what belongs to one hop only (RFC 9110 7.6.1)."""

from collections.abc import Iterable
from secrets import token_hex
from urllib.parse import quote

from multidict import CIMultiDict

from .owners import BAGGAGE_KEY, COOKIE, OWNER_FIELD, SESSION_FIELD

Fields = Iterable[tuple[bytes, bytes]]

_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect"}
)
_OWN = frozenset({OWNER_FIELD.lower(), SESSION_FIELD.lower()})
SHUTDOWN_FIELD = "Rollcall-Shutdown"
"""What the attach puts on each answer of a server that is being shut down."""


def request_fields(raw: Fields, owner: str | None) -> CIMultiDict[str]:
    """A request's fields as they go to the server, with the owner that Rollcall names; None for a foreign server."""
    fields, spelling = passed_on(raw), dict[str, str]()
    for name in _OWN:
        fields.popall(name, None)
    if any(COOKIE in value for value in fields.getall("Cookie", ())):
        _take_out_cookie(fields)
    if owner is not None:
        fields[OWNER_FIELD] = owner
    # Of one field in several spellings, aiohttp's client keeps the last alone.
    return CIMultiDict((spelling.setdefault(name.lower(), name), value) for name, value in fields.items())


def give_to_run(fields: CIMultiDict[str], owner: str) -> str | None:
    """Let an outermost `/run` carry its owner in W3C baggage, and a trace id where it has none.

    Returns the trace id that was given, or None where the dispatcher sent its own.
    """
    member = f"{BAGGAGE_KEY}={quote(owner, safe='~')}"
    fields["baggage"] = ", ".join([*fields.popall("baggage", ()), member])
    if "traceparent" in fields:
        return None
    trace = token_hex(16)
    fields["traceparent"] = f"00-{trace}-{token_hex(8)}-01"
    return trace


def _take_out_cookie(fields: CIMultiDict[str]) -> None:
    """Rollcall's own cookie never reaches a server; the others stay as they were written."""
    kept = []
    for value in fields.popall("Cookie"):
        pairs = [pair for pair in value.split(";") if pair.strip().partition("=")[0] != COOKIE]
        if pairs:
            kept.append(";".join(pairs).strip())
    for value in kept:
        fields.add("Cookie", value)


def answer_fields(raw: Fields) -> CIMultiDict[str]:
    """An answer's fields as they go to its caller: without what the attach has told Rollcall."""
    fields = passed_on(raw)
    fields.popall(SHUTDOWN_FIELD, None)
    return fields


def passed_on(raw: Fields) -> CIMultiDict[str]:
    """The end-to-end fields, repeated ones too, in their order and spelling."""
    pairs = [(name.decode("latin-1"), value.decode("utf-8", "surrogateescape")) for name, value in raw]
    named = {
        token.strip().lower() for name, value in pairs if name.lower() == "connection" for token in value.split(",")
    }
    dropped = _HOP_BY_HOP | named
    return CIMultiDict((name, value) for name, value in pairs if name.lower() not in dropped)
