"""Sends entries of the log to one client: past ones, then new ones until the client disconnects or cannot keep up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing

from holdfast.agent.console import LogEntry
from holdfast.agent.control.answers import ROWS
from holdfast.agent.control.connection import ClientConnection
from holdfast.agent.control.log_filter import LogFilter
from holdfast.agent.control.schema import ControlError
from holdfast.agent.logs import Logs
from holdfast.agent.records.log_lines import OlderLines

QUEUE = 1000
"""Most entries that wait for one client."""


class LogStream:
    """The entries for one client."""

    def __init__(self, logs: Logs, chosen: LogFilter, client: ClientConnection, older: OlderLines) -> None:
        self._logs, self._chosen, self._client, self._older = logs, chosen, client, older
        self._queue: asyncio.Queue[LogEntry | None] = asyncio.Queue(QUEUE)
        """Entries to send; None: the client did not keep up."""

    async def past(self, lines: int, span: float | None) -> None:
        """Send the last entries: at most `lines` of them, and only those of the last `span` seconds.

        Those from before the entries in memory are made from the records. If the entries in memory do not reach back
        so far, the first message says since when they are kept, and since when there are records.
        """
        buffer = self._logs.buffer
        begin = min((float(entry["time"]) for entry in buffer), default=time.time())
        reaches = span is not None and buffer.reach >= span
        if span is not None and not reaches:
            recorded = await self._older.beginning()
            await self._client.write(self._client.line({"kept": begin, "recorded": recorded}))
        kept = buffer if span is None else buffer.since(span)
        chosen = [entry for entry in kept if self._chosen(entry)][-lines:] if lines > 0 else []
        if lines > len(chosen) and not reaches:
            await self._send_older(begin, None if span is None else time.time() - span, lines - len(chosen))
        for first in range(0, len(chosen), ROWS):
            await self._send(chosen[first : first + ROWS])

    async def _send_older(self, begin: float, since: float | None, most: int) -> None:
        async with aclosing(self._older.before(begin, since, most, ROWS)) as pages:
            while True:
                async with self._client.turn():  # viewers wait after it, so they cannot keep a thread busy
                    entries = await anext(pages, None)
                if entries is None:
                    return
                await self._send(entries)

    async def _send(self, entries: Sequence[LogEntry]) -> None:
        async with self._client.turn():
            some = b"".join(self._client.line({"entry": dict(entry)}) for entry in entries)
        await self._client.write(some)

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
        async with self._client.turn():
            line = self._client.line({"entry": dict(entry)})
        await self._client.write(line)
