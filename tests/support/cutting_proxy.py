"""A proxy on loopback whose connections a test can cut: at once, or so that nothing passes any more."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class CuttingProxy:
    """Passes bytes on to a port of loopback."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()

    async def __aenter__(self) -> Self:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cut all connections, and listen no longer."""
        assert self._server is not None
        self._server.close()
        self._flowing.set()
        self.cut()
        await self._server.wait_closed()

    @property
    def endpoint(self) -> str:
        """`host:port` for clients."""
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """End all connections; new ones are accepted."""
        for writer in self._writers:
            writer.transport.abort()

    def hold(self) -> None:
        """Let nothing pass in any direction; no connection ends."""
        self._flowing.clear()

    def release(self) -> None:
        """Pass on what was held, and what follows."""
        self._flowing.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, other_writer}
        await asyncio.gather(self._pass(reader, other_writer), self._pass(other_reader, writer))
        self._writers -= {writer, other_writer}

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()
