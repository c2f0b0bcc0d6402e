"""A connection to a server on loopback that a test can cut or hold."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self


class BrokenLine:
    """Forwards connections from its own `port`. Refuses them unless `up`, and holds all bytes back unless `flows`."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self.up, self.flows = True, asyncio.Event()
        self.flows.set()
        self._target = port
        self._ends: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cut all connections, and refuse others."""
        self._server.close()
        self.flows.set()
        self.cut()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def cut(self) -> None:
        """Cut all connections, and drop the bytes that are not delivered yet."""
        for end in self._ends:
            end.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.up:
            writer.transport.abort()
            return
        inner, outer = await asyncio.open_connection("127.0.0.1", self._target)
        self._ends |= {writer, outer}
        for source, end in ((reader, outer), (inner, writer)):
            task = asyncio.create_task(self._copy(source, end))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _copy(self, source: asyncio.StreamReader, end: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(1000):
                await self.flows.wait()
                end.write(data)
        end.transport.abort()
        self._ends.discard(end)
