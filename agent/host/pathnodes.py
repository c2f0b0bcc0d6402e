"""What the path watcher keeps of paths: a tree of their components, and who is interested in which."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.agent.host.inotify import Entry

Signature = tuple[int, ...]
"""What is compared when a path is polled."""


class Subscription:
    """One watcher's interest in some paths; `close` ends it."""

    __slots__ = ("_leave", "callback", "deep", "links", "nodes", "own")

    def __init__(self, callback: Callable[[], None], leave: Callable[[Subscription], None], *, deep: bool) -> None:
        self.callback = callback
        self._leave = leave
        self.deep = deep
        self.own: list[Node] = []
        """Nodes of the paths it asked for."""
        self.links: Sequence[Node] = ()
        """Symbolic links on the way to them."""
        self.nodes: set[Node] = set()
        """`own`, and where those links lead."""

    def close(self) -> None:
        """Get no more events, and give back what only this watcher needed. Harmless when done twice."""
        self._leave(self)


NOBODY: frozenset[Subscription] = frozenset()
"""One for all: there are as many nodes as watched paths, and few of them are watched with all below."""


class Node:
    """One component of a path: a directory passed through, or the thing at its end."""

    __slots__ = ("children", "deep", "full", "kernel", "name", "parent", "path", "subscribers", "target")

    def __init__(self, name: str, parent: Node | None) -> None:
        self.name = name
        self.parent = parent
        self.path: str = "/" if parent is None else os.path.join(parent.path, name)  # noqa: PTH118 - Path objects are slow
        self.children: dict[str, Node] = {}
        self.subscribers: set[Subscription] = set()
        self.deep: frozenset[Subscription] = NOBODY
        """Those that watch all below it, too."""
        self.full = False
        """Whether all events of its entries are asked for."""
        self.kernel: Entry | None = None
        self.target: str | None = None
        """Where it leads, if it is a symbolic link."""

    def below(self) -> list[Node]:
        """The node and all under it, each before what is under it."""
        nodes = [self]
        for node in nodes:
            nodes.extend(node.children.values())
        return nodes

    def upward(self) -> Iterator[Node]:
        """The node and all on the way to the root."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    def covered(self) -> bool:
        """Whether a recursive watch reaches it."""
        return any(node.deep for node in self.upward())


def mode_of(path: str) -> int:
    """Type and permissions of what is there, 0 when there is nothing."""
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def link_target(path: str) -> str | None:
    """The absolute path a symbolic link names, one hop on; None when it is none."""
    try:
        target = os.readlink(path)  # noqa: PTH115 - Path objects are slow
    except OSError:
        return None
    return os.path.normpath(os.path.join(os.path.realpath(os.path.dirname(path)), target))  # noqa: PTH118, PTH120 - the same


def signature(path: str) -> Signature:
    """What changes when the thing does; a directory's entries do not count. Empty when there is nothing."""
    try:
        s = os.lstat(path)
    except OSError:
        return ()
    known = (s.st_dev, s.st_ino, s.st_mode, s.st_uid, s.st_gid)
    return known if stat.S_ISDIR(s.st_mode) else (*known, s.st_size, s.st_mtime_ns, s.st_ctime_ns)


def entries(node: Node) -> dict[str, Signature]:
    """Signatures of those entries of a directory that somebody watches."""
    names = set(node.children)
    if node.covered():
        try:
            names.update(os.listdir(node.path))  # noqa: PTH208 - Path objects are slow
        except OSError:
            names = set(node.children)
    return {name: signature(os.path.join(node.path, name)) for name in names}  # noqa: PTH118 - the same
