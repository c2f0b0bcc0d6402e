"""The process's one inotify descriptor, with which the paths of resources are watched.

asyncinotify makes the descriptor and its watches. In this module, the nodes of a tree share these watches, and the last
node of a watch removes it.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from asyncinotify import Inotify, Mask

from holdfast.agent.host.path_nodes import KernelWatch, PathNode, held

if TYPE_CHECKING:
    from holdfast.agent.host.namer import Namer

ISDIR = int(Mask.ISDIR)
MODIFY = int(Mask.MODIFY)
OVERFLOW = int(Mask.Q_OVERFLOW)
APPEARED = int(Mask.CREATE | Mask.MOVED_TO)
IGNORED = int(Mask.IGNORED)
STRUCTURE = int(
    Mask.CREATE
    | Mask.DELETE
    | Mask.MOVED_FROM
    | Mask.MOVED_TO
    | Mask.DELETE_SELF
    | Mask.MOVE_SELF
    | Mask.UNMOUNT
    | Mask.IGNORED
)
"""Events after which a path may lead to another file, or to none."""
STEP = Mask.DELETE | Mask.MOVED_TO | Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.ONLYDIR | Mask.EXCL_UNLINK | Mask.MASK_ADD
"""Events of a directory that is only a component of a path. They are few, so a busy directory (/tmp) costs little."""
FULL = STEP | Mask.CREATE | Mask.MOVED_FROM | Mask.ATTRIB | Mask.MODIFY | Mask.CLOSE_WRITE
"""Events of a directory that contains a watched path."""
BUFFER = 1 << 16
"""Bytes that one read of the descriptor takes: about two thousand events."""
NAMES = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
"""How names are decoded, as `os.fsdecode` does it."""
HEADER = struct.Struct("iIII")
"""The kernel's `struct inotify_event`: watch descriptor, mask, cookie, length of the name that follows."""


class Descriptor(Inotify):
    """asyncinotify's descriptor, read without its event objects, which cost more than handling the event."""

    def __init__(self) -> None:
        super().__init__()
        os.set_blocking(self.fd, False)

    def events(self) -> list[tuple[int, int, str]]:
        """Return (watch descriptor, mask, name) of the pending events, at most one buffer of them; never waits."""
        try:
            data = os.read(self.fd, BUFFER)
        except BlockingIOError:
            return []
        found: list[tuple[int, int, str]] = []
        at, end = 0, len(data)
        while at < end:
            wd, mask, _, length = HEADER.unpack_from(data, at)
            at += HEADER.size
            name = data[at : at + length].rstrip(b"\0").decode(*NAMES) if length else ""
            at += length
            if mask & IGNORED:
                self._watches.pop(wd, None)
            found.append((wd, mask, name))
        return found


class SharedInotify:
    """The process's one inotify descriptor for resources: opened on first use, closed by `close`.

    `opened` and `closing` are called with the descriptor, so that the event loop can start and stop listening to it.
    The directories are marked for the `namer`, too, if there is one.
    """

    def __init__(
        self, opened: Callable[[int], None], closing: Callable[[int], None], namer: Namer | None = None
    ) -> None:
        self._opened, self._closing, self._namer = opened, closing, namer
        self._inotify: Descriptor | None = None
        self._entries: dict[int, KernelWatch] = {}

    def __len__(self) -> int:
        """Return the number of watches."""
        return len(self._entries)

    def attach(self, node: PathNode, *, follow: bool) -> None:
        """Watch the directory that is at the node's path now. Raises `OSError`; the node then has no watch."""
        mask = FULL if node.full else STEP
        try:
            if self._inotify is None:
                self._inotify = Descriptor()
                self._opened(self._inotify.fd)
            with held(node.path, follow=follow) as path:
                itself = follow or path != node.path
                watch = self._inotify.add_watch(path, mask if itself else mask | Mask.DONT_FOLLOW)
                entry = self._entry_of(node, watch)
                if self._namer is not None:
                    self._namer.mark(path, full=any(each.full for each in entry.nodes), follow=itself)
        except OSError:
            self.detach(node)
            raise

    def _entry_of(self, node: PathNode, watch: Any) -> KernelWatch:
        """Return the entry of a kernel watch, to which the node belongs from now on."""
        entry = self._entries.get(watch.wd)
        if entry is None:
            entry = self._entries[watch.wd] = KernelWatch(watch)
        if entry is not node.kernel:
            self.detach(node)
            entry.nodes.add(node)
            node.kernel = entry
        return entry

    def detach(self, node: PathNode) -> None:
        """Remove the node's watch, if it has one."""
        entry, node.kernel = node.kernel, None
        if entry is None:
            return
        entry.nodes.discard(node)
        if not entry.nodes and self._entries.pop(entry.watch.wd, None) is entry and self._inotify is not None:
            with contextlib.suppress(OSError):  # the kernel has removed the watch: the directory is gone
                self._inotify.rm_watch(entry.watch)
                self._unmark(node)

    def _unmark(self, node: PathNode) -> None:
        """Remove the mark of a directory that is no longer watched. Raises `OSError` if its path leads nowhere."""
        if self._namer is not None:
            with held(node.path, follow=True) as path:
                self._namer.unmark(path)

    def read(self) -> Iterator[tuple[tuple[PathNode, ...], int, str]]:
        """Yield pending events: (directories, mask, entry name or an empty string). Never waits.

        An overflow of the kernel's queue is an event without directories.
        """
        if self._inotify is None:
            return
        for wd, mask, name in self._inotify.events():
            entry = self._entries.get(wd)
            if entry is not None:
                nodes = tuple(entry.nodes)
                if mask & IGNORED:
                    del self._entries[wd]
                    for node in nodes:
                        node.kernel = None
                yield nodes, mask, name
            elif mask & OVERFLOW:
                yield (), mask, ""

    def close(self) -> None:
        """Close the descriptor."""
        if self._inotify is not None:
            self._closing(self._inotify.fd)
            self._inotify.close()
            self._inotify = None
        self._entries.clear()
