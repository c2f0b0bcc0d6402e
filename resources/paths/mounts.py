"""The mount table: which mount points there are, and which of them show what an unprivileged user makes up.

A FUSE file system that a user has mounted answers whatever its server likes: that all is root's, or nothing, for ever. It is never
looked into.
"""

from __future__ import annotations

import os
import re
import select
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

TABLE = "/proc/self/mountinfo"
ESCAPED = re.compile(rb"\\([0-7]{3})")
"""Blanks and their like in a path, as the kernel writes them there."""
OWNER = re.compile(rb"(?:^|,)user_id=(\d+)")


@dataclass(slots=True)
class Table:
    """The table as last read; read again when the kernel says that it has changed."""

    points: tuple[str, ...] = ()
    owners: Mapping[str, int] = field(default_factory=dict)
    """Mount point of a FUSE file system -> the uid that mounted it."""
    _file: int = -1
    _poll: select.epoll | None = None
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def fresh(self) -> Table:
        """The table as it is now; empty where the kernel shows none."""
        with self._turn:  # who comes while it is read must not see what it was
            if self._poll is None:
                self._open()
            elif self._poll.poll(0):
                self._read()
        return self

    def _open(self) -> None:
        try:
            self._file = os.open(TABLE, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        self._poll = select.epoll()
        self._poll.register(self._file, select.EPOLLPRI)
        self._read()

    def _read(self) -> None:
        data, at = b"", 0
        while chunk := os.pread(self._file, 1 << 16, at):
            data, at = data + chunk, at + len(chunk)
        lines = [line.split(b" ") for line in data.split(b"\n") if line]  # other ends of a line may be in a name
        self.points = tuple(unescaped(words[4]) for words in lines)
        owners = {}
        for words in lines:
            kind, options = words[words.index(b"-") + 1], words[-1]
            found = OWNER.search(options) if kind.startswith(b"fuse") else None
            owners[unescaped(words[4])] = int(found[1]) if found else 0
        self.owners = {point: uid for point, uid in owners.items() if uid}


_table = Table()


def foreign() -> Mapping[str, int]:
    """Mount point -> uid, of the file systems that others than root have mounted."""
    return _table.fresh().owners


def points() -> tuple[str, ...]:
    """All mount points."""
    return _table.fresh().points


def below(real: str) -> list[str]:
    """Mount points at or below a path without links on the way."""
    inside = real.rstrip("/") + "/"
    return [point for point in points() if point == real or point.startswith(inside)]


def unescaped(path: bytes) -> str:
    """A path of the table as it is."""
    return os.fsdecode(ESCAPED.sub(lambda code: bytes([int(code[1], 8)]), path))
