"""Bounds of recursive watches in directories that untrusted users may write, whose size such a user decides.

A directory that a user may write counts towards the top of the recursive watch that includes it. Directories that only
trusted users may write have no bounds.
"""

from __future__ import annotations

from collections import Counter

from holdfast.agent.host.path_nodes import PathNode
from holdfast.agent.host.path_walks import UNBOUNDED
from holdfast.resources.paths.handle import ENTRIES

WATCHES = 8192
"""Most directories of one recursive watch that untrusted users may write, and most entries compared there while
polling."""
LONGEST = 512
"""Most characters in the path of such a directory: paths take memory."""
LEVELS = 64
"""Most components of such a path: a deep tree makes each access slow."""


class WatchBounds:
    """Counts directories and entries that untrusted users may have made, by the top of their recursive watch."""

    def __init__(self) -> None:
        self.reached: dict[PathNode, str] = {}
        """Recursive watches that do not include everything below -> the bound that was reached."""
        self._tops: dict[PathNode, PathNode] = {}
        """Directory that untrusted users may write -> top of the recursive watch that includes it."""
        self._directories: Counter[PathNode] = Counter()
        """Top -> number of such directories."""
        self._scanned: Counter[PathNode] = Counter()
        """Top -> entries of such directories that the current pass has read."""
        self._compared: Counter[PathNode] = Counter()
        """Top -> entries of such directories compared in this round of polling."""

    def begin_pass(self) -> None:
        """Reset the counts of entries that were read."""
        if self._scanned:
            self._scanned.clear()

    def begin_round(self) -> None:
        """Start a round of polling: reset the counts of compared entries."""
        self._compared.clear()

    def forget(self, top: PathNode) -> None:
        """Forget that a bound was reached."""
        self.reached.pop(top, None)

    def take_reached(self) -> dict[PathNode, str]:
        """Return the bounds that were reached; they are forgotten."""
        before, self.reached = self.reached, {}
        return before

    def grow(self, node: PathNode, name: str) -> PathNode | None:
        """Return a new node for a directory within a recursive watch; None beyond the bounds."""
        if not node.user_writable:
            return node.grow(name)
        top = self._top(node)
        if self.is_full(node):
            return None
        if len(node.path) + len(name) >= LONGEST or node.path.count("/") >= LEVELS:
            self.reached[top] = f"a path of more than {LONGEST} characters or {LEVELS} levels"
            return None
        child = node.grow(name)
        self._tops[child] = top
        self._directories[top] += 1
        return child

    def is_full(self, node: PathNode) -> bool:
        """Return whether there is no room for a directory below this one; the bound is then reached."""
        if not node.user_writable or self._directories[top := self._top(node)] < WATCHES:
            return False
        self.reached[top] = f"more than {WATCHES} directories"
        return True

    def release(self, node: PathNode) -> None:
        """Stop counting a directory that is no longer watched."""
        top = self._tops.pop(node, None)
        if top is not None:
            self._directories[top] -= 1
            if not self._directories[top]:
                del self._directories[top]

    def room_to_scan(self, node: PathNode) -> int:
        """Return how many entries of a directory may be read in this pass."""
        return ENTRIES - self._scanned[self._top(node)] if node.user_writable else UNBOUNDED

    def scanned(self, node: PathNode, entries: int, *, all_read: bool) -> None:
        """Count the entries of a directory that were read; `all_read`: there was room for all of them."""
        if node.user_writable:
            top = self._top(node)
            self._scanned[top] += entries
            if not all_read:
                self.reached[top] = f"more than {ENTRIES} entries"

    def room_to_compare(self, node: PathNode) -> int:
        """Return how many entries of a directory may be compared in this round of polling."""
        return max(0, WATCHES - self._compared[self._top(node)]) if node.covered and node.user_writable else UNBOUNDED

    def compared(self, node: PathNode, entries: int) -> None:
        """Count the entries of a directory that are compared in this round."""
        if node.covered and node.user_writable:
            top = self._top(node)
            if entries > max(0, WATCHES - self._compared[top]):
                self.reached[top] = f"more than {WATCHES} entries to compare while polling"
            self._compared[top] += 1 + entries

    def _top(self, node: PathNode) -> PathNode:
        """Return the top of the recursive watch whose bounds a directory counts towards."""
        for step in node.upward():
            if step in self._tops:
                return self._tops[step]
            if step.deep:
                return step
        return node
