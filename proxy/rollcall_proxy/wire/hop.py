"""What belongs to one hop and is not passed on (RFC 9110 7.6.1), and what the next hop needs instead."""

from .body import Framing
from .head import AnswerHead, Fields, RequestHead, tokens, written
from .limits import Address

_HOP = frozenset(b"connection keep-alive proxy-connection te upgrade".split())
_OF_REQUESTS = _HOP | {b"expect"}
_FRAMES = frozenset(b"content-length host transfer-encoding".split())
"""Connection may name them; they say where the message ends and to whom it goes, here as well."""
_NOTHING = frozenset[bytes]()


def request_to_server(head: RequestHead, address: Address, added: frozenset[bytes] = _NOTHING) -> bytes:
    """A request's head for the server, without the fields of the caller's hop.

    `added`: lower names of fields that are meant for every recipient, which Connection must not name (RFC 9110 7.6.1).
    """
    fields = head.fields
    if head.minor == 0 and b"host" not in head.noted:  # HTTP/1.0 needs none, HTTP/1.1 does (RFC 9112 3.2)
        host = f"[{address.host}]" if ":" in address.host else address.host  # RFC 3986 3.2.2
        fields = [(b"Host", b"%b:%d" % (host.encode(), address.port)), *fields]
    if _OF_REQUESTS.isdisjoint(head.noted):
        return _request(head, fields)
    wanted = upgrade_of(head)
    dropped = _dropped(head, keeps_upgrade=wanted) - added
    if b"100-continue" in tokens(head, b"expect"):
        fields = [*_without(fields, frozenset([b"expect"])), *_other_expectations(head)]
    if b"trailers" in tokens(head, b"te"):
        fields = [
            *_without(fields, dropped),
            (b"TE", b"trailers"),
            (b"Connection", b"TE, Upgrade" if wanted else b"TE"),
        ]
    elif wanted:
        fields = [*_without(fields, dropped), (b"Connection", b"Upgrade")]
    else:
        fields = _without(fields, dropped)
    return _request(head, fields)


def answer_to_caller(head: AnswerHead, framing: Framing, minor: int, closes: bool) -> bytes:
    """An answer's head for a caller that speaks HTTP/1.`minor`; `closes` says that the connection ends with it."""
    upgrades = head.status in (101, 426) and b"upgrade" in head.noted
    dropped = _dropped(head, keeps_upgrade=upgrades)
    if minor == 0:
        dropped |= {b"transfer-encoding", b"trailer"}
    fields = _without(head.fields, dropped)
    if upgrades:  # RFC 9110 15.5.22: its Upgrade field says what to upgrade to
        fields = [*fields, (b"Connection", b"Upgrade, close" if closes else b"Upgrade")]
    elif closes and minor == 1:
        fields = [*fields, (b"Connection", b"close")]
    return written(b"HTTP/1.1 %d %b" % (head.status, head.reason), fields)


def upgrade_of(head: RequestHead) -> bool:
    """Whether the caller asks for another protocol (RFC 9110 7.8); in HTTP/1.0 it cannot."""
    return b"upgrade" in head.noted and head.minor == 1 and b"upgrade" in tokens(head, b"connection")


def expects_continue(head: RequestHead) -> bool:
    """Whether the caller waits for 100 before it sends its body (RFC 9110 10.1.1)."""
    return b"expect" in head.noted and head.minor == 1 and b"100-continue" in tokens(head, b"expect")


def stays_open(head: RequestHead | AnswerHead) -> bool:
    """Whether the peer keeps its connection; HTTP/1.0's keep-alive is not used."""
    return head.minor == 1 and not (b"connection" in head.noted and b"close" in tokens(head, b"connection"))


def _request(head: RequestHead, fields: Fields) -> bytes:
    return written(b"%b %b HTTP/1.1" % (head.method, head.target), fields)


def _other_expectations(head: RequestHead) -> Fields:
    """What is expected beside 100, which the hop itself gives; in HTTP/1.0 it means nothing (RFC 9110 10.1.1)."""
    members = [member for value in head.noted[b"expect"] for member in value.split(b",")]
    others = b",".join([each for each in members if each.strip(b" \t").lower() != b"100-continue"])
    return [(b"Expect", others.strip(b" \t"))] if others else []


def _dropped(head: RequestHead | AnswerHead, keeps_upgrade: bool) -> frozenset[bytes]:
    if _HOP.isdisjoint(head.noted):
        return _NOTHING
    dropped = _HOP.union(tokens(head, b"connection")) - _FRAMES
    return dropped - {b"upgrade"} if keeps_upgrade else dropped


def _without(fields: Fields, names: frozenset[bytes]) -> Fields:
    return [pair for pair in fields if pair[0].lower() not in names] if names else fields
