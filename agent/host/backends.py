"""The watches of the kernel for paths: inotify and fanotify, and which of the two watches a directory."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from holdfast.agent.host.fanotify_watches import FanotifyWatches, Unfit
from holdfast.agent.host.inotify import InotifyWatches
from holdfast.agent.host.kernel_watches import ABSENT, END, FILE, FULL, STEP, Event, KernelWatches
from holdfast.agent.host.path_nodes import KernelWatch, PathNode, held

if TYPE_CHECKING:
    from holdfast.agent.host.namer import Namer

Choice = Literal["auto", "inotify", "fanotify"]
"""Which backends watch. `auto`: inotify, and fanotify where inotify refuses; `inotify`: inotify alone; `fanotify`:
fanotify, and inotify where fanotify refuses."""


class _Order(NamedTuple):
    """The backends for some directories, in the order in which they are tried."""

    backends: tuple[KernelWatches, ...]
    inotify: InotifyWatches

    @classmethod
    def of(cls, opened: Callable[[int], None], closing: Callable[[int], None], choice: Choice) -> _Order:
        """Return new backends."""
        inotify, fanotify = InotifyWatches(opened, closing), FanotifyWatches(opened, closing)
        orders = {"auto": (inotify, fanotify), "inotify": (inotify,), "fanotify": (fanotify, inotify)}
        return cls(orders[choice], inotify)

    def added(self, path: str, mask: int, *, follow: bool, mounted: bool) -> tuple[KernelWatches, Hashable]:
        """Return the first backend that watches a directory, and the key of its watch. Raises `OSError`.

        A mounted file is watched by inotify: fanotify names the directory to which the file belongs.
        """
        refusals: list[OSError] = []
        for backend in self.backends:
            try:
                return backend, backend.add(path, mask, follow=follow)
            except OSError as error:
                if mounted and error.errno == errno.ENOTDIR:
                    return self.inotify, self.inotify.add(path, FILE, follow=follow)
                if error.errno in ABSENT:
                    raise
                refusals.append(error)
        raise next((each for each in refusals if type(each) is not Unfit), refusals[0])


class Backends:
    """All watches of the kernel for the paths of resources. Each directory is marked for the namer as well.

    The nodes of a tree share these watches, and the last node of a watch removes it. Directories that untrusted users
    may write have backends of their own: a user who causes a flood of events makes only their queues overflow.
    """

    def __init__(
        self,
        opened: Callable[[int], None],
        closing: Callable[[int], None],
        namer: Namer | None = None,
        choice: Choice = "auto",
    ) -> None:
        self._trusted, self._untrusted = (_Order.of(opened, closing, choice) for _ in range(2))
        self._namer = namer

    def __len__(self) -> int:
        """Return the number of watches."""
        return sum(len(backend.entries) for backend in (*self._trusted.backends, *self._untrusted.backends))

    def attach(self, node: PathNode, *, follow: bool, mounted: bool) -> None:
        """Watch the directory that is at the node's path now or, if it is `mounted`, the file.

        Raises `OSError`; the node then has no watch.
        """
        mask = FULL if node.full else STEP if node.children or node.parent is None else END
        try:
            with held(node.path, follow=follow) as path:
                itself = follow or path != node.path
                order = self._untrusted if node.user_writable else self._trusted
                self._take(node, *order.added(path, mask, follow=itself, mounted=mounted))
                if self._namer is not None and node.kernel is not None:
                    wanted = FULL if any(each.full for each in node.kernel.nodes) else mask
                    self._namer.mark(path, wanted, follow=itself)
        except OSError:
            self.detach(node)
            raise

    def _take(self, node: PathNode, backend: KernelWatches, key: Hashable) -> None:
        """Assign the node to this watch."""
        entry = backend.entries.get(key)
        if entry is None:
            entry = backend.entries[key] = KernelWatch(key, backend)
        if entry is not node.kernel:
            self.detach(node)
            entry.nodes.add(node)
            node.kernel = entry

    def detach(self, node: PathNode) -> None:
        """Remove the node's watch, if it has one."""
        entry, node.kernel = node.kernel, None
        if entry is None:
            return
        entry.nodes.discard(node)
        if not entry.nodes and entry.backend.entries.pop(entry.key, None) is entry:
            with contextlib.suppress(OSError), held(node.path, follow=True) as path:
                if entry.backend.remove(entry.key, path) and self._namer is not None:
                    self._namer.unmark(path)

    def read(self) -> Iterator[Event]:
        """Yield pending events, one buffer of each backend at most. Never waits."""
        for backend in (*self._trusted.backends, *self._untrusted.backends):
            yield from backend.read()

    def close(self) -> None:
        """Close all backends."""
        for backend in (*self._trusted.backends, *self._untrusted.backends):
            backend.close()
