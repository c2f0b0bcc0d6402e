"""Walks down the tree of watched paths, in parts: a mount over a busy file system must not block the event loop.

A walk that has used up the effort of a pass continues in the next one. Meanwhile nodes may be added or removed.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from holdfast.agent.host.path_nodes import PathNode

UNBOUNDED = sys.maxsize >> 1
EFFORT = 200
"""Effort of one pass after an event, about two milliseconds. A file costs 1."""
DIRECTORY = 5
"""Effort of a directory that the kernel watches, and of resolving the links of a subscription."""


class Walk(NamedTuple):
    """The remaining part of a walk."""

    stack: list[PathNode]
    top: PathNode
    of_link: bool
    """The walk begins at a link, because the end of the link has changed."""


class Visited(NamedTuple):
    """A node that was visited, and whether the walk began at a link."""

    node: PathNode
    of_link: bool


class PathWalks:
    """The walks of one tree. `arm` arms a node; `postpone` returns whether a node is armed in a later pass."""

    def __init__(self, arm: Callable[[PathNode], None], postpone: Callable[[PathNode], bool]) -> None:
        self._arm, self._postpone = arm, postpone
        self._cut: deque[Walk] = deque()
        self.left = UNBOUNDED
        """Effort that is left in this pass."""

    @property
    def unfinished(self) -> bool:
        """Whether a walk continues in the next pass."""
        return bool(self._cut)

    def begin(self, top: PathNode, *, of_link: bool = False) -> list[Visited]:
        """Arm a node and all nodes below again, within the effort of this pass; return those that were armed."""
        return self._go_on(Walk([top], top, of_link))

    def resume(self) -> list[Visited]:
        """Continue the walks of earlier passes."""
        visited: list[Visited] = []
        while self._cut and self.left > 0:
            visited += self._go_on(self._cut.popleft())
        return visited

    def _go_on(self, walk: Walk) -> list[Visited]:
        stack, top, of_link = walk
        visited: list[Visited] = []
        while stack:
            if self.left <= 0:
                self._cut.append(walk)
                break
            node = stack.pop()
            if not in_use(node) or (node is not top and self._postpone(node)):
                continue
            self._arm(node)
            self.left -= 1 if node.kernel is None else DIRECTORY
            visited.append(Visited(node, of_link))
            stack.extend(node.children.values())
        return visited


def in_use(node: PathNode) -> bool:
    """Return whether a node is still in its tree."""
    return node.parent is None or node.parent.children.get(node.name) is node


def tops(nodes: Collection[PathNode]) -> list[PathNode]:
    """Return the nodes in use that are not below another one."""
    return [
        node for node in nodes if in_use(node) and not any(step in nodes for step in node.upward() if step is not node)
    ]


def showing(root: PathNode, links: Iterable[PathNode], real: str) -> list[PathNode]:
    """Return the nodes whose link-free path is `real`; several links may lead there.

    In place of an entry of a recursively watched directory that has no node, the directory is returned.
    """
    ways = [(root, real)]
    for link in links:
        end = link.real.rstrip("/")
        if f"{real}/".startswith(f"{end}/"):
            ways.append((link, real[len(end) :]))
    found = []
    for start, rest in ways:
        node: PathNode | None = start
        above: PathNode | None = None
        for name in filter(None, rest.split("/")):
            above, node = node, node.children.get(name) if node else None
        if node is None and above is not None and above.covered:
            node = above
        if node is not None:
            found.append(node)
    return found
