"""Heads of requests and answers: read strictly, kept as they were written.

What RFC 9112 lets a recipient repair is refused here: bare CR or LF, folded lines, space before a colon, control
characters. A proxy that repairs shows the server another request than the next reader of the same bytes would see.

Own code and not httptools (llhttp), which refuses methods it does not know, reads on into the next message before the
last one is answered, takes the length of an answer to HEAD for a body that comes, and lets HTTP/2.0 pass.
"""

import re
from dataclasses import dataclass, field

Field = tuple[bytes, bytes]
Fields = list[Field]

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
_VALUE = rb"[\t\x20-\x7e\x80-\xff]*+"  # what is allowed: to say what is not takes half as long again (measured)
_FIELDS = rb"((?:" + _TOKEN + rb":" + _VALUE + rb"\r\n)*+)"
_REQUEST = re.compile(rb"(" + _TOKEN + rb") ([\x21-\x7e\x80-\xff]++) HTTP/1\.([01])\r\n" + _FIELDS + rb"\r\n")
_ANSWER = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: (" + _VALUE + rb"))?\r\n" + _FIELDS + rb"\r\n")
_ONLY_FIELDS = re.compile(_FIELDS + rb"\r\n")
_FIELD = re.compile(rb"([^:]+):[ \t]*+((?:[^\r]*[^ \t\r])?)[ \t]*\r\n")
_WRITTEN = b": ".join
_REQUEST_LINE = re.compile(rb"[^\r\n]* HTTP/1\.[01]\r\n")
_BARE = re.compile(rb"(?<!\r)\n|\r[^\n]")

NOTED = frozenset(
    b"connection content-length expect host keep-alive proxy-connection te transfer-encoding upgrade".split()
)
"""The fields that concern this hop: how the message is framed, and what becomes of the connection."""


class FramingError(ValueError):
    """What a peer has sent is no HTTP/1.1 that has one reading; where it was a request, 400 answers it."""


@dataclass(slots=True, eq=False)
class RequestHead:
    """A request's head; `minor` is that of HTTP/1.x. `noted` has the values of the fields in NOTED, by lower name."""

    method: bytes
    target: bytes
    fields: Fields
    minor: int = 1
    noted: dict[bytes, list[bytes]] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class AnswerHead:
    """An answer's head, as a server has sent it or as it is to be sent."""

    status: int
    reason: bytes
    fields: Fields
    minor: int = 1
    noted: dict[bytes, list[bytes]] = field(default_factory=dict)


def read_request(block: bytes) -> RequestHead:
    """The head of a request, from its first byte to its empty line. Raises FramingError."""
    found = _REQUEST.fullmatch(block)
    if found is None:
        raise FramingError("the head is no HTTP/1.1 request")
    method, target, minor, lines = found.groups()
    fields, noted = _read_fields(lines)
    hosts = noted.get(b"host", ())
    if len(hosts) > 1 or (not hosts and minor == b"1"):
        raise FramingError("the request must have one Host field")  # RFC 9112 3.2
    return RequestHead(method, target, fields, 1 if minor == b"1" else 0, noted)


def read_answer(block: bytes) -> AnswerHead:
    """The head of an answer. Raises FramingError."""
    found = _ANSWER.fullmatch(block)
    if found is None:
        raise FramingError("the head is no HTTP/1.1 answer")
    minor, status, reason, lines = found.groups()
    fields, noted = _read_fields(lines)
    return AnswerHead(int(status), reason or b"", fields, 1 if minor == b"1" else 0, noted)


def read_trailers(block: bytes) -> Fields:
    """The fields behind a chunked body, with their empty line. Raises FramingError."""
    found = _ONLY_FIELDS.fullmatch(block)
    if found is None:
        raise FramingError("the trailers are no fields")
    fields, noted = _read_fields(found.group(1))
    if noted:  # RFC 9110 6.5.1: what frames or routes a message cannot come behind it
        raise FramingError(f"{next(iter(noted)).decode()} is no trailer")
    return fields


def end_of_head(kept: bytes, limit: int, searched: int = 0) -> int:
    """Where the head ends that `kept` begins with, 0 while it is not whole; `searched` bytes had no end in them.

    Raises FramingError.
    """
    begin = max(searched - 3, 0)
    end = kept.find(b"\r\n\r\n", begin) + 4
    if end == 3:
        refuse_bare(kept, begin)
        end = 0
    if (end or len(kept)) > limit:
        raise FramingError(f"the head is longer than {limit} bytes")
    return end


def refuse_bare(kept: bytes, begin: int) -> None:
    """Raise FramingError for a line that ends otherwise than with CRLF: the empty line would never be found."""
    if _BARE.search(kept, begin):
        raise FramingError("a line does not end with CRLF")


def may_become_request(kept: bytes) -> bool:
    """Whether an unfinished head can still become one: HTTP/0.9 or TLS would never send the empty line."""
    if b"\r\n" in kept:
        return _REQUEST_LINE.match(kept) is not None
    return 0x20 < kept[0] < 0x7F or kept == b"\r"


def tokens(head: RequestHead | AnswerHead, name: bytes) -> list[bytes]:
    """The members of a noted field's comma-separated values, in lower case."""
    return [token.strip(b" \t").lower() for value in head.noted.get(name, ()) for token in value.split(b",")]


def written(first: bytes, fields: Fields) -> bytes:
    """A head as it is sent."""
    return b"\r\n".join([first, *map(_WRITTEN, fields), b"\r\n"])


def _read_fields(lines: bytes) -> tuple[Fields, dict[bytes, list[bytes]]]:
    """What `_FIELDS` has matched, field by field."""
    fields: Fields = _FIELD.findall(lines)
    noted: dict[bytes, list[bytes]] = {}
    for name, value in fields:
        if (lower := name.lower()) in NOTED:
            noted.setdefault(lower, []).append(value)
    return fields, noted
