"""A cable that can be cut: a TCP relay between a proxy and a collector."""

import asyncio
import socket


class Relay:
    """Passes on what comes to `port` to another port of this machine."""

    def __init__(self, bound: socket.socket, target: int) -> None:
        self._bound, self._target = bound, target
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()

    def leads_to(self, target: int) -> None:
        """From now on connections lead to another port; those that are there stay."""
        self._target = target

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._pass_on, sock=self._bound.dup())

    async def cut(self) -> None:
        """Every connection breaks, and none is made until `start`."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()

    def silence(self) -> None:
        """Nothing more comes through; what was sent arrives once `speak` is called."""
        self._flows.clear()

    def speak(self) -> None:
        self._flows.set()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, far_writer}
        self._writers |= both
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._copy(reader, far_writer), name="relay there")
                group.create_task(self._copy(far_reader, writer), name="relay back")
        finally:
            self._writers -= both
            for each in both:
                each.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """An end or a reset comes through as what it is, and like all else not while the cable is silent."""
        try:
            while piece := await reader.read(1 << 16):
                await self._flows.wait()
                writer.write(piece)
                await writer.drain()
            await self._flows.wait()
            writer.write_eof()
        except OSError:
            await self._flows.wait()
            writer.transport.abort()
