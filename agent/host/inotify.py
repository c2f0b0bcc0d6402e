"""The one inotify descriptor of the process that resources' paths are watched with.

asyncinotify makes the descriptor and reads it; here its watches are shared by the nodes of a tree and given back when
the last one goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from asyncinotify import Inotify, Mask

from holdfast.agent.host.pathnodes import Node

ISDIR = int(Mask.ISDIR)
MODIFY = int(Mask.MODIFY)
OVERFLOW = int(Mask.Q_OVERFLOW)
APPEARED = int(Mask.CREATE | Mask.MOVED_TO)
IGNORED = int(Mask.IGNORED)
STRUCTURE = int(
    Mask.CREATE | Mask.DELETE | Mask.MOVED_FROM | Mask.MOVED_TO | Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.UNMOUNT | Mask.IGNORED
)
"""What may put another thing, or nothing, in a path's place."""
STEP = Mask.DELETE | Mask.MOVED_TO | Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.ONLYDIR | Mask.EXCL_UNLINK | Mask.MASK_ADD
"""For a directory that is only passed through: little is asked for, so a busy one (/tmp) costs little."""
FULL = STEP | Mask.CREATE | Mask.MOVED_FROM | Mask.ATTRIB | Mask.MODIFY | Mask.CLOSE_WRITE
"""For a directory that holds something watched."""
BUFFER = 64
"""Longest possible events that one read of the descriptor takes (272 bytes each); of usual ones far more."""


class Entry:
    """One watch of the kernel: it belongs to a directory, which may be reached by several paths."""

    __slots__ = ("nodes", "watch")

    def __init__(self, watch: Any) -> None:
        self.watch = watch
        self.nodes: set[Node] = set()


class Kernel:
    """The process's one inotify descriptor for resources: opened when first needed, given back by `close`.

    `opened` and `closing` are called with the descriptor, for the event loop to listen to it.
    """

    def __init__(self, opened: Callable[[int], None], closing: Callable[[int], None]) -> None:
        self._opened, self._closing = opened, closing
        self._inotify: Inotify | None = None
        self._entries: dict[int, Entry] = {}

    def __len__(self) -> int:
        """Watches held."""
        return len(self._entries)

    def attach(self, node: Node, *, follow: bool) -> None:
        """Watch the directory that is at the node's path now. Raises `OSError`, and then the node has no watch."""
        mask = FULL if node.full else STEP
        try:
            if self._inotify is None:
                self._inotify = Inotify(sync_timeout=0, cache_size=BUFFER)
                self._opened(self._inotify.fd)
            watch = self._inotify.add_watch(node.path, mask if follow else mask | Mask.DONT_FOLLOW)
        except OSError:
            self.detach(node)
            raise
        entry = self._entries.get(watch.wd)
        if entry is None:
            entry = self._entries[watch.wd] = Entry(watch)
        if entry is not node.kernel:
            self.detach(node)
            entry.nodes.add(node)
            node.kernel = entry

    def detach(self, node: Node) -> None:
        """Give the node's watch back, if it has one."""
        entry, node.kernel = node.kernel, None
        if entry is None:
            return
        entry.nodes.discard(node)
        if not entry.nodes and self._entries.pop(entry.watch.wd, None) is entry and self._inotify is not None:
            try:
                self._inotify.rm_watch(entry.watch)
            except OSError:  # the kernel was first: the directory is gone
                return

    def read(self, limit: int) -> Iterator[tuple[tuple[Node, ...], int, str]]:
        """At most `limit` events that have come: (directories, mask, name of the entry or nothing). Never waits.

        An overflow of the kernel's queue comes with no directory.
        """
        for _ in range(limit):
            event = self._inotify.sync_get() if self._inotify is not None else None
            if event is None:
                return
            mask, watch = event.mask.value, event.watch
            if watch is None:
                if mask & OVERFLOW:
                    yield (), mask, ""
                continue
            entry = self._entries.get(watch.wd)
            if entry is None:
                continue
            nodes = tuple(entry.nodes)
            if mask & IGNORED:
                del self._entries[watch.wd]
                for node in nodes:
                    node.kernel = None
            yield nodes, mask, str(event.name) if event.name is not None else ""

    def close(self) -> None:
        """Give the descriptor back."""
        if self._inotify is not None:
            self._closing(self._inotify.fd)
            self._inotify.close()
            self._inotify = None
        self._entries.clear()
