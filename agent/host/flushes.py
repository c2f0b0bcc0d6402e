"""Directories with new entries that are not on the disk yet, each flushed once for many files.

A file is flushed before it is renamed (`files.py`), and its directory at once where another resource depends on the file, or the
journal tells of it. All other directories are flushed before a command is run or D-Bus is called, at the end, and a second later at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.agent.host.blocking import LONG, Blocking
from holdfast.resources.paths.handle import ABSENT
from holdfast.resources.paths.place import Directory

DELAY = 1.0
"""Seconds for which a flush waits for more files at most."""


class Flushes:
    """Those of one host. `told` is called with the reason when a directory could not be flushed."""

    def __init__(self, blocking: Blocking, told: Callable[[str], None]) -> None:
        self._blocking, self._told = blocking, told
        self._failed: dict[tuple[int, int], str] = {}
        """Why a directory could not be flushed, until it can."""
        self._owed: dict[tuple[int, int], Directory] = {}
        """By device and inode. Threads add to it."""
        self._work: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def trouble(self) -> str:
        """Why something that was written may not be on the disk; empty when all is."""
        return "; ".join(self._failed.values())

    def owe(self, directory: Directory) -> None:
        """An entry of this directory was renamed. May be called in any thread; then `soon` is to be called in the loop."""
        self._owed[directory.info.st_dev, directory.info.st_ino] = directory

    def soon(self) -> None:
        """Have flushed what is owed, in a while."""
        if self._owed and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DELAY, self._begin)

    async def done(self) -> None:
        """All that was owed until now is on the disk when this returns, or it was told why not."""
        if self._owed or self._work:
            await asyncio.shield(self._begin())

    def _begin(self) -> asyncio.Task[None]:
        """The flush that is under way, or a new one."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._work is None:
            self._work = asyncio.get_running_loop().create_task(self._flush(), name="flush")
        return self._work

    async def _flush(self) -> None:
        """Flush until nothing is owed. A disk that does not answer holds nobody up for ever."""
        before = self.trouble
        try:
            while self._owed:
                number, directory = self._owed.popitem()
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


def _sync(directory: Directory) -> None:
    """Flush one directory, unless it is gone, and with it all that was in it."""
    try:
        directory.sync()
    except ABSENT:
        return
