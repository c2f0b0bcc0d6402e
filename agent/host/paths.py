"""Events of paths: one inotify descriptor for all resources, in the event loop, without a thread and without a delay.

One kernel watch serves all files of a directory, and a file replaced by a rename is not lost. Parents that are missing, are moved
away, replaced or links are followed (`pathtree.py`).

When the kernel's queue overflows, everything is looked at again and every watcher gets an event. Where the kernel refuses a
watch (its limits are used up, the directory may not be read), the entries of that directory are compared every second,
`watch-polling` in health says so, and inotify is tried again each time.

A file system that is mounted over a watched directory, unmounted, or remounted is an event of all that it hides or shows.

Not seen: changes made by other hosts on a network file system; what is written to a file through another of its hard links,
or through memory that it is mapped to.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress

from holdfast.agent.health import Health
from holdfast.agent.host.inotify import APPEARED, ISDIR, MODIFY, OVERFLOW, STRUCTURE, Kernel
from holdfast.agent.host.mounts import Mounts
from holdfast.agent.host.pathnodes import Node, Subscription, entries
from holdfast.agent.host.pathtree import Tree

SETTLE = 0.02
"""Seconds that a file being written is left alone when its writer does not close it: a repair in mid-write would only show half of
what was written, and do the work twice."""
PERIOD = 1.0
"""Seconds between two looks at what the kernel does not watch."""
REMOUNT = 0.2
"""Seconds from a change of the mount table to a look at it: it is long, and changes often, where containers come and go."""
HEALTH = "watch-polling"


class PathWatcher:
    """All path watches of the process. Made, used and closed in one event loop."""

    def __init__(self, health: Health | None = None, *, period: float = PERIOD) -> None:
        self._health, self._period = health, period
        self._kernel = Kernel(self._listen, self._unlisten)
        self._tree = Tree(self._kernel)
        self._mounts: Mounts | None = None
        self._remounting: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._clock: Callable[[], float] = lambda: 0.0
        self._settling: asyncio.TimerHandle | None = None
        self._writing: dict[Node, float] = {}
        """Files being written -> when they are told about even if they are not closed."""
        self._told = False

    # -- for users ---------------------------------------------------------------------------------------------

    async def watch(self, *paths: str, recursive: bool = False) -> AsyncIterator[None]:
        """Events of these absolute paths: the first item once armed, later ones "may have changed", coalesced.

        A directory's entries count only with `recursive`, and then all below it do. Raises `ValueError` for a relative path.
        """
        bell = _Bell()
        subscription = self.subscribe(paths, bell.ring, recursive=recursive)
        try:
            yield None
            while True:
                await bell.rung()
                yield None
        finally:
            subscription.close()

    def subscribe(self, paths: Iterable[str], callback: Callable[[], None], *, recursive: bool = False) -> Subscription:
        """The same with a callback, which must neither block nor raise; armed on return."""
        subscription = Subscription(callback, self._leave, deep=recursive)
        self._tree.add(subscription, paths)
        self._review()
        return subscription

    @property
    def kernel_watches(self) -> int:
        """Watches held in the kernel."""
        return len(self._kernel)

    def close(self) -> None:
        """Give back everything; watches get no more events."""
        self._kernel.close()
        self._tree = Tree(self._kernel)
        for timer in (self._timer, self._settling, self._remounting):
            if timer is not None:
                timer.cancel()
        self._timer = self._settling = self._remounting = None
        self._writing.clear()

    def _leave(self, subscription: Subscription) -> None:
        self._tree.remove(subscription)
        self._review()

    # -- events ------------------------------------------------------------------------------------------------

    def _listen(self, descriptor: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = self._loop.time
        self._loop.add_reader(descriptor, self._drain)
        with suppress(OSError):  # no /proc: nothing tells of mounts
            self._mounts = Mounts()
            self._loop.add_reader(self._mounts.fileno(), self._remounted, self._loop)

    def _unlisten(self, descriptor: int) -> None:
        open_loop = self._loop if self._loop is not None and not self._loop.is_closed() else None
        if open_loop:
            open_loop.remove_reader(descriptor)
        if self._mounts:
            if open_loop:
                open_loop.remove_reader(self._mounts.fileno())
            self._mounts.close()
            self._mounts = None

    def _remounted(self, loop: asyncio.AbstractEventLoop) -> None:
        """The mount table has changed. Its descriptor says so once, so it is not taken out of the loop meanwhile."""
        if self._remounting is None:
            self._remounting = loop.call_later(REMOUNT, self._look_at_mounts)

    def _look_at_mounts(self) -> None:
        """Another thing may be where something was mounted or unmounted, and below."""
        self._remounting = None
        for path in self._mounts.changed() if self._mounts else ():
            node = self._tree.find(path)
            if node is not None:
                self._changed(node)

    def _drain(self) -> None:
        """Handle one buffer of events; the loop calls again when there are more."""
        for nodes, mask, name in self._kernel.read():
            if mask & OVERFLOW:
                self._changed(self._tree.root)
            for node in nodes:
                self._event(node, mask, name)

    def _event(self, node: Node, mask: int, name: str) -> None:
        """One event of a directory (no name) or of an entry of it."""
        child = node.children.get(name) if name else node
        if child is None:
            if self._tree.deep and node.covered():
                self._beneath(node, mask, name)
        elif mask & STRUCTURE:
            self._changed(child)
        elif mask & MODIFY:
            self._writing.setdefault(child, self._clock() + SETTLE)
            if self._settling is None:
                self._settling = asyncio.get_running_loop().call_later(SETTLE, self._settle)
        else:
            self._touched(child)

    def _beneath(self, node: Node, mask: int, name: str) -> None:
        """An event of something that only a recursive watch is interested in."""
        if mask & APPEARED and mask & ISDIR:
            child = node.children[name] = Node(name, node)
            self._changed(child)
        else:
            self._fire_deep(node)

    def _settle(self) -> None:
        """Tell about files whose writer has not closed them in time."""
        self._settling, now = None, self._clock()
        for node in [node for node, due in self._writing.items() if due <= now]:
            self._touched(node)
        if self._writing:
            self._settling = asyncio.get_running_loop().call_at(min(self._writing.values()), self._settle)

    def _touched(self, node: Node) -> None:
        """Content or metadata may have changed; it is still the same thing."""
        self._writing.pop(node, None)
        for subscription in tuple(node.subscribers):
            subscription.callback()
        if self._tree.deep and node.parent is not None:
            self._fire_deep(node.parent)

    def _changed(self, node: Node) -> None:
        """Another thing, or nothing, may be there now, and so at every path below it."""
        self._writing.pop(node, None)
        self._tree.look(node)
        told = {subscription for each in node.below() for subscription in each.subscribers}
        for link in {link for subscription in told for link in subscription.links}:
            self._tree.look(link)
        self._tree.resolve()
        for subscription in told:
            subscription.callback()
        if self._tree.deep:
            if node.parent is not None:
                self._fire_deep(node.parent)
            self._tree.prune(node, below=True)
        self._review()

    def _fire_deep(self, node: Node) -> None:
        for step in node.upward():
            for subscription in tuple(step.deep):
                subscription.callback()

    # -- polling -----------------------------------------------------------------------------------------------

    def _poll(self) -> None:
        """Try inotify again where it was refused, and find what has changed meanwhile."""
        self._timer = None
        for node, seen in list(self._tree.polled.items()):
            if node not in self._tree.polled:
                continue
            self._tree.attach(node)
            now = entries(node)
            if node in self._tree.refusals:
                self._tree.polled[node] = now
            else:
                self._tree.polled.pop(node, None)
            for name in now.keys() | seen.keys():
                if now.get(name) != seen.get(name):
                    self._event(node, APPEARED | ISDIR, name)
        self._review()

    def _review(self) -> None:
        """Poll while there is something to poll, and say in health how much, and why."""
        if self._tree.polled and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._period, self._poll)
        if self._health is None or not (self._tree.refusals or self._told):
            return
        self._told = bool(self._tree.refusals)
        if not self._told:
            self._health.clear(HEALTH)
            return
        node, error = next(iter(self._tree.refusals.items()))
        advice = "; raise fs.inotify.max_user_watches" if error.errno == errno.ENOSPC else ""
        text = (
            f"cannot watch {len(self._tree.refusals)} directories ({node.path}: {error.strerror}){advice}; looking every {self._period:g} s"
        )
        self._health.set(HEALTH, text)


class _Bell:
    """An `asyncio.Event` for one who waits, in a tenth of the memory: there is one for each path that is watched."""

    __slots__ = ("_rang", "_waiter")

    def __init__(self) -> None:
        self._rang = False
        self._waiter: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Something has happened."""
        self._rang = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def rung(self) -> None:
        """Wait until something has happened since the last time."""
        if not self._rang:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        self._rang = False
