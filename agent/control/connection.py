"""The agent's end of one connection of a client, as the handlers of requests use it."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any, NamedTuple

from holdfast.agent.control.answers import Encoder, Turn
from holdfast.agent.control.schema import encode

_CREDENTIALS = struct.Struct("3i")
"""Process, user and group of a peer."""


class Peer(NamedTuple):
    """The process at the other end, as the kernel knows it."""

    pid: int
    uid: int
    gid: int = -1


def peer_of(connection: socket.socket) -> Peer:
    """Return the process that has connected. Raises `OSError`."""
    size = _CREDENTIALS.size
    return Peer(*_CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)))


class ClientConnection:
    """A connection whose request was read.

    `encoder` makes lines of messages, without data that the client may not see; `turn` is the context in which to make
    long messages; `timeout` is the number of seconds after which a client that does not read is dropped; `viewer` says
    that the client may only look.
    """

    def __init__(
        self,
        peer: Peer,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        encoder: Encoder,
        *,
        turn: Turn = nullcontext,
        timeout: float | None = None,
        viewer: bool = False,
    ) -> None:
        self.peer, self.reader, self.line, self.turn, self.viewer = peer, reader, encoder, turn, viewer
        self._writer, self._timeout = writer, timeout

    def send(self, message: Any, more: bytes = b"") -> None:
        """Send a message that contains no secrets, followed by `more`; the answers of journal sessions."""
        self._writer.write(encode(message) + more)

    async def write(self, line: bytes) -> None:
        """Send a line, and wait until the client has received it. Raises `TimeoutError`."""
        self._writer.write(line)
        await asyncio.wait_for(self._writer.drain(), self._timeout)

    @asynccontextmanager
    async def gone(self) -> AsyncIterator[asyncio.Task[bytes]]:
        """Yield a task that ends when the client disconnects or sends anything more."""
        task = asyncio.create_task(self.reader.read(1), name="control client")
        try:
            yield task
        finally:
            task.cancel()
