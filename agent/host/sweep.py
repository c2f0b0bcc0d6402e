"""Compares watched files from time to time, to find writes through other hard links and through memory maps.

The kernel reports an inode under the name that was used. So the status of each watched file is compared with the last
known one once in `period` seconds. A round is split into slices that are spread over the period; each slice runs in a
thread because a file system may hang. Content is only compared in a recheck.

Of files below recursively watched directories, only those with several links are compared. For each directory with such
files, one number is kept for all of them. A new number is reported as a change, because earlier writes are unknown.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count, islice
from typing import NamedTuple

from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.path_nodes import NOTHING, PathNode, held, seal, status
from holdfast.resources.paths import mounts
from holdfast.resources.paths.handle import ENTRIES

PERIOD = 60.0
"""Seconds of one round: each file is checked once."""
SLICES = 12
"""Slices of a round."""
STEP = 2000
"""Nodes of the tree that are examined before other tasks run."""
SHARE = 0.01
"""Share of one processor: a round that would need more takes longer than `period`."""


class Found(NamedTuple):
    """Result of one slice."""

    files: Sequence[tuple[PathNode, int]]
    """Watched files that differ, each with its previous seal."""
    linked: dict[PathNode, int]
    """Recursively watched directories that contain files with several links -> one number for the status of these
    files."""
    spent: float
    """Seconds of processor time."""


class Sweep:
    """One task, which runs while there is something to compare.

    `nodes` returns all nodes, None if nothing is watched. `changed` is called with the files that
    differ, each with its previous seal, and with the directories in which a file differs.
    """

    def __init__(
        self,
        nodes: Callable[[], Iterator[PathNode] | None],
        changed: Callable[[Sequence[tuple[PathNode, int]], Sequence[PathNode]], None],
        period: float,
    ) -> None:
        self._nodes, self._changed, self._period = nodes, changed, period
        self._blocking = Blocking(1)
        self._linked: list[dict[PathNode, int]] = [{} for _ in range(SLICES)]
        """Results for directories, for each slice."""
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start the task, unless it runs."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._rounds(), name="path-sweep")

    def close(self) -> None:
        """Stop the task."""
        if self._task is not None and not self._task.get_loop().is_closed():
            self._task.cancel()
        self._task = None

    async def _rounds(self) -> None:
        """Run rounds until nothing is watched.

        A file's path determines its slice, so that a new file joins the current round.
        """
        spent = 0.0
        for number in count():
            turn = number % SLICES
            if turn == 0:
                await asyncio.sleep(spent / SHARE - self._period)  # usually negative
                spent = 0.0
            await asyncio.sleep(self._period / SLICES)
            nodes = self._nodes()
            if nodes is None:
                return
            due = await _due(nodes, turn)
            before = self._linked[turn]
            with suppress(RuntimeError):  # no thread can be started; the next round tries again
                found = await self._blocking(_look, due) if due else Found((), {}, 0.0)
                self._linked[turn] = found.linked
                spent += found.spent
                self._changed(found.files, [node for node in due if found.linked.get(node) != before.get(node)])


async def _due(nodes: Iterator[PathNode], turn: int) -> list[PathNode]:
    """Return the nodes to compare in this slice of a round. Other tasks run after every `STEP` nodes."""
    due: list[PathNode] = []
    while some := list(islice(nodes, STEP)):
        due += [node for node in some if _is_compared(node) and hash(node.path) % SLICES == turn]
        await asyncio.sleep(0)
    return due


def _is_compared(node: PathNode) -> bool:
    """Return whether a node is a file with a known status, or a directory that is watched recursively."""
    return bool(node.seal or (node.covered and node.kernel))


def _look(nodes: Sequence[PathNode]) -> Found:
    """Compare files with their last known status, and find files with several links in directories. Blocks."""
    began = time.thread_time()
    files = [(node, known) for node in nodes if (known := node.seal) and seal(status(node.path)) != known]
    room = count()
    linked = {node: number for node in nodes if node.covered and (number := _linked(node, room))}
    return Found(files, linked, time.thread_time() - began)


def _linked(node: PathNode, room: count[int]) -> int:
    """Return one number for the status of all files in a directory that have several links; 0 if there are none.

    `room` counts entries of directories that untrusted users may write, to bound them.
    """
    several = set()
    careful = mounts.careful()
    try:
        with held(node.path, follow=True) as path, os.scandir(path) as entries:
            for entry in entries:
                if node.user_writable and next(room) >= ENTRIES:
                    break
                if not entry.is_dir(follow_symlinks=False):
                    info = status(f"{node.path}/{entry.name}") if careful else _status(entry)
                    if info.st_nlink > 1 and not stat.S_ISDIR(info.st_mode):
                        several.add((entry.name, seal(info)))
    except OSError:  # removed, or not a directory: the kernel reports that
        return 0
    return hash(frozenset(several)) if several else 0


def _status(entry: os.DirEntry[str]) -> os.stat_result:
    """Return the status of an entry; `NOTHING` if the entry is gone."""
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:
        return NOTHING
