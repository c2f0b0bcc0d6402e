"""Directories with new entries that are not on the disk yet; one flush serves many files.

A file is flushed before it is renamed (`files.py`). Its directory is flushed at once if another resource depends on the
file or the journal records it. All other directories are flushed before a command runs or D-Bus is called, at the end
of a run, and after a second at the latest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.agent.host.blocking import LONG, Blocking
from holdfast.resources.paths.handle import ABSENT
from holdfast.resources.paths.place import SafeDirectory

DELAY = 1.0
"""Most seconds for which a flush waits for more files."""


class Flushes:
    """Pending flushes of one host. `told` is called with the reason when a directory cannot be flushed."""

    def __init__(self, blocking: Blocking, told: Callable[[str], None]) -> None:
        self._blocking, self._told = blocking, told
        self._failed: dict[tuple[int, int], str] = {}
        """Device and inode -> why the last flush of that directory failed."""
        self._pending: dict[tuple[int, int], SafeDirectory] = {}
        """Device and inode -> directory to flush. Threads add to it."""
        self._work: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def trouble(self) -> str:
        """Why something that was written may not be on the disk; empty if all of it is."""
        return "; ".join(self._failed.values())

    def add(self, directory: SafeDirectory) -> None:
        """Record that an entry of this directory was renamed.

        Thread-safe; the caller then calls `soon` in the event loop.
        """
        self._pending[directory.info.st_dev, directory.info.st_ino] = directory

    def soon(self) -> None:
        """Schedule a flush of all recorded directories."""
        if self._pending and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DELAY, self._begin)

    async def done(self) -> None:
        """Wait until all directories recorded so far are flushed, or their failure is reported."""
        if self._pending or self._work:
            await asyncio.shield(self._begin())

    def _begin(self) -> asyncio.Task[None]:
        """Return the running flush, or a new one."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._work is None:
            self._work = asyncio.get_running_loop().create_task(self._flush(), name="flush")
        return self._work

    async def _flush(self) -> None:
        """Flush until no directory is left. A disk that does not answer is given up after `LONG` seconds."""
        before = self.trouble
        try:
            while self._pending:
                number, directory = self._pending.popitem()
                self._failed.pop(number, None)
                try:
                    async with asyncio.timeout(LONG):
                        await self._blocking.brief(_sync, directory)
                except TimeoutError:
                    self._failed[number] = f"{directory.path}: the disk has not answered for {LONG:g} s"
                except OSError as error:
                    self._failed[number] = f"{directory.path}: {error.strerror}"
        finally:
            self._work = None
        if self.trouble != before:
            self._told(self.trouble)


def _sync(directory: SafeDirectory) -> None:
    """Flush one directory, unless it was removed with all its entries."""
    try:
        directory.sync()
    except ABSENT:
        return
