"""Sends entries of the log to one client: past ones, then new ones until the client disconnects or cannot keep up."""

from __future__ import annotations

import asyncio

from holdfast.agent.console import LogEntry
from holdfast.agent.control.connection import ClientConnection
from holdfast.agent.control.log_filter import LogFilter
from holdfast.agent.control.schema import ControlError, encode
from holdfast.agent.logs import Logs

QUEUE = 1000
"""Most entries that wait for one client."""


class LogStream:
    """The entries that one client asks for."""

    def __init__(self, logs: Logs, chosen: LogFilter, client: ClientConnection) -> None:
        self._logs, self._chosen, self._client = logs, chosen, client
        self._queue: asyncio.Queue[LogEntry | None] = asyncio.Queue(QUEUE)
        """Entries to send; None: the client did not keep up."""

    def past(self, lines: int, span: float | None) -> None:
        """Send the last entries: at most `lines` of them, and only those of the last `span` seconds.

        If the log does not reach back so far, the first message says since when it is kept.
        """
        buffer = self._logs.buffer
        if span is not None and (oldest := next(iter(buffer), None)) and buffer.reach < span:
            self._client.send({"kept": oldest["time"]})
        kept = buffer if span is None else buffer.since(span)
        for entry in [entry for entry in kept if self._chosen(entry)][-lines:] if lines > 0 else ():
            self._client.send({"entry": dict(entry)})

    async def follow(self) -> None:
        """Send new entries until the client disconnects. Raises `ControlError` if the client cannot keep up."""
        self._logs.followers.add(self._put)
        try:
            async with self._client.gone() as gone:
                while not gone.done():
                    await self._next(gone)
        finally:
            self._logs.followers.discard(self._put)

    def _put(self, entry: LogEntry) -> None:
        if not self._chosen(entry):
            return
        if self._queue.qsize() < QUEUE - 1:
            self._queue.put_nowait(entry)
        else:
            self._logs.followers.discard(self._put)
            self._queue.put_nowait(None)

    async def _next(self, gone: asyncio.Task[bytes]) -> None:
        """Send one entry, unless the client disconnects first."""
        following = asyncio.create_task(self._queue.get())
        await asyncio.wait({following, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not following.done():
            following.cancel()
            return
        entry = following.result()
        if entry is None:
            raise ControlError(f"cannot keep up: more than {QUEUE} entries waited for this client")
        await self._client.write(encode({"entry": dict(entry)}))
