"""Watches of directories by fanotify: a group for the paths of resources.

An event names the directory by the id of its file system and a handle. `add` opens the directory, makes the same key
from it and marks it through the same descriptor. So the key is that of the marked directory, even if another directory
takes its place meanwhile. `add` then closes the directory: no watch holds a descriptor.

A mark can be removed only through a path that leads to the directory. Marks of directories that were moved to unknown
paths stay; when there are many, all marks are removed and made again, and everything is checked. When a file system is
unmounted, the kernel removes its marks without an event: the mount table shows the change (`path_watcher`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from typing import cast

from holdfast.agent.host.fanotify import FanotifyGroup, key_of, opened, type_of
from holdfast.agent.host.kernel_watches import ABSENT, DELETE_SELF, IGNORED, NAMES, Event, KernelWatches
from holdfast.resources.paths import mounts

BTRFS, EXT, F2FS, TMPFS, XFS = 0x9123_683E, 0xEF53, 0xF2F5_2010, 0x0102_1994, 0x5846_5342
WATCHED = frozenset({BTRFS, EXT, F2FS, TMPFS, XFS})
"""Types of file systems on which the handle of a directory stays the same, and on which only this host makes changes.
Elsewhere a handle may change while the directory is watched (overlayfs, when it is first written to)."""
STALE = 1024
"""Most marks of directories that are no longer watched."""
ITSELF = b"."
"""The name of the directory itself in its events."""


class Unfit(OSError):
    """fanotify does not report every event of a directory."""


class FanotifyWatches(KernelWatches):
    """The marks of one group."""

    def __init__(self, opened: Callable[[int], None], closing: Callable[[int], None]) -> None:
        super().__init__(opened, closing)
        self._group: FanotifyGroup | None = None
        self._stale: set[Hashable] = set()
        """Keys of directories whose mark was not removed."""

    def add(self, path: str, mask: int, *, follow: bool) -> Hashable:
        """Mark the directory at a path, and return its key. Raises `OSError`; `Unfit` if inotify has to watch."""
        try:
            group = self._group or self._open()
            with opened(path, follow=follow) as directory:
                if type_of(directory) not in WATCHED:
                    raise Unfit
                key = key_of(directory)
                group.mark(directory, mask)
        except OSError as error:
            if error.errno in ABSENT:
                raise
            raise Unfit(error.errno, error.strerror, path) from error
        self._stale.discard(key)
        return key

    def _open(self) -> FanotifyGroup:
        os.close(os.open(mounts.TABLE, os.O_RDONLY | os.O_CLOEXEC))
        self._group = FanotifyGroup(processes=False)
        self.opened(self._group.fd)
        return self._group

    def remove(self, key: Hashable, path: str) -> bool:
        """Remove a mark, if the path still leads to its directory; return whether it does."""
        self._stale.add(key)
        with suppress(OSError), opened(path, follow=True) as directory:
            if key_of(directory) == key and self._group is not None:
                self._group.unmark(directory)
                self._stale.discard(key)
        return key not in self._stale

    def read(self) -> Iterator[Event]:
        """Yield pending events, one buffer of them at most. Never waits."""
        for key, name, mask, _, _ in self._group.read() if self._group is not None else ():
            entry = self.entries.get(key)
            if entry is not None:
                nodes = tuple(entry.nodes)
                if mask & DELETE_SELF:
                    self.forget(key)
                yield nodes, mask, "" if name == ITSELF else name.decode(*NAMES)
            elif not key:
                yield self.lost()
            elif mask & DELETE_SELF:
                self._stale.discard(key)
        if len(self._stale) > STALE:
            nodes, *_ = self.lost()
            self._begin_anew()
            yield nodes, IGNORED, ""

    def _begin_anew(self) -> None:
        """Remove all marks. The event that is reported then leads to new marks where they are needed."""
        cast("FanotifyGroup", self._group).flush()
        self._stale.clear()
        for key in tuple(self.entries):
            self.forget(key)

    def close(self) -> None:
        """Close the group, if it is open."""
        if self._group is not None:
            self.closing(self._group.fd)
            self._group.close()
            self._group = None
        self.entries.clear()
        self._stale.clear()
