"""A second opinion: what h11, a strict reader of its own, makes of the bytes of requests and answers."""

from collections.abc import Iterable
from dataclasses import dataclass

import h11
from rollcall_proxy.wire import Fields, FramingError
from rollcall_proxy.wire.body import chunk, framing_of_answer, framing_of_request, last_chunk, reader
from rollcall_proxy.wire.head import end_of_head, read_answer, read_request
from rollcall_proxy.wire.hop import request_to_server
from rollcall_proxy.wire.limits import Address

HOP = {b"connection", b"keep-alive", b"proxy-connection", b"te", b"upgrade", b"expect"}


@dataclass(frozen=True)
class Read:
    """A request as it was read; names in lower case."""

    method: bytes
    target: bytes
    fields: Fields
    body: bytes
    trailers: Fields


def by_h11(data: bytes, most: int = 1000) -> list[Read]:
    """The whole requests in this, `most` of them. Raises h11.RemoteProtocolError."""
    connection, found = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20), []
    connection.receive_data(data)
    while isinstance(request := connection.next_event(), h11.Request):
        body, event = b"", connection.next_event()
        while isinstance(event, h11.Data):
            body += event.data
            event = connection.next_event()
        if not isinstance(event, h11.EndOfMessage):
            break
        fields = list(request.headers)
        found.append(Read(request.method, request.target, fields, body, _passed_on(fields, event.headers)))
        if len(found) == most:
            break
        connection.send(h11.Response(status_code=200, headers=[(b"Content-Length", b"0")]))
        connection.send(h11.EndOfMessage())
        if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
            break
        connection.start_next_cycle()
    return found


@dataclass(frozen=True)
class Answered:
    """An answer as it was read, with the statuses of the interim ones before it; names in lower case.

    `whole` is false while more must come.
    """

    interim: list[int]
    status: int
    fields: Fields
    body: bytes
    trailers: Fields
    whole: bool


def answer_by_h11(data: bytes, method: bytes) -> Answered | None:
    """The answer to a request with this method, at whose end the connection ends; None where there is none.

    Raises h11.RemoteProtocolError.
    """
    connection, interim = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20), []
    connection.send(h11.Request(method=method, target="/", headers=[("Host", "a")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(data)
    while isinstance(event := connection.next_event(), h11.InformationalResponse):
        interim.append(event.status_code)
    if not isinstance(event, h11.Response):
        return None
    fields, body, status = list(event.headers), b"", event.status_code
    while isinstance(event := connection.next_event(), h11.Data):
        body += event.data
    if event is h11.NEED_DATA and not any(name in dict(fields) for name in (b"content-length", b"transfer-encoding")):
        connection.receive_data(b"")
        event = connection.next_event()
    trailers = _passed_on(fields, event.headers) if isinstance(event, h11.EndOfMessage) else []
    return Answered(interim, status, fields, body, trailers, event is not h11.NEED_DATA)


def _passed_on(fields: Fields, trailers: Iterable[tuple[bytes, bytes]]) -> Fields:
    """The trailers that Connection does not name."""
    named = b",".join([value for name, value in fields if name == b"connection"]).lower()
    return [pair for pair in trailers if pair[0] not in [each.strip(b" \t") for each in named.split(b",")]]


def answer_by_the_engine(data: bytes, method: bytes) -> Answered | None:
    """The same, as the engine's connection to a server reads it. Raises FramingError."""
    interim: list[int] = []
    while (end := end_of_head(data, 1 << 20)) and (head := read_answer(data[:end])).status < 200:
        if head.status == 101:
            raise FramingError("a change of protocol for which nobody asked")
        framing_of_answer(head, method)
        interim.append(head.status)
        data = data[end:]
    if not end:
        return None
    framing = framing_of_answer(head, method)
    body, lower = reader(framing, head), lowered(head.fields)
    if body is None:
        return Answered(interim, head.status, lower, b"", [], True)
    content = body.feed(data[end:]) if data[end:] else b""
    return Answered(
        interim, head.status, lower, content, lowered(body.trailers), body.done or body.ends_with_connection
    )


def lowered(fields: Fields) -> Fields:
    """Fields as h11 shows them: names in lower case, the coding's too."""
    return [
        (lower, value.lower() if lower == b"transfer-encoding" else value)
        for lower, value in ((name.lower(), value) for name, value in fields)
    ]


def by_the_engine(data: bytes) -> tuple[Read, bytes] | None:
    """The first request, and how it is sent on; None where it is not whole. Raises FramingError."""
    end = end_of_head(data, 1 << 20)
    if not end:
        return None
    head, data = read_request(data[:end]), data[end:]
    framing = framing_of_request(head)
    body, content, trailers = reader(framing, head), b"", []
    if body is not None:
        content = body.feed(data) if data else b""
        if not body.done:
            return None
        trailers = body.trailers
    fields, lower = lowered(head.fields), lowered(trailers)
    sent = chunk(content) + last_chunk(trailers) if framing == "chunked" else content
    return Read(head.method, head.target, fields, content, lower), request_to_server(head, Address("server", 1)) + sent
