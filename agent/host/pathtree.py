"""Keeps a tree of watched paths armed: what must be done when one joins, leaves, or turns into something else.

Directories are watched, not files. Every component of a watched path is a node; a component that is missing is waited for in
its parent, one that is a symbolic link is followed and watched at both ends. The order is always: watch first, then look; so
nothing can happen unseen in between.

What an untrusted user could put below a watched path must not cost others their events: a link of his is followed only where
`holdfast.resources.paths` follows it, a file system that he has mounted is not asked about anything, and in directories that he
may write a recursive watch is bounded.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice

from holdfast.agent.host.inotify import Kernel
from holdfast.agent.host.pathnodes import (
    NOTHING,
    Node,
    Signature,
    Subscription,
    held,
    is_loose,
    joined,
    leads,
    left,
    seal,
    signature,
    status,
)
from holdfast.resources import paths
from holdfast.resources.paths import mounts
from holdfast.resources.paths.handle import ENTRIES

HOPS = 40
"""Symbolic links followed for one watch; the kernel's own limit."""
ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
WATCHES = 8192
"""Directories that one recursive watch holds in what untrusted users may write, and entries that it compares there while it polls."""
LONGEST = 512
"""Characters in the path of such a directory: its paths take memory."""
LEVELS = 64
"""Directories in such a path: a deep tree makes each look at it slow."""
UNBOUNDED = sys.maxsize - 1


class Tree:
    """The nodes, from the root of the file system to what is watched, each with the kernel watch it needs."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.root = Node("", None)
        self.deep = 0
        """Recursive watches there are."""
        self.polled: dict[Node, dict[str, Signature]] = {}
        """Directories that the kernel does not watch -> their entries when last seen."""
        self.refusals: dict[Node, OSError] = {}
        """Why it does not."""
        self.bounded: dict[Node, str] = {}
        """Recursive watches that do not hear of all below -> the bound that was reached."""
        self.uncovered: list[Node] = []
        """Where a user's file system is no longer, to be looked at."""
        self._relink: set[Subscription] = set()
        self._links: set[Node] = set()
        """All symbolic links, followed or not."""
        self._foreign: frozenset[str] = frozenset()
        """Mount points of file systems that an untrusted user has mounted."""
        self._owners: Mapping[str, int] = {}
        self._held: dict[Node, Node] = {}
        """Directory in what untrusted users may write -> the top of the recursive watch that holds it."""
        self._holding: Counter[Node] = Counter()
        """How many there are for each top."""
        self._scanned: Counter[Node] = Counter()
        """Entries that the current pass has looked at in what untrusted users may write, for each top."""
        self._compared: Counter[Node] = Counter()
        """Entries there that are compared in this round of polling, for each top."""

    def begin(self) -> None:
        """Start a pass, before anything is looked at: learn which mount points to leave alone, and count scanned entries anew."""
        if self._scanned:
            self._scanned.clear()
        owners = mounts.foreign()
        if owners is self._owners:
            return
        trusted, before = paths.trusted_uids(), self._foreign
        self._owners = owners
        self._foreign = frozenset(point for point, uid in owners.items() if uid not in trusted)
        for node in [node for point in self._foreign - before for node in self.showing(point)]:
            self.look(node)
        self.resolve()
        self.uncovered += [node for point in before - self._foreign for node in self.showing(point)]

    def add(self, subscription: Subscription, paths: Iterable[str]) -> None:
        """Take a watcher in; armed on return. Raises `ValueError` for a relative path."""
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

    def _grow(self, path: str) -> tuple[Node, Node]:
        """The node of a path, and the first on the way to it that is new or passed through for the first time."""
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
        return node, fresh or node

    def showing(self, real: str) -> list[Node]:
        """The nodes that show what lies at a path without links, which other links may lead to; those on the way to something watched."""
        ways = [(self.root, real)]
        for link in self._links:
            end = link.real.rstrip("/")
            if f"{real}/".startswith(f"{end}/"):
                ways.append((link, real[len(end) :]))
        found = []
        for start, rest in ways:
            node: Node | None = start
            for name in filter(None, rest.split("/")):
                node = node.children.get(name) if node else None
            if node is not None:
                found.append(node)
        return found

    def swept(self) -> list[Node] | None:
        """Watched files whose status is known, and directories that are watched recursively; None when nothing is watched."""
        return (
            [node for node in self.root.below() if node.seal or (node.covered and node.kernel)]
            if self.root.children
            else None
        )

    def has(self, node: Node) -> bool:
        """Whether a node is still in use."""
        return node.parent is None or node.parent.children.get(node.name) is node

    def _join(self, subscription: Subscription, node: Node, fresh: Node) -> None:
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
        node.seal = known or node.seal  # what has changed since then was not told to the others

    def _leave(self, subscription: Subscription, node: Node) -> None:
        subscription.nodes = left(subscription.nodes, node)
        node.subscribers = left(node.subscribers, subscription)
        if subscription in node.deep:
            node.deep -= {subscription}
            for one in node.below():
                one.covered = bool(one.deep) or (one.parent is not None and one.parent.covered)
            if not node.covered:
                self.bounded.pop(node, None)
        self.prune(node, below=subscription.deep)

    def remove(self, subscription: Subscription) -> None:
        """Take a watcher out; harmless when it is out already."""
        if subscription.nodes:
            self.deep -= subscription.deep
        for node in list(subscription.nodes):
            self._leave(subscription, node)
        self._relink.discard(subscription)

    def resolve(self) -> None:
        """Follow links anew for all watches whose links have changed; what is found on the way may be links again."""
        for _ in range(HOPS):
            again, self._relink = self._relink, set()
            for subscription in again:
                self._follow(subscription)
            if not self._relink:
                return

    def _follow(self, subscription: Subscription) -> None:
        """Have a watch told of both ends of each symbolic link on the way to its paths."""
        if not self._links and not subscription.links:
            return
        wanted = list(subscription.own)
        links: list[Node] = []
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

    def prune(self, node: Node, *, below: bool) -> None:
        """Drop nodes that nobody needs any more, from here upward, with their kernel watches."""
        for one in reversed(node.below()) if below else [node]:
            for step in one.upward():
                if not self._idle(step):
                    break
                self.kernel.detach(step)
                self.polled.pop(step, None)
                self.refusals.pop(step, None)
                self.bounded.pop(step, None)
                self._links.discard(step)
                self._release(step)
                if step.parent is not None:
                    step.parent.drop(step.name)

    def _idle(self, node: Node) -> bool:
        if node.subscribers or node.children:
            return False
        return not (node.covered and (node.kernel or node in self.polled or node.real in self._foreign))

    def look(self, top: Node) -> None:
        """Arm a node and all below it anew, by what is at their paths now."""
        stack = [top]
        while stack:
            node = stack.pop()
            self._trace(node)
            stack.extend(node.children.values())

    def _trace(self, node: Node) -> None:
        """Arm one node by what is at its path now."""
        parent = node.parent
        if parent is not None:
            node.covered = True if node.deep else parent.covered
            node.real = node.path if parent.real is parent.path else f"{parent.real.rstrip('/')}/{node.name}"
            node.shut = parent.shut or node.real in self._foreign
        else:
            node.covered = bool(node.deep)
        info = NOTHING if node.shut else status(node.path)
        mode, target = info.st_mode, None
        if (not stat.S_ISDIR(mode) or node.subscribers) and not node.shut:
            info = self._widen(parent or node, node, info)
            mode = info.st_mode
        node.seal = seal(info) if node.subscribers else 0
        if stat.S_ISLNK(mode):
            target, real = leads(node.path)
            node.shut, node.real = real is None, real or node.path
            self._links.add(node)
        elif self._links:
            self._links.discard(node)
        if target != node.target:
            node.target = target
            self._relink.update(*(each.subscribers for each in node.below()))
        if node.shut:
            self._let_go(node)
            return
        inside = node.covered and (bool(node.deep) or stat.S_ISDIR(mode))
        if inside:
            node.loose = is_loose(status(node.real) if target else info)
        if inside or node.children or parent is None:
            node.full = node.full or inside
            self.attach(node)
        else:
            self.kernel.detach(node)
        if inside:
            self._cover(node)

    def _widen(self, parent: Node, node: Node, info: os.stat_result) -> os.stat_result:
        """Have the parent tell about this entry; its status, looked up again if that was not so before."""
        if parent.full:
            return info
        parent.full = True
        if parent.kernel is not None:
            self.attach(parent)
        return status(node.path)

    def attach(self, node: Node) -> None:
        """Have the kernel watch a directory, or else poll it."""
        self.refusals.pop(node, None)
        try:
            self.kernel.attach(node, follow=node.target is not None)
        except OSError as error:
            if error.errno in ABSENT:
                self.polled.pop(node, None)
                return
            self.refusals[node] = error
            if node not in self.polled:
                self.polled[node] = self.entries(node)

    def _let_go(self, node: Node) -> None:
        self.kernel.detach(node)
        self.polled.pop(node, None)
        self.refusals.pop(node, None)

    # -- recursive watches -------------------------------------------------------------------------------------

    def _cover(self, node: Node) -> None:
        """Have a node for every directory in one that is watched recursively. Links inside are not followed."""
        top = self._top(node) if node.loose else node
        room = ENTRIES - self._scanned[top] if node.loose else UNBOUNDED
        taken = 0
        try:
            with held(node.path, follow=True) as path, os.scandir(path) as found:
                for taken, entry in enumerate(found, 1):
                    if taken > room:
                        self.bounded[top] = f"more than {ENTRIES} entries"
                        break
                    # a mount point is not looked at, not even for its type
                    if entry.name not in node.children and (
                        self._is_foreign(node, entry.name) or entry.is_dir(follow_symlinks=False)
                    ):
                        self.spawn(node, entry.name)
        except OSError:  # gone or unreadable: its parent tells when that changes
            pass
        if node.loose:
            self._scanned[top] += taken

    def spawn(self, node: Node, name: str) -> Node | None:
        """A new node for a directory in one that is watched recursively; None beyond the bounds."""
        top = self._top(node) if node.loose else None
        if top is not None and self._holding[top] >= WATCHES:
            self.bounded[top] = f"more than {WATCHES} directories"
            return None
        if top is not None and (len(node.path) + len(name) >= LONGEST or node.path.count("/") >= LEVELS):
            self.bounded[top] = f"a path of more than {LONGEST} characters or {LEVELS} levels"
            return None
        child = node.grow(name)
        if top is not None:
            self._held[child] = top
            self._holding[top] += 1
        return child

    def _release(self, node: Node) -> None:
        top = self._held.pop(node, None)
        if top is not None:
            self._holding[top] -= 1
            if not self._holding[top]:
                del self._holding[top]

    def _top(self, node: Node) -> Node:
        """Where the recursive watch begins that a directory counts for."""
        for step in node.upward():
            if step in self._held:
                return self._held[step]
            if step.deep:
                return step
        return node

    def _is_foreign(self, node: Node, name: str) -> bool:
        return bool(self._foreign) and f"{node.real.rstrip('/')}/{name}" in self._foreign

    # -- polling -----------------------------------------------------------------------------------------------

    def begin_round(self) -> None:
        """Start a round of polling: what is compared is counted anew."""
        self._compared.clear()

    def entries(self, node: Node) -> dict[str, Signature]:
        """Signatures of those entries of a directory that somebody watches."""
        names = set(node.children)
        top = self._top(node) if node.covered and node.loose else None
        room = UNBOUNDED if top is None else max(0, WATCHES - self._compared[top])
        if node.covered and room:
            try:
                with held(node.path, follow=True) as path, os.scandir(path) as found:
                    names.update(entry.name for entry in islice(found, room + 1))
            except OSError:
                names = set(node.children)
        if top is not None:
            if len(names) > room:
                self.bounded[top] = f"more than {WATCHES} entries to compare while polling"
            self._compared[top] += 1 + len(names)
        return {name: signature(os.path.join(node.path, name)) for name in names if not self._is_foreign(node, name)}  # noqa: PTH118 - Path objects are slow
