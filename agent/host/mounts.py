"""Which file systems are mounted where, and what of that has changed: inotify tells nothing of what hides a directory, or shows it again."""

from __future__ import annotations

import os
import re
import select

TABLE = "/proc/self/mountinfo"
MOUNT_POINT = 4
"""The field of a line of the table that says where."""
ESCAPED = re.compile(r"\\([0-7]{3})")
"""Blanks and their like in a path, as the kernel writes them there."""


class Mounts:
    """The mount table, and a descriptor that is readable when it has changed. Raises `OSError` where the kernel shows none."""

    def __init__(self) -> None:
        self._file = os.open(TABLE, os.O_RDONLY | os.O_CLOEXEC)
        # The table itself is always readable; only this event says that it has changed.
        self._poll = select.epoll()
        self._poll.register(self._file, select.EPOLLPRI)
        self._lines = self._read()

    def fileno(self) -> int:
        """The descriptor."""
        return self._poll.fileno()

    def changed(self) -> frozenset[str]:
        """Mount points where something has come, gone, or got other options since the last call."""
        self._poll.poll(0)
        before, self._lines = self._lines, self._read()
        return frozenset(ESCAPED.sub(_character, line.split(" ")[MOUNT_POINT]) for line in before ^ self._lines)

    def close(self) -> None:
        """Give the descriptors back."""
        self._poll.close()
        os.close(self._file)

    def _read(self) -> frozenset[str]:
        os.lseek(self._file, 0, os.SEEK_SET)
        chunks = []
        while chunk := os.read(self._file, 1 << 16):
            chunks.append(chunk)
        return frozenset(os.fsdecode(b"".join(chunks)).splitlines())


def _character(match: re.Match[str]) -> str:
    return chr(int(match[1], 8))
