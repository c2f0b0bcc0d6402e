"""The health conditions of watched paths: which directories are not watched, and why."""

from __future__ import annotations

import errno

from holdfast.agent.health import Health
from holdfast.agent.host.path_tree import PathTree

POLLING = "watch-polling"
BOUNDED = "watch-bounded"


class WatchHealth:
    """The conditions of one watcher. `period` is the number of seconds between two polls."""

    def __init__(self, health: Health | None, period: float) -> None:
        self._health, self._period = health, period
        self._told = False
        """Whether a condition is set."""

    def tell(self, tree: PathTree) -> None:
        """Set or clear the conditions. While nodes are postponed, a bound may not be known yet: nothing is cleared."""
        if self._health is None or not (tree.refusals or tree.bounds.reached or self._told):
            return
        self._told = tree.unfinished
        for code, text in ((POLLING, self._refused(tree)), (BOUNDED, _cut(tree))):
            if text:
                self._told = True
                self._health.set(code, text)
            elif not tree.unfinished:
                self._health.clear(code)

    def _refused(self, tree: PathTree) -> str:
        for node, error in tree.refusals.items():
            advice = "; raise fs.inotify.max_user_watches" if error.errno == errno.ENOSPC else ""
            where = f"{_printable(node.path)}: {error.strerror}"
            many = f"{len(tree.refusals)} directories"
            return f"cannot watch {many} ({where}){advice}; checking every {self._period:g} s"
        return ""


def _cut(tree: PathTree) -> str:
    for node, bound in tree.bounds.reached.items():
        others = len(tree.bounds.reached) - 1
        more = f" and {others} other directories" if others else ""
        return (
            f"cannot watch everything below {_printable(node.path)}{more}: "
            f"other users may write there, and it has {bound}; the next recheck checks the rest"
        )
    return ""


def _printable(path: str) -> str:
    """Return a path for a message.

    A user may have chosen the name, which may be invalid text or contain control characters.
    """
    return path if path.isprintable() else repr(path)
