"""The mount table and its changes. Watches report nothing when a mount hides a directory or uncovers it again."""

from __future__ import annotations

import os
import select

from holdfast.resources.paths.mounts import TABLE, unescaped

MOUNT_POINT = 4
"""Index of the field with the mount point in a line of the table."""


class Mounts:
    """The mount table, and a descriptor that becomes readable when the table changes.

    Raises `OSError` if the kernel has none.
    """

    def __init__(self) -> None:
        self._file = os.open(TABLE, os.O_RDONLY | os.O_CLOEXEC)
        # The table itself is always readable; only this event reports changes.
        self._poll = select.epoll()
        self._poll.register(self._file, select.EPOLLPRI)
        self._lines = self._read()

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._poll.fileno()

    def changed(self) -> frozenset[str]:
        """Return the mount points that appeared, disappeared or changed options since the last call."""
        self._poll.poll(0)
        before, self._lines = self._lines, self._read()
        return frozenset(_mount_point(line) for line in before ^ self._lines)

    def replaced(self) -> frozenset[str]:
        """Return the mount points at which another directory may be now, after the kernel has reported a change.

        If the table is the same as before, a file system was unmounted and mounted again: it may be any but the root.
        """
        return self.changed() or frozenset(_mount_point(line) for line in self._lines) - {"/"}

    def close(self) -> None:
        """Close the descriptors."""
        self._poll.close()
        os.close(self._file)

    def _read(self) -> frozenset[bytes]:
        os.lseek(self._file, 0, os.SEEK_SET)
        chunks = []
        while chunk := os.read(self._file, 1 << 16):
            chunks.append(chunk)
        # Other characters that `splitlines` treats as the end of a line may be part of a path.
        return frozenset(line for line in b"".join(chunks).split(b"\n") if line)


def _mount_point(line: bytes) -> str:
    return unescaped(line.split(b" ")[MOUNT_POINT])
