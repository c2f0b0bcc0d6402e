"""Recent changes in memory, from which watches are served: bounded, with an event for watches that wait for more."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

from holdfast.agent.northbound.drivers.base import WatchBatch

CHANGE = 200
"""Bytes that a change takes, in addition to its data."""


class RecentChanges:
    """The batches after revision `start`, in order. The oldest ones are dropped when they exceed `room` bytes.

    A watch only has a position, so one that reads slowly takes no memory.
    """

    def __init__(self, start: int = 0, room: int = 16 << 20) -> None:
        self.start = start
        """Changes up to this revision are not here."""
        self.revision = start
        """Revision of the last change."""
        self.grown = asyncio.Event()
        """Set, and replaced by a new event, when there are more changes or when `wake` is called."""
        self._room, self._size = room, 0
        self._batches: list[WatchBatch] = []

    def append(self, batches: Sequence[WatchBatch]) -> None:
        """Add batches that follow the last one."""
        self._batches += batches
        self._size += sum(map(_size, batches))
        self.revision = max(self.revision, batches[-1].revision)
        if self._size > self._room:
            self._trim()
        self.wake()

    def forget(self, last: int) -> None:
        """Drop the changes up to a revision, which is not later than that of the last change."""
        if last > self.start:
            del self._batches[: bisect_right(self._batches, last, key=attrgetter("revision"))]
            self.start, self._size = last, sum(map(_size, self._batches))

    def restart(self, revision: int) -> None:
        """Drop everything: the next batch follows this revision."""
        self._batches, self._size = [], 0
        self.start = self.revision = revision
        self.wake()

    def after(self, revision: int) -> Sequence[WatchBatch] | None:
        """Return the batches after a revision; None if not all of them are here."""
        if not self.start <= revision <= self.revision:
            return None
        return self._batches[bisect_right(self._batches, revision, key=attrgetter("revision")) :]

    def wake(self) -> None:
        """Wake all watches, so that they check again."""
        grown, self.grown = self.grown, asyncio.Event()
        grown.set()

    def _trim(self) -> None:
        """Drop the older half, so that the cost is spread over many changes."""
        kept, size = len(self._batches), 0
        while kept and size + _size(self._batches[kept - 1]) <= self._room // 2:
            kept -= 1
            size += _size(self._batches[kept])
        self.forget(self._batches[kept - 1].revision)


def _size(batch: WatchBatch) -> int:
    return sum(CHANGE + len(change.row.data if change.row else b"") for change in batch.changes)
