"""Watches of directories by inotify: the process's one inotify descriptor for the paths of resources.

asyncinotify makes the descriptor and its watches.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Callable, Hashable, Iterator
from typing import cast

from asyncinotify import Inotify, Mask, Watch

from holdfast.agent.host.kernel_watches import FILE, IGNORED, NAMES, OVERFLOW, Event, KernelWatches

HOW = Mask.EXCL_UNLINK | Mask.MASK_ADD
BUFFER = 1 << 13
"""Bytes that one read of the descriptor takes: about 250 events, which are handled in some milliseconds."""
HEADER = struct.Struct("iIII")
"""The kernel's `struct inotify_event`: watch descriptor, mask, cookie, length of the name that follows."""


class Descriptor(Inotify):
    """asyncinotify's descriptor, read without its event objects, which cost more than handling the event."""

    def __init__(self) -> None:
        super().__init__()
        os.set_blocking(self.fd, False)

    def remove(self, wd: int) -> None:
        """Remove a watch. Raises `OSError` or `KeyError` if the kernel has already removed it."""
        self.rm_watch(self._watches[wd])

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


class InotifyWatches(KernelWatches):
    """The watches of one inotify descriptor."""

    def __init__(self, opened: Callable[[int], None], closing: Callable[[int], None]) -> None:
        super().__init__(opened, closing)
        self._inotify: Descriptor | None = None

    def add(self, path: str, mask: int, *, follow: bool) -> Hashable:
        """Watch the directory at a path, or with the mask `FILE` a file; return the watch descriptor.

        Raises `OSError`.
        """
        if self._inotify is None:
            self._inotify = Descriptor()
            self.opened(self._inotify.fd)
        how = HOW | Mask(mask) | (Mask(0) if mask == FILE else Mask.ONLYDIR)
        watch: Watch = self._inotify.add_watch(path, how if follow else how | Mask.DONT_FOLLOW)
        return watch.wd

    def remove(self, key: Hashable, path: str) -> bool:  # noqa: ARG002 - the key is enough
        """Make the kernel remove a watch; return whether it did so."""
        if self._inotify is not None:
            with contextlib.suppress(OSError, KeyError):  # the kernel has removed it before: the directory is gone
                self._inotify.remove(cast("int", key))
                return True
        return False

    def read(self) -> Iterator[Event]:
        """Yield pending events, one buffer of them at most. Never waits."""
        if self._inotify is None:
            return
        for wd, mask, name in self._inotify.events():
            entry = self.entries.get(wd)
            if entry is not None:
                nodes = tuple(entry.nodes)
                if mask & IGNORED:
                    self.forget(wd)
                yield nodes, mask, name
            elif mask & OVERFLOW:
                yield self.lost()

    def close(self) -> None:
        """Close the descriptor, if it is open."""
        if self._inotify is not None:
            self.closing(self._inotify.fd)
            self._inotify.close()
            self._inotify = None
        self.entries.clear()
