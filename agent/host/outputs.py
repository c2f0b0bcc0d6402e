"""Output of commands, read by the event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import IO

CHUNK = 1 << 16
EVENTS = 0.25
"""Seconds between two reads of a command whose lines are events. Meanwhile its output stays in the pipe; a full pipe
blocks it."""
DROPPED = 0.001
"""Seconds between two reads of output that is dropped, so that a command that writes without end does not keep the
agent busy."""


class Output:
    """One pipe of a process. Keeps the first `limit` bytes and drops the rest."""

    def __init__(
        self,
        pipe: IO[bytes],
        limit: int,
        *,
        pace: float = 0.0,
        on_line: Callable[[], None] | None = None,
        on_data: Callable[[bytes], None] | None = None,
    ) -> None:
        self._pipe, self._limit = pipe, limit
        self._on_data = on_data
        """Called with all data as it arrives, and with an empty value at the end."""
        self._on_line = on_line
        """Called when lines have arrived."""
        self._pace = pace
        """Seconds to pause after each read."""
        self._pause: asyncio.TimerHandle | None = None
        """Ends the pause."""
        self._data = bytearray()
        self.truncated = False
        self.news, self.ended = asyncio.Event(), asyncio.Event()
        """`news`: data arrived since the event was cleared. `ended`: all data has arrived."""
        os.set_blocking(pipe.fileno(), False)
        self._listen()

    def _listen(self) -> None:
        self._pause = None
        asyncio.get_running_loop().add_reader(self._pipe.fileno(), self._readable)

    def _readable(self) -> None:
        """Read what is available; then pause if there is a pace."""
        pace = self._pace or (DROPPED if self.truncated else 0.0)
        if self.read() and pace:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._pipe.fileno())
            self._pause = loop.call_later(pace, self._listen)

    def finish(self) -> None:
        """Read the rest without pauses: the process has ended."""
        self._pace = 0.0
        if self._pause is not None:
            self._pause.cancel()
            self._listen()

    def read(self) -> bool:
        """Read what is available; return whether more may be available now."""
        if self._pipe.closed:
            return False
        try:
            data = os.read(self._pipe.fileno(), CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self.close()
            return False
        self.news.set()
        if self._on_data is not None:
            self._on_data(data)
        room = max(0, self._limit - len(self._data))
        self._data += data[:room]
        self.truncated = self.truncated or len(data) > room
        if self._on_line is not None and b"\n" in data:
            self._on_line()
        return True

    def close(self) -> None:
        """Stop reading."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        if not self._pipe.closed:
            asyncio.get_running_loop().remove_reader(self._pipe.fileno())
            self._pipe.close()
            if self._on_data is not None:
                self._on_data(b"")
            self.news.set()
            self.ended.set()

    def text(self, *, exact: bool = False) -> str:
        """Return the text that was kept; bytes that are not UTF-8 are replaced, or become surrogates with `exact`."""
        return self._data.decode(errors="surrogateescape" if exact else "replace")
