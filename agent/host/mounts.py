"""Which file systems are mounted where, and what of that has changed: inotify tells nothing of what hides a directory, or shows it again."""

from __future__ import annotations

import os
import select

from holdfast.resources.paths.mounts import TABLE, unescaped

MOUNT_POINT = 4
"""The field of a line of the table that says where."""


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
        return frozenset(_mount_point(line) for line in before ^ self._lines)

    def close(self) -> None:
        """Give the descriptors back."""
        self._poll.close()
        os.close(self._file)

    def _read(self) -> frozenset[bytes]:
        os.lseek(self._file, 0, os.SEEK_SET)
        chunks = []
        while chunk := os.read(self._file, 1 << 16):
            chunks.append(chunk)
        # A path may contain every other character that ends a line elsewhere.
        return frozenset(line for line in b"".join(chunks).split(b"\n") if line)


def _mount_point(line: bytes) -> str:
    return unescaped(line.split(b" ")[MOUNT_POINT])
