"""The last entries of the log, kept for `holdfast log`; bounded in number and in size, however much commands print."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.agent.console import LogEntry

ROOM = 2 << 20
"""Most characters of all entries together; the oldest entries are dropped first."""
TEXT = 32 << 10
"""Most characters of one text; clients that follow the log get the whole text."""
CUT = "\n[cut]"


class LogBuffer:
    """At most `limit` entries, oldest first."""

    def __init__(self, limit: int, entries: Iterable[LogEntry] = ()) -> None:
        self._limit = limit
        self._entries: deque[tuple[LogEntry, int]] = deque()
        self._size = 0
        for entry in entries:
            self.append(entry)

    def __iter__(self) -> Iterator[LogEntry]:
        """The entries, oldest first."""
        return (entry for entry, _ in self._entries)

    def append(self, entry: LogEntry) -> None:
        """Add an entry; texts longer than `TEXT` are cut."""
        size = _size(entry)
        if size > TEXT:
            entry = _cut(entry)
            size = _size(entry)
        self._entries.append((entry, size))
        self._size += size
        while len(self._entries) > self._limit or self._size > ROOM:
            self._size -= self._entries.popleft()[1]


def _size(value: Any) -> int:
    """Characters of all texts in a value."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(_size(key) + _size(each) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return sum(map(_size, value))
    return 8


def _cut(value: Any) -> Any:
    """A copy of a value with its long texts cut."""
    if isinstance(value, str):
        return value if len(value) <= TEXT else value[:TEXT] + CUT
    if isinstance(value, dict):
        return {key: _cut(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cut(each) for each in value]
    return value
