"""An upstream that holds requests, swallows bodies and sends long ones: `python -m bench.load.upstream PORT`.

By the request's field Bench-Task: `hold` keeps the request until somebody asks for `/release`; `sink` takes the whole
body and answers with a word; `big` answers with 64 MiB. `/held` says how many are held.
"""

import asyncio
import sys
from typing import cast

import uvloop

BIG = 64 * 1024 * 1024
_WORD = b'{"status":"completed","output":[]}'
_TEXT = b'{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"%b"}]}]}'
_BODY = _TEXT % (b"x" * (BIG - len(_TEXT) + 2))
HELD: "list[Served]" = []


def answer(body: bytes) -> bytes:
    """The bytes of a good answer."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body


class Served(asyncio.Protocol):
    """A connection whose requests are answered one after the other."""

    def __init__(self) -> None:
        self._head, self._fields = bytearray(), b""
        self._length: int | None = None
        self._got, self._tail = 0, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if not self._fields:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            self._fields, data = bytes(self._head[:end]).lower(), bytes(self._head[end + 4 :])
            self._head.clear()
            self._got, self._tail, self._length = 0, b"", _length(self._fields)
        self._got += len(data)
        self._tail = (self._tail + data[-7:])[-7:]
        if self._got >= self._length if self._length is not None else self._tail.endswith(b"0\r\n\r\n"):
            fields, self._fields = self._fields, b""
            self._answer(fields)

    def _answer(self, fields: bytes) -> None:
        target = fields.split(b" ", 2)[1]
        if target == b"/held":
            self.transport.write(answer(b"%d" % len(HELD)))
        elif target == b"/release":
            for held in HELD:
                held.transport.write(answer(_WORD))
            HELD.clear()
            self.transport.write(answer(_WORD))
        elif b"\r\nbench-task: hold" in fields:
            HELD.append(self)
        else:
            self.transport.write(answer(_BODY if b"\r\nbench-task: big" in fields else _WORD))


def _length(fields: bytes) -> int | None:
    """The body's length by its field; None where it comes in chunks."""
    if b"\r\ntransfer-encoding: chunked" in fields:
        return None
    _, found, rest = fields.partition(b"\r\ncontent-length:")
    return int(rest.split(b"\r\n", 1)[0]) if found else 0


async def main(port: int) -> None:
    """Serve until ended."""
    server = await asyncio.get_running_loop().create_server(Served, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(int(sys.argv[1])))
