"""The backends of path watches. The tests of the path watcher run with each of them."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deadline import DEADLINE
from foreign_shell import REFUSED
from holdfast.agent.host.path_watcher import PathWatcher

FANOTIFY = pytest.param("fanotify", marks=pytest.mark.skipif(bool(REFUSED), reason=REFUSED))
BACKENDS = ["inotify", FANOTIFY]


@contextmanager
def mounted(place: Path, *argv: str) -> Iterator[None]:
    """Mount a file system at a place."""
    subprocess.run(["mount", *argv, place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", place], check=True)


class Listener:
    """A subscription whose events a test can await."""

    def __init__(self, watcher: PathWatcher, *paths: Path, recursive: bool = False) -> None:
        self.rung = asyncio.Event()
        self.count = 0
        self.subscription = watcher.subscribe([str(path) for path in paths], self._ring, recursive=recursive)

    def _ring(self) -> None:
        self.count += 1
        self.rung.set()

    async def heard(self, within: float = DEADLINE) -> bool:
        """Return whether an event has come since the last call."""
        try:
            await asyncio.wait_for(self.rung.wait(), within)
        except TimeoutError:
            return False
        self.rung.clear()
        return True

    async def quiet(self) -> bool:
        """Return whether no event comes."""
        return not await self.heard(0.06)

    async def settle(self) -> None:
        """Consume the events that the test itself has caused."""
        while await self.heard(0.06):
            pass
