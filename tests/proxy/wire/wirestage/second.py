"""A second opinion: what h11, a strict reader of its own, makes of the bytes of requests."""

from dataclasses import dataclass

import h11
from rollcall_proxy.wire import Fields
from rollcall_proxy.wire.body import chunk, framing_of_request, last_chunk, reader
from rollcall_proxy.wire.head import end_of_head, read_request
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
    while len(found) < most and isinstance(request := connection.next_event(), h11.Request):
        body, event = b"", connection.next_event()
        while isinstance(event, h11.Data):
            body += event.data
            event = connection.next_event()
        if not isinstance(event, h11.EndOfMessage):
            break
        found.append(Read(request.method, request.target, list(request.headers), body, list(event.headers)))
        connection.send(h11.Response(status_code=200, headers=[(b"Content-Length", b"0")]))
        connection.send(h11.EndOfMessage())
        if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
            break
        connection.start_next_cycle()
    return found


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
    fields = [(name.lower(), value) for name, value in head.fields]
    lower = [(name.lower(), value) for name, value in trailers]
    sent = chunk(content) + last_chunk(trailers) if framing == "chunked" else content
    return Read(head.method, head.target, fields, content, lower), request_to_server(head, Address("server", 1)) + sent
