"""Looks again at watched files, for what inotify does not tell: a file that is written through another of its hard links, or through a memory map.

inotify tells of an inode by the name that was used. So the status of each watched file is compared with the last one known, once in
`period` seconds: in slices, spread over that time, each in a thread, for a file system may hang. Content is only compared when everything
is looked at (`recheck`).

Of the files in directories that are watched recursively, only those with several links are compared, and one number is kept for all of one directory;
none where there are no such files, as mostly. A number that is new is told as well, for nobody knows what was written before.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import NamedTuple

from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.pathnodes import NOTHING, Node, held, seal, status
from holdfast.resources.paths import mounts
from holdfast.resources.paths.handle import ENTRIES

PERIOD = 60.0
"""Seconds in which each file is looked at once."""
SLICES = 12
"""Slices of one round."""
SHARE = 0.01
"""Of one processor: a round that would take more takes longer than `period`."""


class Found(NamedTuple):
    """What one slice has found."""

    files: Sequence[tuple[Node, int]]
    """Watched files that differ, each with the status known before."""
    linked: dict[Node, int]
    """Directories that are watched recursively and have files with several links -> one number for the status of all of these."""
    spent: float
    """Seconds of processor time."""


class Sweep:
    """One task while there is anything to look at.

    `nodes` finds that: watched files, and directories that are watched recursively. `changed` is told of files that differ, with what their status
    was before, and of directories in which one differs.
    """

    def __init__(
        self,
        nodes: Callable[[], list[Node] | None],
        changed: Callable[[Sequence[tuple[Node, int]], Sequence[Node]], None],
        period: float,
    ) -> None:
        self._nodes, self._changed, self._period = nodes, changed, period
        self._blocking = Blocking(1)
        self._linked: list[dict[Node, int]] = [{} for _ in range(SLICES)]
        """What was found of directories, for each slice."""
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
        spent = 0.0
        for number in count():
            turn = number % SLICES
            if turn == 0:
                await asyncio.sleep(spent / SHARE - self._period)  # which is less than nothing, as mostly
                spent = 0.0
            await asyncio.sleep(self._period / SLICES)
            nodes = self._nodes()
            if nodes is None:
                return
            due = [node for node in nodes if hash(node.path) % SLICES == turn]
            before = self._linked[turn]
            with suppress(RuntimeError):  # no thread can be started now; the next round looks
                found = await self._blocking(_look, due) if due else Found((), {}, 0.0)
                self._linked[turn] = found.linked
                spent += found.spent
                self._changed(found.files, [node for node in due if found.linked.get(node) != before.get(node)])


def _look(nodes: Sequence[Node]) -> Found:
    """Compare files with what is known of them, and find those with several links in directories. Blocks."""
    began = time.thread_time()
    files = [(node, known) for node in nodes if (known := node.seal) and seal(status(node.path)) != known]
    room = count()
    linked = {node: number for node in nodes if node.covered and (number := _linked(node, room))}
    return Found(files, linked, time.thread_time() - began)


def _linked(node: Node, room: count[int]) -> int:
    """One number for the status of all files in a directory that have several links; 0 where there are none.

    In what untrusted users may write, `room` counts the entries, for there must not be too many.
    """
    several = set()
    careful = mounts.careful()
    try:
        with held(node.path, follow=True) as path, os.scandir(path) as entries:
            for entry in entries:
                if node.loose and next(room) >= ENTRIES:
                    break
                if not entry.is_dir(follow_symlinks=False):
                    info = status(f"{node.path}/{entry.name}") if careful else _status(entry)
                    if info.st_nlink > 1 and not stat.S_ISDIR(info.st_mode):
                        several.add((entry.name, seal(info)))
    except OSError:  # gone, or no directory: the kernel tells of that
        return 0
    return hash(frozenset(several)) if several else 0


def _status(entry: os.DirEntry[str]) -> os.stat_result:
    """The status of an entry; `NOTHING` when it is gone."""
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:
        return NOTHING
