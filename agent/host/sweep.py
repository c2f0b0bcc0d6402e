"""Looks again at watched files, for what inotify does not tell: a file that is written through another of its hard links, or through a memory map.

inotify tells of an inode by the name that was used. So the status of each watched file is compared with the last one known, once in
`period` seconds: in slices, spread over that time, each in a thread, for a file system may hang. Content is only compared when everything
is looked at (`recheck`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import cycle

from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.pathnodes import Node, seal, status

PERIOD = 60.0
"""Seconds in which each file is looked at once."""
SLICES = 12
"""Slices of one round."""


class Sweep:
    """One task while there is anything to look at. `nodes` finds it; `changed` is told of what differs, and what its status was before."""

    def __init__(
        self, nodes: Callable[[], list[Node] | None], changed: Callable[[Sequence[tuple[Node, int]]], None], period: float
    ) -> None:
        self._nodes, self._changed, self._period = nodes, changed, period
        self._blocking = Blocking(1)
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Look from time to time, if that is not done already."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._rounds(), name="path-sweep")

    def close(self) -> None:
        """Look no more."""
        if self._task is not None and not self._task.get_loop().is_closed():
            self._task.cancel()
        self._task = None

    async def _rounds(self) -> None:
        """Round after round, until nothing is watched. The path of a file says in which slice it is, so that a new one is not left for a next round."""
        for turn in cycle(range(SLICES)):
            await asyncio.sleep(self._period / SLICES)
            nodes = self._nodes()
            if nodes is None:
                return
            if due := [node for node in nodes if hash(node.path) % SLICES == turn]:
                with suppress(RuntimeError):  # no thread can be started now; the next round looks
                    self._changed(await self._blocking(_differing, due))


def _differing(nodes: Sequence[Node]) -> list[tuple[Node, int]]:
    """Those whose status is not the one known, and that one. Blocks."""
    return [(node, known) for node in nodes if (known := node.seal) and seal(status(node.path)) != known]
