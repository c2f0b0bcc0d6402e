"""Events of paths: two descriptors for all resources, in the event loop, without a thread and without a delay.

One kernel watch serves all files of a directory. A file that is replaced by a rename stays watched. Parents may be
missing, moved away, replaced, or links; they are followed (`path_tree.py`). The kernel watches by inotify or by
fanotify (`backends.py`).

Directories that untrusted users may write have a descriptor of their own (`Backends`), whose events are handled in
parts, with pauses: so a flood of events that a user causes neither displaces nor delays events of other directories.
When the kernel's queue overflows, all directories of this descriptor are checked again, and every watch gets an event.
A change that concerns many paths (an overflow, a mount, a directory or a link that is replaced) is handled in parts.

If the kernel refuses a watch (its limits are reached, the directory may not be read), the entries of that directory are
compared every second, health reports `watch-polling`, and the kernel is asked again each time.

In directories that an untrusted user may write, a recursive watch is bounded (`watch_bounds.py`). Directories beyond
the bound are not watched, health reports `watch-bounded`, and the watch is tried again from time to time. The agent's
own recheck covers them. Large trees that appear are armed in parts, so that other events are handled in between; the
watch reports an event after each part.

A `Namer`, if there is one, knows which process has changed a watched path (`Subscription.changed_by`).

Mounting, unmounting or remounting a file system over a watched directory is an event of all that it hides or uncovers.
A file that is a mount point itself is watched alone: the watch of its directory reports no change of its content.

A write through another hard link of a file, or through a memory map, is not an event of the file's directory. So the
status of each watched file is compared from time to time (`sweep.py`), except for files below a recursively watched
directory.

Some changes are not detected: those by other hosts on a network file system, except by that comparison; writes through
a memory map while the file system does not update the file's times; changes in a file system that an untrusted user has
mounted; changes of the target of a link that such a user could have placed and that `holdfast.resources.paths` does not
follow.
"""

from __future__ import annotations

import asyncio
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from holdfast.agent.health import Health
from holdfast.agent.host.backends import Backends, Choice
from holdfast.agent.host.kernel_watches import APPEARED, ATTRIB, CLOSE_WRITE, ISDIR, MODIFY, OVERFLOW, STRUCTURE
from holdfast.agent.host.mounts import Mounts
from holdfast.agent.host.namer import places
from holdfast.agent.host.overflows import Overflows
from holdfast.agent.host.path_nodes import PathNode, Subscription, seal, status
from holdfast.agent.host.path_tree import PathTree
from holdfast.agent.host.path_walks import Visited, tops
from holdfast.agent.host.path_watch import PathWatch
from holdfast.agent.host.sweep import PERIOD as SWEEP
from holdfast.agent.host.sweep import Sweep
from holdfast.agent.host.watch_health import WatchHealth

if TYPE_CHECKING:
    from holdfast.agent.host.namer import Namer
    from holdfast.resources.author import Author
    from holdfast.resources.watches import CallbackWatch

SETTLE = 0.02
"""Seconds to wait for the writer of a file to close it. A repair during the write would show half of the content in its
diff, and would have to be repeated."""
PERIOD = 1.0
"""Seconds between two checks of paths that the kernel does not watch."""
MOUNTS_REST = 20.0
"""Between two reads of the mount table, the watcher waits for this multiple of the time that the last read took. With
containers, the table is long and changes often; without, a new mount is seen at once."""
AGAIN = 60
"""Periods after which a bounded recursive watch is tried again."""
BUSY = 0.05
"""Seconds above which a check of replaced paths counts as long."""
REST = 4.0
"""After a long check, the watcher pauses for this multiple of its duration and collects events meanwhile."""
CALLBACKS = 1000
"""Most callbacks of subscriptions that are called in one part."""
WITHIN = 256
"""Most events within recursively watched directories that are remembered."""


class PathWatcher:
    """All path watches of the process. Create, use and close it in one event loop."""

    def __init__(
        self,
        health: Health | None = None,
        namer: Namer | None = None,
        *,
        backend: Choice = "auto",
        period: float = PERIOD,
        sweep: float = SWEEP,
    ) -> None:
        self._health, self._period = WatchHealth(health, period), period
        self._namer = namer
        self._kernel = Backends(self._listen, self._unlisten, namer, backend)
        self._tree = PathTree(self._kernel)
        self._sweep = Sweep(self._nodes, self._swept, sweep)
        self._mounts: Mounts | None = None
        self._remounting: asyncio.TimerHandle | None = None
        self._next_mounts = 0.0  # loop time before which the mount table is not read again
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._clock: Callable[[], float] = lambda: 0.0
        self._settling: asyncio.TimerHandle | None = None
        self._writing: dict[PathNode, float] = {}
        """Files being written -> loop time at which their event is sent even if they are not closed."""
        self._replaced: dict[PathNode, None] = {}
        """Nodes that may lead to another file now, according to the events of one buffer."""
        self._recursive: dict[PathNode, None] = {}
        """Nodes with events that concern recursive watches from there upward."""
        self._again: asyncio.TimerHandle | None = None
        self._resting: asyncio.TimerHandle | None = None
        self._told: dict[Subscription, None] = {}  # whose callback is to be called
        self.overflows = Overflows()
        self._within: deque[tuple[PathNode, str]] = deque(maxlen=WITHIN)
        """The last events within recursively watched directories, for `who`."""

    # -- for users ---------------------------------------------------------------------------------------------

    def watch(self, *paths: str, recursive: bool = False) -> CallbackWatch:
        """Watch these absolute paths: the first item once armed, later ones "may have changed", coalesced.

        Entries of a directory count only with `recursive`, and then everything below counts. Raises `ValueError` for a
        relative path when the watch is armed.
        """
        return PathWatch(self, paths, recursive=recursive)

    def subscribe(self, paths: Iterable[str], callback: Callable[[], None], *, recursive: bool = False) -> Subscription:
        """Watch with a callback, which must neither block nor raise. The watch is armed on return."""
        subscription = Subscription(callback, self, deep=recursive)
        self._tree.add(subscription, paths)
        self._sweep.begin()
        self._review()
        return subscription

    @property
    def kernel_watches(self) -> int:
        """Number of watches in the kernel; the tests compare it with the marks that the kernel reports."""
        return len(self._kernel)

    def close(self) -> None:
        """Close everything; watches receive no more events."""
        self._sweep.close()
        self._kernel.close()
        if self._namer is not None:
            self._namer.close()
        self._tree = PathTree(self._kernel)
        for timer in (self._timer, self._settling, self._remounting, self._again, self._resting):
            if timer is not None:
                timer.cancel()
        self._timer = self._settling = self._remounting = self._again = self._resting = None
        for waiting in (self._writing, self._replaced, self._recursive, self._told):
            waiting.clear()

    def leave(self, subscription: Subscription) -> None:
        """End a subscription: see `Subscription.close`."""
        self._tree.remove(subscription)
        self._told.pop(subscription, None)
        self._review()

    async def who(self, subscription: Subscription, since: float) -> Author | None:
        """Return who has changed what a subscription watches: see `Subscription.changed_by`."""
        return None if self._namer is None else await self._namer.who(places(subscription, self._within), since)

    # -- events ------------------------------------------------------------------------------------------------

    def _listen(self, descriptor: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = self._loop.time
        self._loop.add_reader(descriptor, self._readable)
        if self._mounts is None:
            with suppress(OSError):  # without /proc, mounts are not reported
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
        """Handle a change of the mount table. The descriptor reports it once, so it can stay in the loop meanwhile."""
        if self._remounting is None:
            self._remounting = loop.call_at(max(loop.time(), self._next_mounts), self._look_at_mounts)

    def _look_at_mounts(self) -> None:
        """Check the nodes where something was mounted or unmounted, and all below."""
        self._remounting, began = None, self._clock()
        if began < self._next_mounts:  # the last check took longer than was known when this one was scheduled
            self._remounted(asyncio.get_running_loop())
            return
        for path in self._mounts.replaced() if self._mounts else ():
            self._replaced.update(dict.fromkeys(self._tree.showing(path)))
        self._flush()
        ended = self._clock()
        self._next_mounts = ended + MOUNTS_REST * (ended - began)

    def _readable(self) -> None:
        """Handle one buffer of events; the loop calls again if there are more."""
        for nodes, mask, name in self._kernel.read():
            if mask & OVERFLOW:
                self.overflows.count(len(nodes))
                self._tree.postponed.update(dict.fromkeys(nodes))  # the nodes are checked in parts
                continue
            for node in nodes:
                self._event(node, mask, name)
        self._await_writers()
        if self._unreported:
            self._flush()

    def _may_lead_elsewhere(self, node: PathNode, directory: PathNode) -> None:
        """Check a node after an event of this directory: in parts, if untrusted users may write the directory."""
        (self._tree.postponed if directory.user_writable else self._replaced)[node] = None

    def _event(self, node: PathNode, mask: int, name: str) -> None:
        """Handle one event of a directory (no name) or of its entry `name`."""
        child = node.children.get(name) if name else node
        if self._namer is not None and node.covered:
            self._within.append((node, name))
        if child is None:
            if node.covered:
                self._beneath(node, mask, name)
        elif mask & STRUCTURE:
            self._may_lead_elsewhere(child, node)
        elif mask & ATTRIB and self._tree.changes_hands(child):
            self._replaced[child] = None
        elif mask & (MODIFY | CLOSE_WRITE) == MODIFY:
            self._writing.setdefault(child, self._clock() + SETTLE)
        else:
            self._touched(child)

    def _beneath(self, node: PathNode, mask: int, name: str) -> None:
        """Handle an event that concerns only recursive watches."""
        child = self._tree.bounds.grow(node, name) if mask & APPEARED and mask & ISDIR else None
        if child is not None:
            self._may_lead_elsewhere(child, node)
        else:
            self._recursive[node] = None

    def _await_writers(self) -> None:
        """Set the timer for the files being written; most are closed within the buffer that reports the write."""
        if self._writing and self._settling is None:
            self._settling = asyncio.get_running_loop().call_at(min(self._writing.values()), self._settle)

    def _settle(self) -> None:
        """Send events of files whose writer has not closed them in time."""
        self._settling, now = None, self._clock()
        for node in [node for node, due in self._writing.items() if due <= now]:
            self._touched(node)
        self._await_writers()
        self._flush()

    def _touched(self, node: PathNode) -> None:
        """Record that content or metadata of a node may have changed; the node still leads to the same file."""
        self._writing.pop(node, None)
        if node.subscribers:
            node.seal = seal(status(node.path))
        for subscription in tuple(node.subscribers):
            subscription.callback()
        if node.parent is not None and node.parent.covered:
            self._recursive[node.parent] = None

    def _nodes(self) -> Iterator[PathNode] | None:
        return self._tree.nodes()  # `close` replaces the tree

    def _swept(self, files: Sequence[tuple[PathNode, int]], directories: Sequence[PathNode]) -> None:
        """Handle changes found by the sweep: files, and directories in which a file differs.

        Each change is sent once, also if the kernel reports it.
        """
        if files or directories:
            self._readable()
            self._replaced.update(
                dict.fromkeys(node for node, known in files if node.seal == known and node not in self._writing)
            )
            self._recursive.update(dict.fromkeys(directories))
            self._flush()

    @property
    def _unreported(self) -> bool:
        """Whether nodes are to be checked, or recursive watches are to be notified."""
        return bool(self._replaced or self._recursive or self._told or self._tree.unfinished)

    def _flush(self) -> None:
        """Check the replaced nodes and send events: once for all events that arrived together.

        This is done in parts, each of a few milliseconds, with pauses between them.
        """
        began = self._clock()
        self._tree.begin(postpones=True)
        if self._unreported:
            self._report_changes()
        self._review()
        spent = self._clock() - began
        if self._resting is None and (spent > BUSY or self._told or self._tree.unfinished):
            pause = spent * REST if spent > BUSY else 0
            self._resting = asyncio.get_running_loop().call_later(pause, self._rested)

    def _report_changes(self) -> None:
        """Check the replaced nodes; send their events and those of recursive watches."""
        replaced, self._replaced = self._replaced, {}
        visited: list[Visited] = []
        for node in tops(replaced):
            visited += self._tree.look(node)
        if self._resting is None:  # also if they are below: a flood of events must not delay them forever
            visited += self._tree.go_on()
        self._changed(visited)
        self._tell()
        recursive, self._recursive = self._recursive, {}
        passed: set[PathNode] = set()
        for node in recursive:
            for step in node.upward():
                if step in passed:
                    break
                passed.add(step)
                for subscription in tuple(step.deep):
                    subscription.callback()

    def _rested(self) -> None:
        """End the pause after a check, and continue with the remaining nodes."""
        began, self._resting = self._clock(), None
        self._flush()
        self._next_mounts += MOUNTS_REST * (self._clock() - began)

    def _changed(self, visited: list[Visited]) -> None:
        """Schedule the events of nodes that may lead to another file, or to none.

        If the end of a link has changed, all nodes below the link are checked, too.
        """
        ends = [node for node, of_link in visited if not of_link]
        links = {link for node in ends for each in node.subscribers if node not in each.own for link in each.links}
        nodes = [node for node, _ in visited]
        nodes += [node for link in links for node, _ in self._tree.look(link, of_link=True)]
        self._tree.resolve()
        for node in nodes:
            self._writing.pop(node, None)
            self._told.update(dict.fromkeys(node.subscribers))
        self._told.update(dict.fromkeys(self._tree.take_followed()))
        for node in reversed(nodes):
            if self._tree.deep and node.parent is not None and node.parent.covered:
                self._recursive[node.parent] = None
            self._tree.prune(node, below=False)

    def _tell(self) -> None:
        """Call the callbacks that are due, within the time of one part."""
        for subscription in list(islice(self._told, CALLBACKS)):
            self._told.pop(subscription, None)
            subscription.callback()

    # -- polling -----------------------------------------------------------------------------------------------

    def _poll(self) -> None:
        """Try again where the kernel refused a watch, and find changes since the last check."""
        self._timer = None
        self._tree.begin()
        self._tree.bounds.begin_round()
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
        """Check whether bounded recursive watches now fit into their bounds."""
        self._again = None
        self._tree.begin(postpones=True)
        before = self._tree.bounds.take_reached()
        for node in before:
            self._tree.look(node)
        self._tree.resolve()
        for node in before.keys() - self._tree.bounds.reached.keys():  # changes in the unwatched rest are unknown
            self._recursive[node] = None
        if self._timer is not None:
            self._timer.cancel()
        self._poll()  # polling has a bound of its own

    def _review(self) -> None:
        """Poll while there is something to poll; health reports which directories are not watched, and why."""
        if self._tree.polled and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._period, self._poll)
        if self._tree.bounds.reached and self._again is None:
            self._again = asyncio.get_running_loop().call_later(self._period * AGAIN, self._try_bounded)
        self._health.tell(self._tree)
