"""Keeps a tree of watched paths armed: what must be done when one joins, leaves, or turns into something else.

Directories are watched, not files. Every component of a watched path is a node; a component that is missing is waited for in
its parent, one that is a symbolic link is followed and watched at both ends. The order is always: watch first, then look; so
nothing can happen unseen in between.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable

from holdfast.agent.host.inotify import Kernel
from holdfast.agent.host.pathnodes import Node, Signature, Subscription, entries, link_target, mode_of

HOPS = 40
"""Symbolic links followed for one watch; the kernel's own limit."""
ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


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
        self._relink: set[Subscription] = set()

    def add(self, subscription: Subscription, paths: Iterable[str]) -> None:
        """Take a watcher in; armed on return. Raises `ValueError` for a relative path."""
        self.deep += subscription.deep
        for path in paths:
            node, fresh = self._grow(path)
            subscription.own.append(node)
            self._join(subscription, node, fresh)
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
                child = node.children[name] = Node(name, node)
                fresh = fresh or (node if first else child)
            node = child
        return node, fresh or node

    def find(self, path: str) -> Node | None:
        """The node of a path, if it is on the way to something watched."""
        node: Node | None = self.root
        for name in filter(None, path.split("/")):
            node = node.children.get(name) if node else None
        return node

    def _join(self, subscription: Subscription, node: Node, fresh: Node) -> None:
        subscription.nodes.add(node)
        node.subscribers.add(subscription)
        deep = subscription.deep and node in subscription.own
        if deep:
            node.deep |= {subscription}
        if deep or fresh is not node:
            self.look(fresh)
        else:
            self._trace(node)

    def _leave(self, subscription: Subscription, node: Node) -> None:
        subscription.nodes.discard(node)
        node.subscribers.discard(subscription)
        node.deep -= {subscription}
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
        for node in subscription.nodes.difference(wanted):
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
                if step.parent is not None:
                    step.parent.children.pop(step.name, None)

    def _idle(self, node: Node) -> bool:
        if node.subscribers or node.children:
            return False
        return not ((node.kernel or node in self.polled) and node.covered())

    def look(self, top: Node) -> None:
        """Arm a node and all below it anew, by what is at their paths now."""
        stack = [top]
        while stack:
            node = stack.pop()
            self._trace(node)
            stack.extend(node.children.values())

    def _trace(self, node: Node) -> None:
        """Arm one node by what is at its path now."""
        mode, parent = mode_of(node.path), node.parent
        if not stat.S_ISDIR(mode) or node.subscribers:
            mode = self._widen(parent or node, node, mode)
        target = link_target(node.path) if stat.S_ISLNK(mode) else None
        if target != node.target:
            node.target = target
            self._relink.update(*(each.subscribers for each in node.below()))
        covered = self.deep > 0 and (bool(node.deep) or stat.S_ISDIR(mode)) and node.covered()
        if covered or node.children or parent is None:
            node.full = node.full or covered
            self.attach(node)
        else:
            self.kernel.detach(node)
        if covered:
            self._cover(node)

    def _widen(self, parent: Node, node: Node, mode: int) -> int:
        """Have the parent tell about this entry; its type, looked up again if that was not so before."""
        if parent.full:
            return mode
        parent.full = True
        if parent.kernel is not None:
            self.attach(parent)
        return mode_of(node.path)

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
                self.polled[node] = entries(node)

    def _cover(self, node: Node) -> None:
        """Have a node for every directory in one that is watched recursively. Links inside are not followed."""
        try:
            with os.scandir(node.path) as found:
                for entry in found:
                    if entry.name not in node.children and entry.is_dir(follow_symlinks=False):
                        node.children[entry.name] = Node(entry.name, node)
        except OSError:  # gone or unreadable: its parent tells when that changes
            return
