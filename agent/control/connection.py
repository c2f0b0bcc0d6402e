"""The agent's end of one connection of a client, as the handlers of requests use it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from holdfast.agent.control.answers import encoded
from holdfast.agent.control.schema import encode
from holdfast.resources.secrets import Redactor


class Peer(NamedTuple):
    """The process at the other end, as the kernel knows it."""

    pid: int
    uid: int


class ClientConnection:
    """A connection whose request was read."""

    def __init__(
        self,
        peer: Peer,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        redactor: Callable[[], Redactor],
    ) -> None:
        self.peer, self.reader = peer, reader
        self._writer, self._redactor = writer, redactor

    def send(self, message: Any, more: bytes = b"") -> None:
        """Send a message that contains no secrets, followed by `more`."""
        self._writer.write(encode(message) + more)

    def line(self, message: Any) -> bytes:
        """Return the line of a message with secrets redacted."""
        return encoded(message, self._redactor())

    async def write(self, line: bytes) -> None:
        """Send a line, and wait until the client has taken most of what was sent."""
        self._writer.write(line)
        await self._writer.drain()

    @asynccontextmanager
    async def gone(self) -> AsyncIterator[asyncio.Task[bytes]]:
        """Yield a task that ends when the client disconnects or sends anything more."""
        task = asyncio.create_task(self.reader.read(1), name="control client")
        try:
            yield task
        finally:
            task.cancel()
