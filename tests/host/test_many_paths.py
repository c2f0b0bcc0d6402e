"""Events of thousands of watched paths are handled in parts, so that the event loop is never blocked."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast.agent.host import overflows
from holdfast.agent.host.path_watcher import PathWatcher
from holdfast.agent.insight.watch_metrics import watch_metrics
from loop_time import callbacks
from watch_backends import BACKENDS

COUNT = 3000
"""Files: in one callback, an event of all of them takes 25 to 170 ms."""
LONGEST = 0.015
"""Seconds of processor time: three times what a callback may take, because the machine of the tests may be slow."""
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system, and gives files away")


@pytest.fixture(params=BACKENDS)
async def watcher(request: pytest.FixtureRequest) -> AsyncIterator[PathWatcher]:
    """Yield a watcher with each backend."""
    watcher = PathWatcher(backend=request.param)
    yield watcher
    watcher.close()


class Told:
    """The watched paths that were notified of an event."""

    def __init__(self, watcher: PathWatcher, paths: list[Path]) -> None:
        self._waiting: set[Path] = set()
        self._all = asyncio.Event()
        self._paths = paths
        for path in paths:
            watcher.subscribe([str(path)], lambda path=path: self._heard(path))

    def _heard(self, path: Path) -> None:
        self._waiting.discard(path)
        if not self._waiting:
            self._all.set()

    async def longest_callback(self, *command: str | Path) -> float:
        """Run a command; return the processor time of the longest callback until all paths were notified."""
        self._waiting = set(self._paths)
        self._all.clear()
        with callbacks() as taken:
            await asyncio.to_thread(subprocess.run, command, check=True)
            async with asyncio.timeout(DEADLINE):
                await self._all.wait()
        return max(taken)


def files(directory: Path, count: int = COUNT) -> list[Path]:
    """Make a directory with many files."""
    directory.mkdir(parents=True)
    made = [directory / f"f{number}" for number in range(count)]
    for file in made:
        file.touch()
    return made


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """Yield a directory over which a test may mount a file system."""
    yield tmp_path / "over"
    subprocess.run(["umount", "--quiet", tmp_path / "over"], check=False)


async def test_a_mount_over_many_watched_files(watcher: PathWatcher, mounted: Path) -> None:
    """All are checked when it is mounted, and again when it is unmounted, in parts of some milliseconds.

    Takes a second, because the watcher looks at the mount table again only after a multiple of the time that this took.
    """
    told = Told(watcher, files(mounted))

    assert await told.longest_callback("mount", "-t", "tmpfs", "tmpfs", mounted) < LONGEST
    assert await told.longest_callback("umount", mounted) < LONGEST


async def test_a_link_above_many_watched_files_is_switched(watcher: PathWatcher, tmp_path: Path) -> None:
    """A release is switched like this. Then changes in the new directory are reported, those in the old one not."""
    old, new = files(tmp_path / "old"), files(tmp_path / "new")
    current = tmp_path / "current"
    current.symlink_to("old")
    told = Told(watcher, [current / file.name for file in old])
    next_one = tmp_path / "next"
    next_one.symlink_to("new")
    assert await told.longest_callback("mv", "-T", next_one, current) < LONGEST
    await asyncio.sleep(0)

    last = Told(watcher, [current / new[-1].name])
    await last.longest_callback("touch", new[-1])


async def test_a_directory_with_many_watched_files_is_renamed(watcher: PathWatcher, tmp_path: Path) -> None:
    """It is renamed and renamed back; then changes are reported as before."""
    watched = files(tmp_path / "here")
    told = Told(watcher, watched)

    assert await told.longest_callback("mv", tmp_path / "here", tmp_path / "there") < LONGEST
    assert await told.longest_callback("mv", tmp_path / "there", tmp_path / "here") < LONGEST
    await told.longest_callback("touch", *watched)


@pytest.fixture
async def small_queue(watcher: PathWatcher, tmp_path: Path) -> None:
    """Give the watcher queues of 200 events; others that are opened in the same moment get such a queue as well."""
    bounds = Path("/proc/sys/fs/inotify/max_queued_events"), Path("/proc/sys/fs/fanotify/max_queued_events")
    before = [each.read_text() for each in bounds]
    try:
        for each in bounds:
            each.write_text("200\n")
        watcher.subscribe([str(tmp_path)], lambda: None)
    finally:
        for each, value in zip(bounds, before, strict=True):
            each.write_text(value)


@pytest.mark.usefixtures("small_queue")
async def test_lost_events_of_many_files(
    watcher: PathWatcher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """More files change at once than the queue of the kernel takes.

    Each subscription is notified, the overflow is counted, and the log reports it once.
    """
    told = Told(watcher, [path for part in "abc" for path in files(tmp_path / part, COUNT // 3)])
    overflows.log.debug("loads the library of the log")

    assert await told.longest_callback("chgrp", "-R", "1", tmp_path) < LONGEST
    assert watcher.overflows.number >= 1
    assert f"\nholdfast_watch_overflows_total {watcher.overflows.number}\n" in watch_metrics(watcher.overflows)
    assert capsys.readouterr().out.count("events of paths were lost") == 1
