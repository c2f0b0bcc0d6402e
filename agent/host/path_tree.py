"""A tree of watched paths, which stays armed when paths are added or removed, or when other files take their place.

Directories are watched, not files. Every component of a watched path is a node. A missing component is awaited in its
parent; a symbolic link is followed and watched at both ends. A directory is always watched before it is read, so no
change in between is missed.

An untrusted user who can write below a watched path must not cause others to lose events. So the links of such a user
are followed only where `holdfast.resources.paths` follows them, file systems that the user has mounted are not
accessed, and a recursive watch is bounded in directories that the user may write.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from itertools import islice

from holdfast.agent.host.backends import Backends
from holdfast.agent.host.kernel_watches import ABSENT
from holdfast.agent.host.mount_points import MountPoints
from holdfast.agent.host.path_nodes import (
    NOTHING,
    PathNode,
    Signature,
    Subscription,
    held,
    is_user_writable,
    joined,
    leads,
    left,
    seal,
    signature,
    status,
)
from holdfast.agent.host.path_walks import DIRECTORY, EFFORT, UNBOUNDED, PathWalks, Visited, showing
from holdfast.agent.host.watch_bounds import WatchBounds

HOPS = 40
"""Most symbolic links followed for one watch; the kernel's own limit."""
AT_ONCE, ENTRIES = 64, 512
"""Most directories of recursive watches that are armed in one pass after an event, and how many entries that are read
count as one of them. A user may create any number, and the event loop waits meanwhile."""


class PathTree:
    """The nodes from the root of the file system to the watched paths, each with the kernel watch that it needs."""

    def __init__(self, kernel: Backends) -> None:
        self.kernel = kernel
        self.root = PathNode("", None)
        self.deep = 0
        """Number of recursive subscriptions."""
        self.polled: dict[PathNode, dict[str, Signature]] = {}
        """Directories without a kernel watch -> their entries at the last check."""
        self.refusals: dict[PathNode, OSError] = {}
        """Directories without a kernel watch -> the kernel's reason."""
        self.bounds = WatchBounds()
        self.postponed: dict[PathNode, None] = {}
        """Nodes to arm in later passes: this pass has armed enough, or untrusted users control the number of nodes."""
        self._room = UNBOUNDED
        """Directories of recursive watches that may still be armed in this pass."""
        self._relink: set[Subscription] = set()
        self._followed: set[Subscription] = set()
        """Subscriptions whose links have been resolved again since `take_followed`."""
        self._unresolved = False  # whether links of subscriptions are to be resolved in the next pass
        self._walks = PathWalks(self._rearm, self._postpone)
        self._links: set[PathNode] = set()
        """All symbolic links, followed or not."""
        self._mounts = MountPoints()

    def begin(self, *, postpones: bool = False) -> None:
        """Start a pass, before any access: find mount points that must not be accessed, and reset entry counts.

        `postpones`: if there is too much to arm at once, the rest is postponed.
        """
        self.bounds.begin_pass()
        self._find_foreign()
        if postpones:
            self._room, self._walks.left = AT_ONCE, EFFORT

    @property
    def unfinished(self) -> bool:
        """Whether a later pass has something left to do."""
        return bool(self.postponed) or self._walks.unfinished or bool(self._followed) or self._unresolved

    def _find_foreign(self) -> None:
        self._room = self._walks.left = UNBOUNDED
        new, gone = self._mounts.renew()
        if new:
            for node in [node for point in new for node in self.showing(point)]:
                self.look(node)
            self.resolve()
        self.postponed.update((node, None) for point in gone for node in self.showing(point))

    def go_on(self) -> list[Visited]:
        """Arm nodes that earlier passes have left, at least one; return them."""
        found = self._walks.resume()
        while self.postponed and (not found or (self._room > 0 and self._walks.left > 0)):
            self._room -= 1
            self._walks.left = max(self._walks.left, 1)
            node = next(iter(self.postponed))
            del self.postponed[node]
            found += self.look(node)
        return found

    def add(self, subscription: Subscription, paths: Iterable[str]) -> None:
        """Add a subscription; it is armed on return. Raises `ValueError` for a relative path."""
        self.begin()
        self.deep += subscription.deep
        own = subscription.own = []
        for path in paths:
            node, fresh = self._grow(path)
            own.append(node)
            self._join(subscription, node, fresh)
        subscription.own = subscription.nodes if subscription.nodes == tuple(own) else tuple(own)
        self._relink.add(subscription)
        self.resolve()
        self._followed.discard(subscription)

    def _grow(self, path: str) -> tuple[PathNode, PathNode]:
        """Return the node of a path, and the first node on the way that is new or newly passed through."""
        if not path.startswith("/"):
            raise ValueError(f"cannot watch {path!r}: it is not an absolute path")
        node, fresh = self.root, None
        for name in filter(None, os.path.normpath(path).split("/")):
            child = node.children.get(name)
            if child is None:
                first = not node.children
                child = node.grow(name)
                fresh = fresh or (node if first else child)
            node = child
        if fresh is node:
            node.share(path)
        return node, fresh or node

    def showing(self, real: str) -> list[PathNode]:
        """Return the nodes whose link-free path is `real`: see `path_walks.showing`."""
        return showing(self.root, self._links, real)

    def nodes(self) -> Iterator[PathNode] | None:
        """Return all nodes; None if nothing is watched. Nodes may be added and removed meanwhile."""
        return self.root.walk() if self.root.children else None

    def _join(self, subscription: Subscription, node: PathNode, fresh: PathNode) -> None:
        subscription.nodes = joined(subscription.nodes, node)
        node.subscribers = joined(node.subscribers, subscription)
        deep = subscription.deep and node in subscription.own
        if deep:
            node.deep |= {subscription}
        known = node.seal
        if deep or fresh is not node:
            self.look(fresh)
        else:
            self._trace(node)
        node.seal = known or node.seal  # the other subscriptions do not know of changes since then

    def _leave(self, subscription: Subscription, node: PathNode) -> None:
        subscription.nodes = left(subscription.nodes, node)
        node.subscribers = left(node.subscribers, subscription)
        if subscription in node.deep:
            node.deep -= {subscription}
            for one in node.below():
                one.covered = bool(one.deep) or (one.parent is not None and one.parent.covered)
                self._forget_postponed(one)
            if not node.covered:
                self.bounds.forget(node)
        else:
            self._forget_postponed(node)
        self.prune(node, below=subscription.deep)

    def _forget_postponed(self, node: PathNode) -> None:
        if not (node.covered or node.subscribers or node.children):
            self.postponed.pop(node, None)

    def remove(self, subscription: Subscription) -> None:
        """Remove a subscription. May be called twice."""
        if subscription.nodes:
            self.deep -= subscription.deep
        for node in list(subscription.nodes):
            self._leave(subscription, node)
        self._relink.discard(subscription)
        self._followed.discard(subscription)

    def resolve(self) -> None:
        """Resolve changed links of subscriptions again, and new links on the way, within the effort of this pass."""
        self._unresolved = False
        for _ in range(HOPS):
            again, self._relink = self._relink, set()
            while again:
                if self._walks.left <= 0:
                    self._relink |= again
                    self._unresolved = True
                    return
                subscription = again.pop()
                self._follow(subscription)
                self._followed.add(subscription)
                self._walks.left -= DIRECTORY
            if not self._relink:
                return

    def take_followed(self) -> set[Subscription]:
        """Return the subscriptions whose links were resolved again since the last call."""
        followed, self._followed = self._followed, set()
        return followed

    def _follow(self, subscription: Subscription) -> None:
        """Subscribe to both ends of each symbolic link on the way to the subscription's paths."""
        if not self._links and not subscription.links:
            return
        wanted = list(subscription.own)
        links: list[PathNode] = []
        for node in wanted:
            for step in node.upward():
                if step.target is None or step in links or len(links) >= HOPS:
                    continue
                links.append(step)
                end, fresh = self._grow(step.target)
                if end not in subscription.nodes:
                    self._join(subscription, end, fresh)
                wanted.append(end)
        subscription.links = tuple(links)
        for node in set(subscription.nodes).difference(wanted):
            self._leave(subscription, node)

    def prune(self, node: PathNode, *, below: bool) -> None:
        """Drop nodes without subscriptions, from here upward, with their kernel watches."""
        for one in reversed(node.below()) if below else [node]:
            for step in one.upward():
                if not self._idle(step):
                    break
                self.kernel.detach(step)
                self.polled.pop(step, None)
                self.refusals.pop(step, None)
                self.bounds.forget(step)
                self._links.discard(step)
                self.bounds.release(step)
                if step.parent is not None:
                    step.parent.drop(step.name)

    def _idle(self, node: PathNode) -> bool:
        if node.subscribers or node.children or node in self.postponed:
            return False
        return not (node.covered and (node.kernel or node in self.polled or self._mounts.is_foreign(node.real)))

    def look(self, top: PathNode, *, of_link: bool = False) -> list[Visited]:
        """Arm a node and all nodes below again, for the files that are at their paths now.

        Returns those that were armed. Later passes arm the others. `of_link`: the end of this link has changed.
        """
        return self._walks.begin(top, of_link=of_link)

    def _rearm(self, node: PathNode) -> None:
        self.postponed.pop(node, None)
        self._trace(node)

    def _postpone(self, node: PathNode) -> bool:
        """Return whether the node is postponed: not if it, or a node below it, has subscriptions of its own."""
        if node.subscribers or node.parent is None or not node.parent.covered:
            return False
        if self._room > 0:
            self._room -= 1
            return False
        self.postponed[node] = None
        return True

    def _trace(self, node: PathNode) -> None:
        """Arm one node, for the file that is at its path now."""
        self._inherit(node)
        info = NOTHING if node.foreign else status(node.path)
        if (not stat.S_ISDIR(info.st_mode) or node.subscribers) and not node.foreign:
            info = self._widen(node.parent or node, node, info)
        node.seal = seal(info) if node.subscribers else 0
        self._resolve_link(node, info)
        if node.foreign:
            self._let_go(node)
        else:
            self._arm(node, info)

    def _inherit(self, node: PathNode) -> None:
        """Set the properties that a node inherits from its parent."""
        parent = node.parent
        if parent is not None:
            node.covered = True if node.deep else parent.covered
            node.real = node.path if parent.real is parent.path else f"{parent.real.rstrip('/')}/{node.name}"
            node.foreign = parent.foreign or self._mounts.is_foreign(node.real)
        else:
            node.covered = bool(node.deep)

    def _resolve_link(self, node: PathNode, info: os.stat_result) -> None:
        """Read the target of a node with this status; make subscriptions follow a changed target."""
        target = None
        if stat.S_ISLNK(info.st_mode):
            target, real = leads(node.path)
            node.foreign, node.real = real is None, real or node.path
            self._links.add(node)
        elif self._links:
            self._links.discard(node)
        if target != node.target:
            node.target = target
            self._relink.update(*(each.subscribers for each in node.below()))

    def _arm(self, node: PathNode, info: os.stat_result) -> None:
        """Make the kernel watch a node with this status: a directory that needs a watch, or a mounted file."""
        inside = node.covered and (bool(node.deep) or stat.S_ISDIR(info.st_mode))
        node.user_writable = is_user_writable(status(node.real) if node.target else info)
        at_end = bool(node.subscribers) and stat.S_ISDIR(info.st_mode)
        file = bool(node.subscribers or node.covered) and stat.S_ISREG(info.st_mode) and self._mounts.has(node.real)
        if inside or at_end or file or node.children or node.parent is None:
            node.full = node.full or inside
            self.attach(node)
        else:
            self.kernel.detach(node)
        if inside:
            self._cover(node)

    def _widen(self, parent: PathNode, node: PathNode, info: os.stat_result) -> os.stat_result:
        """Request events of this entry from the parent.

        Returns the entry's status, read again if events were not requested before.
        """
        if parent.full:
            return info
        parent.full = True
        if parent.kernel is not None:
            self.attach(parent)
        return status(node.path)

    def changes_hands(self, node: PathNode) -> bool:
        """Return whether a watched directory has become one that untrusted users may write, or is no longer one."""
        real = node.real if node.target else node.path
        return node.kernel is not None and is_user_writable(status(real)) != node.user_writable

    def attach(self, node: PathNode) -> None:
        """Make the kernel watch a directory or a mounted file; poll it if the kernel refuses."""
        self.refusals.pop(node, None)
        try:
            self.kernel.attach(node, follow=node.target is not None, mounted=self._mounts.has(node.real))
        except OSError as error:
            if error.errno in ABSENT:
                self.polled.pop(node, None)
                return
            self.refusals[node] = error
            if node not in self.polled:
                self.polled[node] = self.entries(node)

    def _let_go(self, node: PathNode) -> None:
        self.kernel.detach(node)
        self.polled.pop(node, None)
        self.refusals.pop(node, None)

    # -- recursive watches -------------------------------------------------------------------------------------

    def _cover(self, node: PathNode) -> None:
        """Make a node for every directory and mounted file in a recursively watched directory.

        Links inside are not followed.
        """
        room, taken = self.bounds.room_to_scan(node), 0
        mounted = self._mounts.among(node.real)
        try:
            with held(node.path, follow=True) as path, os.scandir(path) as found:
                for taken, entry in enumerate(found, 1):
                    if taken > room:
                        break
                    # a mount point is not accessed, not even for its type
                    if entry.name not in node.children and (
                        entry.name in mounted
                        or self._mounts.is_foreign(node.real, entry.name)
                        or entry.is_dir(follow_symlinks=False)
                    ):
                        if self.bounds.is_full(node):
                            break
                        self.bounds.grow(node, entry.name)
        except OSError:  # gone or unreadable: the parent reports when that changes
            pass
        self._room -= taken // ENTRIES
        self.bounds.scanned(node, taken, all_read=taken <= room)

    # -- polling -----------------------------------------------------------------------------------------------

    def entries(self, node: PathNode) -> dict[str, Signature]:
        """Return the signatures of the entries of a directory that have subscriptions.

        The empty name is the node itself, at the end of a path.
        """
        names = set(node.children) or {""}
        room = self.bounds.room_to_compare(node)
        if node.covered and room:
            try:
                with held(node.path, follow=True) as path, os.scandir(path) as found:
                    names.update(entry.name for entry in islice(found, room + 1))
            except OSError:
                names = set(node.children) or {""}
        self.bounds.compared(node, len(names))
        own = [name for name in names if not self._mounts.is_foreign(node.real, name)]
        top = node.path.rstrip("/")
        return {name: signature(f"{top}/{name}" if name or node.target else node.path) for name in own}
