"""The last entries of the log, kept for `holdfast log`; bounded in number and in size."""

from __future__ import annotations

import marshal
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, cast

from holdfast.agent.clocks import boottime
from holdfast.agent.console import LogEntry

ROOM = 2 << 20
"""Most bytes of all entries together; the oldest entries are dropped first."""
TEXT = 32 << 10
"""Most characters of one text; clients that follow the log get the whole text."""
CUT = "\n[cut]"


class LogBuffer:
    """At most `limit` entries, oldest first. Their age is measured with a clock that cannot be set."""

    def __init__(self, limit: int) -> None:
        self.elapsed: Callable[[], float] = boottime
        self._limit = limit
        self._entries: deque[tuple[bytes | LogEntry, int, float]] = deque()
        """Entry (`_packed`), its size, and when it was added."""
        self._size = 0

    def __iter__(self) -> Iterator[LogEntry]:
        """Return the entries, oldest first."""
        return (_unpacked(packed) for packed, _, _ in self._entries)

    def resize(self, limit: int) -> None:
        """Set the number of entries to keep; the oldest ones are dropped if there are more."""
        self._limit = limit
        self._make_room()

    def since(self, seconds: float) -> Iterator[LogEntry]:
        """Return the entries of the last `seconds`, oldest first."""
        oldest = self.elapsed() - seconds
        return (_unpacked(packed) for packed, _, at in self._entries if at >= oldest)

    @property
    def reach(self) -> float:
        """Age of the oldest entry in seconds; 0 without entries."""
        return self.elapsed() - self._entries[0][2] if self._entries else 0.0

    def append(self, entry: LogEntry) -> None:
        """Add an entry; texts longer than `TEXT` are cut."""
        packed, size = _packed(entry)
        if size > TEXT:
            packed, size = _packed(_cut(entry))
        self._entries.append((packed, size, self.elapsed()))
        self._size += size
        self._make_room()

    def _make_room(self) -> None:
        while len(self._entries) > self._limit or self._size > ROOM:
            self._size -= self._entries.popleft()[1]


def _packed(entry: LogEntry) -> tuple[bytes | LogEntry, int]:
    """Return an entry in the form in which it takes the least memory, and its size.

    Bytes take half the memory of the entry, and encoding takes less time than computing the size of an entry. An entry
    with values of other types than those of Python's own data stays as it is.
    """
    try:
        data = marshal.dumps(cast("dict[str, Any]", entry))
    except ValueError:
        return entry, _size(entry)
    return data, len(data)


def _unpacked(packed: bytes | LogEntry) -> LogEntry:
    entry: LogEntry = marshal.loads(packed) if isinstance(packed, bytes) else packed  # noqa: S302 - of this process
    return entry


def _size(value: Any) -> int:
    """Return the number of characters of all texts in a value. Without recursion: values may be deep."""
    size, left = 0, [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            size += len(each)
        elif isinstance(each, dict):
            left += each
            left += each.values()
        elif isinstance(each, (list, tuple)):
            left += each
        else:
            size += 8
    return size


def _cut(value: Any) -> Any:
    """Return a copy of a value with its long texts cut."""
    if isinstance(value, str):
        return value if len(value) <= TEXT else value[:TEXT] + CUT
    if isinstance(value, dict):
        return {key: _cut(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cut(each) for each in value]
    return value
