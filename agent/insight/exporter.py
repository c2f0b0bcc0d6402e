"""Exports metrics: over HTTP for a scraper, and as a file for node_exporter. Both are off by default.

The server has one page and reads at most a few kilobytes for a few seconds. An HTTP library would cost an idle agent 14
MB.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

from holdfast.agent.connections import BACKLOG, Connections
from holdfast.agent.health import Health
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.files import Replacement
from holdfast.agent.settings import MetricsSettings, split_address
from holdfast.resources.errors import Permanent

TYPE = "text/plain; version=0.0.4; charset=utf-8"
LIMIT = 8192
"""Most bytes of a request."""
TIMEOUT = 5.0
"""Seconds that a client may take to send its request, and to read the answer."""
CLIENTS = 16
"""Most clients at once."""
UNAVAILABLE = "metrics-unavailable"
"""Code of the health condition for an address that cannot be used."""
UNWRITTEN = "metrics-unwritten"


class Exporter:
    """Serves the text of `text` and, over HTTP, that of `process`, as the settings say, until `stop`."""

    def __init__(self, text: Callable[[], str], health: Health, process: Callable[[], str] = str) -> None:
        self._text, self._process = text, process
        self._health = health
        self._blocking = Blocking(1)
        self._settings = MetricsSettings()
        self._server: asyncio.Server | None = None
        self._writer: asyncio.Task[None] | None = None
        refusal = partial(_response, "503 Service Unavailable", "too many at once\n")
        self._connections = Connections(self._read, self._talk, refusal, CLIENTS)

    async def use(self, settings: MetricsSettings) -> None:
        """Apply new settings.

        If an address cannot be used, now or later, health says so and the next settings try again.
        """
        if settings == self._settings and not (settings.listen and self._server is None):
            return
        await self.stop()
        self._settings = settings
        if settings.listen:
            host, port = split_address(settings.listen)
            try:
                self._server = await asyncio.start_server(
                    self._connections.take, host, port, limit=LIMIT, backlog=BACKLOG
                )
            except OSError as error:
                why = error.strerror or str(error)
                self._health.set(UNAVAILABLE, f"cannot listen at {settings.listen} for requests for metrics: {why}")
        if settings.textfile:
            self._writer = asyncio.create_task(self._write(settings.textfile, settings.period), name="metrics")

    async def stop(self) -> None:
        """Stop serving."""
        if self._server:
            self._server.close()
        await self._connections.stop()
        if self._writer:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)
        self._server = self._writer = None
        for code in (UNAVAILABLE, UNWRITTEN):
            self._health.clear(code)

    async def _write(self, path: Path, period: float) -> None:
        while True:
            try:
                await self._blocking(Replacement(str(path), self._text().encode(), 0o644, -1, -1, durable=False).place)
                self._health.clear(UNWRITTEN)
            except OSError as error:
                self._health.set(UNWRITTEN, f"cannot write the metrics to {path}: {error.strerror or error}")
            except Permanent as error:  # the path is not safe
                self._health.set(UNWRITTEN, f"cannot write the metrics to {path}: {error}")
            await asyncio.sleep(period)

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        """Return the head of a request; empty if it is invalid."""
        async with asyncio.timeout(TIMEOUT):
            try:
                return await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                return b""

    async def _talk(self, head: bytes, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of a connection."""
        writer.write(self._answer(head))
        async with asyncio.timeout(TIMEOUT):
            await writer.drain()

    def _answer(self, head: bytes) -> bytes:
        if not head:
            return _response("400 Bad Request", "not a request, or too long\n")
        method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
        if method not in (b"GET", b"HEAD"):
            return _response("405 Method Not Allowed", "only GET\n", "Allow: GET, HEAD\r\n")
        if rest.partition(b" ")[0].partition(b"?")[0] != b"/metrics":
            return _response("404 Not Found", "the only page is /metrics\n")
        answer = _response("200 OK", self._text() + self._process(), kind=TYPE)
        return answer if method == b"GET" else answer.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"


def _response(status: str, body: str, more: str = "", kind: str = "text/plain; charset=utf-8") -> bytes:
    data = body.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode() + data
