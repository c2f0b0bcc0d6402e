"""The last entries of the log, kept for `holdfast log`: bounded in number and in size, whatever commands print."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from holdfast.agent.clocks import boottime
from holdfast.agent.console import Entry

ROOM = 2 << 20
"""Characters that all entries together may have; the oldest make room."""
TEXT = 32 << 10
"""Characters that are kept of one text; who follows the log has got all of it."""
CUT = "\n[cut]"


class Recent:
    """At most `limit` entries, oldest first. How old they are is told by a clock that nobody sets."""

    def __init__(self, limit: int) -> None:
        self.elapsed: Callable[[], float] = boottime
        self._limit = limit
        self._entries: deque[tuple[Entry, int, float]] = deque()
        self._size = 0

    def __iter__(self) -> Iterator[Entry]:
        """The entries, oldest first."""
        return (entry for entry, _, _ in self._entries)

    def resize(self, limit: int) -> None:
        """Keep at most so many from now on."""
        self._limit = limit
        self._make_room()

    def since(self, seconds: float) -> Iterator[Entry]:
        """The entries that are no older, oldest first."""
        oldest = self.elapsed() - seconds
        return (entry for entry, _, at in self._entries if at >= oldest)

    @property
    def reach(self) -> float:
        """Seconds since the oldest entry; 0 without one."""
        return self.elapsed() - self._entries[0][2] if self._entries else 0.0

    def append(self, entry: Entry) -> None:
        """Keep one more, its long texts cut."""
        size = _size(entry)
        if size > TEXT:
            entry = _cut(entry)
            size = _size(entry)
        self._entries.append((entry, size, self.elapsed()))
        self._size += size
        self._make_room()

    def _make_room(self) -> None:
        while len(self._entries) > self._limit or self._size > ROOM:
            self._size -= self._entries.popleft()[1]


def _size(value: Any) -> int:
    """Characters of all texts in it."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(_size(key) + _size(each) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return sum(map(_size, value))
    return 8


def _cut(value: Any) -> Any:
    """The same with its texts cut."""
    if isinstance(value, str):
        return value if len(value) <= TEXT else value[:TEXT] + CUT
    if isinstance(value, dict):
        return {key: _cut(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cut(each) for each in value]
    return value
