"""Header fields on their way through: what is passed on, and what belongs to one hop only (RFC 9110 7.6.1)."""

from collections.abc import Iterable

from multidict import CIMultiDict

from .owners import OWNER_FIELD, SESSION_FIELD

Fields = Iterable[tuple[bytes, bytes]]

_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect"}
)
_OWN = frozenset({OWNER_FIELD.lower(), SESSION_FIELD.lower()})


def request_fields(raw: Fields, owner: str) -> CIMultiDict[str]:
    """A request's fields as they go to the server, with the owner that Rollcall names."""
    fields, spelling = passed_on(raw), dict[str, str]()
    for name in _OWN:
        fields.popall(name, None)
    fields[OWNER_FIELD] = owner
    # Of one field in several spellings, aiohttp's client keeps the last alone.
    return CIMultiDict((spelling.setdefault(name.lower(), name), value) for name, value in fields.items())


def passed_on(raw: Fields) -> CIMultiDict[str]:
    """The end-to-end fields, repeated ones too, in their order and spelling."""
    pairs = [(name.decode("latin-1"), value.decode("utf-8", "surrogateescape")) for name, value in raw]
    named = {
        token.strip().lower() for name, value in pairs if name.lower() == "connection" for token in value.split(",")
    }
    dropped = _HOP_BY_HOP | named
    return CIMultiDict((name, value) for name, value in pairs if name.lower() not in dropped)
