"""Watches of directories by the kernel: what its two backends, `inotify` and `fanotify_watches`, have in common.

Both report the same events by the same numbers.
"""

from __future__ import annotations

import errno
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator

from holdfast.agent.host.path_nodes import KernelWatch, PathNode

MODIFY, ATTRIB, CLOSE_WRITE, MOVED_FROM, MOVED_TO = 0x2, 0x4, 0x8, 0x40, 0x80
CREATE, DELETE, DELETE_SELF, MOVE_SELF = 0x100, 0x200, 0x400, 0x800
UNMOUNT, OVERFLOW, IGNORED, ISDIR = 0x2000, 0x4000, 0x8000, 0x4000_0000
APPEARED = CREATE | MOVED_TO
STRUCTURE = APPEARED | DELETE | MOVED_FROM | DELETE_SELF | MOVE_SELF | UNMOUNT | IGNORED
"""Events after which a path may lead to another file, or to none."""
END = ATTRIB | DELETE_SELF | MOVE_SELF
"""Events of a directory at the end of a watched path: those of the directory itself. The watch of its parent does not
report its attributes if the directory is a mount point."""
STEP = DELETE | MOVED_TO | DELETE_SELF | MOVE_SELF
"""Events of a directory that is only a component of a path. They are few, so a busy directory (/tmp) costs little."""
FILE = MODIFY | ATTRIB | CLOSE_WRITE | DELETE_SELF | MOVE_SELF
"""Events of a file that is a mount point: it belongs to another directory, whose watches report them."""
FULL = STEP | CREATE | MOVED_FROM | ATTRIB | MODIFY | CLOSE_WRITE
"""Events of a directory that contains a watched path."""
ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
"""Errors that mean that there is no directory at a path."""
NAMES = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
"""How names are decoded, as `os.fsdecode` does it."""

Event = tuple[tuple[PathNode, ...], int, str]
"""Directories, events, and the name of the entry, which is empty for the directory itself. An overflow of the kernel's
queue is an event of all directories of the backend."""


class KernelWatches(ABC):
    """The watches of one backend. Its descriptor is opened for the first watch, and closed by `close`.

    `opened` and `closing` are called with the descriptor, so that the event loop can start and stop listening to it.
    """

    def __init__(self, opened: Callable[[int], None], closing: Callable[[int], None]) -> None:
        self.opened, self.closing = opened, closing
        self.entries: dict[Hashable, KernelWatch] = {}
        """All watches, by the name that the kernel gives them in its events."""

    @abstractmethod
    def add(self, path: str, mask: int, *, follow: bool) -> Hashable:
        """Make the kernel report these events of the directory at a path, too, and return the key of its watch.

        Raises `OSError`: one of `ABSENT` if there is no directory.
        """

    @abstractmethod
    def remove(self, key: Hashable, path: str) -> bool:
        """Make the kernel remove the watch of the directory that was at this path; return whether it did so."""

    @abstractmethod
    def read(self) -> Iterator[Event]:
        """Yield pending events, one buffer of them at most. Never waits."""

    @abstractmethod
    def close(self) -> None:
        """Close the descriptor, if it is open."""

    def lost(self) -> Event:
        """Return the event of an overflow."""
        return tuple(node for entry in self.entries.values() for node in entry.nodes), OVERFLOW, ""

    def forget(self, key: Hashable) -> None:
        """Forget a watch that the kernel has removed."""
        entry = self.entries.pop(key, None)
        for node in entry.nodes if entry is not None else ():
            node.kernel = None
