"""A request of one's own to a server, for coroutines: its answer lives apart from any caller's connection."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from .body import Framing
from .head import AnswerHead, Fields, RequestHead
from .limits import HIGH_WATER, Address, Limits, Outcome
from .server import ServerConnection

if TYPE_CHECKING:
    from .engine import Engine


_UNSENT = Outcome("unreachable", "the idle connection was closed")


class FailedError(Exception):
    """A request that has not got its whole answer; `outcome` says why."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"{outcome.word}: {outcome.detail}")
        self.outcome = outcome


class Answer:
    """A server's answer, whose body is read by `pieces`. Close it, or leave its `async with`, unless it is read out."""

    __slots__ = ("_behind", "_call", "_failed", "_news", "_pieces", "_size", "_whole", "framing", "head", "trailers")
    head: AnswerHead
    framing: Framing

    def __init__(self) -> None:
        self._call: ServerConnection | None = None
        self._pieces: deque[bytes] = deque()
        self._size, self._whole = 0, False
        self._failed: Outcome | None = None
        self._news = asyncio.Event()
        self.trailers: Fields = []

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises FailedError where it does not come whole."""
        while True:
            while self._pieces:
                piece = self._pieces.popleft()
                self._size -= len(piece)
                if self._call is not None and self._size < HIGH_WATER:
                    self._call.resume()
                yield piece
            if self._failed is not None:
                raise FailedError(self._failed)
            if self._whole:
                return
            await self._something()

    async def read(self) -> bytes:
        """The whole body. Raises FailedError."""
        return b"".join([piece async for piece in self.pieces()])

    def close(self) -> None:
        """Want nothing more of it; a server that is still sending is cut off."""
        call, self._call = self._call, None
        if call is not None:
            call.give_up()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def begun(self) -> Self:
        """Wait for the head. Raises FailedError."""
        while not hasattr(self, "head"):
            if self._failed is not None:
                raise FailedError(self._failed)
            await self._something()
        return self

    def sent_by(self, call: ServerConnection) -> None:
        """The connection on which the answer will come."""
        self._call = call

    async def _something(self) -> None:
        self._news.clear()
        await self._news.wait()

    # From the server's connection.

    def informed(self, head: AnswerHead) -> None: ...

    def answer_head(self, head: AnswerHead, framing: Framing) -> None:
        self.head, self.framing = head, framing
        self._news.set()

    def answer_piece(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > HIGH_WATER and self._call is not None:
            self._call.pause()
        self._news.set()

    def answer_end(self, trailers: Fields) -> None:
        self.trailers, self._whole, self._call = trailers, True, None
        self._news.set()

    def answer_lost(self, outcome: Outcome) -> None:
        self._failed, self._call = outcome, None
        self._news.set()

    def switched(self, head: AnswerHead) -> None:
        call = self._call
        self.answer_lost(Outcome("no_http", "a change of protocol for which nobody asked"))
        if call is not None:
            call.give_up()

    def tunnel_begins(self) -> None: ...

    def unsent(self, out: list[bytes]) -> None:
        self.answer_lost(_UNSENT)

    def server_gone(self) -> None: ...
    def server_behind(self) -> None: ...
    def server_ready(self) -> None: ...


async def ask(engine: "Engine", address: Address, request: RequestHead, body: bytes, limits: Limits) -> Answer:
    """Send a request with its whole body, and wait for the answer's head. Raises FailedError."""
    if b"transfer-encoding" in request.noted:
        request = _with_length(request, len(body))
    call, answer = engine.idle(address) or await _connection(engine, address, limits), Answer()
    answer.sent_by(call)
    call.send(request, answer, limits)
    if body:
        call.write(body)
    call.request_sent()
    try:
        return await answer.begun()
    except FailedError as error:
        if error.outcome is not _UNSENT:
            raise
    except BaseException:
        answer.close()
        raise
    return await ask(engine, address, request, body, limits)


def _with_length(request: RequestHead, length: int) -> RequestHead:
    """A chunked request as one whose length is known; trailers are gone."""
    framed = (b"Content-Length", b"%d" % length)
    fields = [
        framed if pair[0].lower() == b"transfer-encoding" else pair
        for pair in request.fields
        if pair[0].lower() != b"trailer"
    ]
    return RequestHead(request.method, request.target, fields, request.minor, request.noted)


async def _connection(engine: "Engine", address: Address, limits: Limits) -> ServerConnection:
    connected: asyncio.Future[ServerConnection | Outcome] = engine.loop.create_future()

    def failed(outcome: Outcome) -> None:
        if not connected.done():
            connected.set_result(outcome)  # an exception in there would hold this coroutine, which holds the future

    def opened(connection: ServerConnection) -> None:
        engine.keep(connection) if connected.done() else connected.set_result(connection)

    task = engine.connect(address, limits, opened, failed)
    try:
        found = await connected
    except asyncio.CancelledError:
        task.cancel()
        raise
    if isinstance(found, Outcome):
        raise FailedError(found)
    return found
