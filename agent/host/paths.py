"""Events of paths: one inotify descriptor for all resources, in the event loop, without a thread and without a delay.

One kernel watch serves all files of a directory, and a file replaced by a rename is not lost. Parents that are missing, are moved
away, replaced or links are followed (`pathtree.py`).

When the kernel's queue overflows, everything is looked at again and every watcher gets an event. Where the kernel refuses a
watch (its limits are used up, the directory may not be read), the entries of that directory are compared every second,
`watch-polling` in health says so, and inotify is tried again each time.

In directories that an untrusted user may write, a recursive watch is bounded (`pathtree.py`). What is beyond the bound is not
watched, `watch-bounded` in health says so, and the bound is tried again from time to time. The agent's own recheck looks at all.

A file system that is mounted over a watched directory, unmounted, or remounted is an event of all that it hides or shows.

What is written to a file through another of its hard links, or through memory that it is mapped to, is no event of its directory. The status of
each watched file is compared from time to time (`sweep.py`); not of the files below a directory that is watched recursively.

Not seen: changes made by other hosts on a network file system, but by that comparison; what is written through memory as long as the file system
leaves the times of the file as they are; anything in a file system that an untrusted user has mounted; what lies behind a link that such a user
could have placed and that `holdfast.resources.paths` does not follow.
"""

from __future__ import annotations

import asyncio
import errno
import stat
from collections.abc import AsyncGenerator, Callable, Container, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any

from holdfast.agent.health import Health
from holdfast.agent.host.inotify import APPEARED, ISDIR, MODIFY, OVERFLOW, STRUCTURE, Kernel
from holdfast.agent.host.mounts import Mounts
from holdfast.agent.host.pathnodes import Node, Subscription, seal, status
from holdfast.agent.host.pathtree import Tree
from holdfast.agent.host.sweep import PERIOD as SWEEP
from holdfast.agent.host.sweep import Sweep
from holdfast.resources.watches import Told

SETTLE = 0.02
"""Seconds that a file being written is left alone when its writer does not close it: a repair in mid-write would only show half of
what was written, and do the work twice."""
PERIOD = 1.0
"""Seconds between two looks at what the kernel does not watch."""
REMOUNT = 0.2
"""Seconds from a change of the mount table to a look at it: it is long, and changes often, where containers come and go."""
AGAIN = 60
"""Periods after which a recursive watch that has reached a bound is tried again."""
BUSY = 0.05
"""Seconds that a look at what was replaced may take until it counts as a long one."""
REST = 4.0
"""After a long look, so many times its duration belong to others; events are collected meanwhile."""
HEALTH = "watch-polling"
BOUNDED = "watch-bounded"


class PathWatcher:
    """All path watches of the process. Made, used and closed in one event loop."""

    def __init__(self, health: Health | None = None, *, period: float = PERIOD, sweep: float = SWEEP) -> None:
        self._health, self._period = health, period
        self._kernel = Kernel(self._listen, self._unlisten)
        self._tree = Tree(self._kernel)
        self._sweep = Sweep(self._watched_files, self._swept, sweep)
        self._mounts: Mounts | None = None
        self._remounting: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._clock: Callable[[], float] = lambda: 0.0
        self._settling: asyncio.TimerHandle | None = None
        self._writing: dict[Node, float] = {}
        """Files being written -> when they are told about even if they are not closed."""
        self._replaced: dict[Node, None] = {}
        """Where another thing may be, by the events of one buffer."""
        self._stirred: dict[Node, None] = {}
        """Where something has happened that recursive watches from there upward hear of."""
        self._again: asyncio.TimerHandle | None = None
        self._resting: asyncio.TimerHandle | None = None
        self._told = False
        self._left = self._leave
        """One for all subscriptions: each look at a method makes an object."""

    # -- for users ---------------------------------------------------------------------------------------------

    def watch(self, *paths: str, recursive: bool = False) -> Told:
        """Events of these absolute paths: the first item once armed, later ones "may have changed", coalesced.

        A directory's entries count only with `recursive`, and then all below it do. Raises `ValueError` for a relative path, when it is armed.
        """
        return _Watch(self, paths, recursive=recursive)

    def subscribe(self, paths: Iterable[str], callback: Callable[[], None], *, recursive: bool = False) -> Subscription:
        """The same with a callback, which must neither block nor raise; armed on return."""
        subscription = Subscription(callback, self._left, deep=recursive)
        self._tree.add(subscription, paths)
        self._sweep.begin()
        self._review()
        return subscription

    @property
    def kernel_watches(self) -> int:
        """Watches held in the kernel."""
        return len(self._kernel)

    def close(self) -> None:
        """Give back everything; watches get no more events."""
        self._sweep.close()
        self._kernel.close()
        self._tree = Tree(self._kernel)
        for timer in (self._timer, self._settling, self._remounting, self._again, self._resting):
            if timer is not None:
                timer.cancel()
        self._timer = self._settling = self._remounting = self._again = self._resting = None
        for waiting in (self._writing, self._replaced, self._stirred):
            waiting.clear()

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
            self._replaced.update(dict.fromkeys(self._tree.showing(path)))
        self._flush()

    def _drain(self) -> None:
        """Handle one buffer of events; the loop calls again when there are more."""
        for nodes, mask, name in self._kernel.read():
            if mask & OVERFLOW:
                self._replaced[self._tree.root] = None
            for node in nodes:
                self._event(node, mask, name)
        self._flush()

    def _event(self, node: Node, mask: int, name: str) -> None:
        """One event of a directory (no name) or of an entry of it."""
        child = node.children.get(name) if name else node
        if child is None:
            if node.covered:
                self._beneath(node, mask, name)
        elif mask & STRUCTURE:
            self._replaced[child] = None
        elif mask & MODIFY:
            self._writing.setdefault(child, self._clock() + SETTLE)
            if self._settling is None:
                self._settling = asyncio.get_running_loop().call_later(SETTLE, self._settle)
        else:
            self._touched(child)

    def _beneath(self, node: Node, mask: int, name: str) -> None:
        """An event of something that only a recursive watch is interested in."""
        child = self._tree.spawn(node, name) if mask & APPEARED and mask & ISDIR else None
        if child is not None:
            self._replaced[child] = None
        else:
            self._stirred[node] = None

    def _settle(self) -> None:
        """Tell about files whose writer has not closed them in time."""
        self._settling, now = None, self._clock()
        for node in [node for node, due in self._writing.items() if due <= now]:
            self._touched(node)
        if self._writing:
            self._settling = asyncio.get_running_loop().call_at(min(self._writing.values()), self._settle)
        self._flush()

    def _touched(self, node: Node) -> None:
        """Content or metadata may have changed; it is still the same thing."""
        self._writing.pop(node, None)
        if node.subscribers:
            node.seal = seal(status(node.path))
        for subscription in tuple(node.subscribers):
            subscription.callback()
        if node.parent is not None and node.parent.covered:
            self._stirred[node.parent] = None

    def _watched_files(self) -> list[Node] | None:
        return self._tree.swept()  # of the present tree: `close` makes another

    def _swept(self, files: Sequence[tuple[Node, int]], directories: Sequence[Node]) -> None:
        """The status of files, or of such in these directories, is not as it was known to be. What the kernel tells of a file as well is told once."""
        if files or directories:
            self._drain()
            self._replaced.update(
                dict.fromkeys(node for node, known in files if node.seal == known and node not in self._writing)
            )
            self._stirred.update(dict.fromkeys(directories))
            self._flush()

    def _flush(self) -> None:
        """Look at what was replaced, and tell: once for all events that came together, however often a thing was replaced."""
        if self._resting is not None:
            return
        began = self._clock()
        self._tree.begin()
        if self._replaced or self._stirred or self._tree.uncovered:
            self._tell_of_others()
        self._review()
        spent = self._clock() - began
        if spent > BUSY:
            self._resting = asyncio.get_running_loop().call_later(spent * REST, self._rested)

    def _tell_of_others(self) -> None:
        """Look at what was replaced, and tell of that and of what recursive watches hear of."""
        replaced, self._replaced = self._replaced, {}
        replaced.update(dict.fromkeys(self._tree.uncovered))
        self._tree.uncovered.clear()
        if replaced:
            self._changed([node for node in replaced if self._tree.has(node) and not _below_one_of(replaced, node)])
        stirred, self._stirred = self._stirred, {}
        passed: set[Node] = set()
        for node in stirred:
            for step in node.upward():
                if step in passed:
                    break
                passed.add(step)
                for subscription in tuple(step.deep):
                    subscription.callback()

    def _rested(self) -> None:
        """Others have had their turn after a long look."""
        self._resting = None
        self._flush()

    def _changed(self, tops: list[Node]) -> None:
        """Another thing, or nothing, may be there now, and so at every path below it."""
        for node in tops:
            self._writing.pop(node, None)
            self._tree.look(node)
        told = {subscription for node in tops for each in node.below() for subscription in each.subscribers}
        for link in {link for subscription in told for link in subscription.links}:
            self._tree.look(link)
        self._tree.resolve()
        for subscription in told:
            subscription.callback()
        if self._tree.deep:
            for node in tops:
                if node.parent is not None:
                    self._stirred[node.parent] = None
                self._tree.prune(node, below=True)

    # -- polling -----------------------------------------------------------------------------------------------

    def _poll(self) -> None:
        """Try inotify again where it was refused, and find what has changed meanwhile."""
        self._timer = None
        self._tree.begin()
        self._tree.begin_round()
        for node, seen in list(self._tree.polled.items()):
            if node not in self._tree.polled:
                continue
            self._tree.attach(node)
            now = self._tree.entries(node)
            if node in self._tree.refusals:
                self._tree.polled[node] = now
            else:
                self._tree.polled.pop(node, None)
            for name in now.keys() | seen.keys():
                found = now.get(name)
                if found != seen.get(name):
                    self._event(node, APPEARED | ISDIR if found and stat.S_ISDIR(found[0]) else APPEARED, name)
        self._flush()

    def _try_bounded(self) -> None:
        """Look whether the recursive watches that have reached a bound now fit into it."""
        self._again = None
        self._tree.begin()
        before, self._tree.bounded = self._tree.bounded, {}
        for node in before:
            self._tree.look(node)
        self._tree.resolve()
        for node in before.keys() - self._tree.bounded.keys():  # what has happened in the rest is not known
            self._stirred[node] = None
        if self._timer is not None:
            self._timer.cancel()
        self._poll()  # that has a bound of its own

    def _review(self) -> None:
        """Poll while there is something to poll, and say in health what is not watched, and why."""
        if self._tree.polled and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._period, self._poll)
        if self._tree.bounded and self._again is None:
            self._again = asyncio.get_running_loop().call_later(self._period * AGAIN, self._try_bounded)
        if self._health is None or not (self._tree.refusals or self._tree.bounded or self._told):
            return
        self._told = False
        for code, text in ((HEALTH, self._refused()), (BOUNDED, self._cut())):
            if text:
                self._told = True
                self._health.set(code, text)
            else:
                self._health.clear(code)

    def _refused(self) -> str:
        for node, error in self._tree.refusals.items():
            advice = "; raise fs.inotify.max_user_watches" if error.errno == errno.ENOSPC else ""
            where = f"{_printable(node.path)}: {error.strerror}"
            return f"cannot watch {len(self._tree.refusals)} directories ({where}){advice}; looking every {self._period:g} s"
        return ""

    def _cut(self) -> str:
        for node, bound in self._tree.bounded.items():
            more = f" and {len(self._tree.bounded) - 1} other directories" if len(self._tree.bounded) > 1 else ""
            return (
                f"cannot watch all that is below {_printable(node.path)}{more}: other users may write there, and it has {bound}; "
                "what is not watched is only seen by the next recheck"
            )
        return ""


def _below_one_of(nodes: Container[Node], node: Node) -> bool:
    return any(step in nodes for step in node.upward() if step is not node)


def _printable(path: str) -> str:
    """A path for a message: a user may have chosen its name, which may be no text or move the cursor."""
    return path if path.isprintable() else repr(path)


class _Watch(Told):
    """A watch of paths, not armed before somebody waits for it or listens to it."""

    def __init__(self, watcher: PathWatcher, paths: Sequence[str], *, recursive: bool) -> None:
        self._watcher, self._paths, self._recursive = watcher, paths, recursive
        self._events = self._wait()

    def listen(self, callback: Callable[[], None]) -> Subscription:
        """Armed on return."""
        return self._watcher.subscribe(self._paths, callback, recursive=self._recursive)

    def asend(self, value: None, /) -> Coroutine[Any, Any, None]:
        """The next event."""
        return self._events.asend(value)

    def athrow(self, *error: Any) -> Coroutine[Any, Any, None]:
        """Have this raised where it waits."""
        return self._events.athrow(*error)

    def aclose(self) -> Coroutine[Any, Any, None]:
        """End it."""
        return self._events.aclose()

    async def _wait(self) -> AsyncGenerator[None, None]:
        rang = asyncio.Event()
        subscription = self.listen(rang.set)
        try:
            yield None
            while True:
                await rang.wait()
                rang.clear()
                yield None
        finally:
            subscription.close()
