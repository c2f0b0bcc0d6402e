"""Detects changes of the configuration: settings, states, pillar, the operator's kinds, grains.

watchdog reports from its own threads that something happened; a comparison of files shows which files have changed. So
lost events do little harm: after an overflow of the kernel's queue, or where nothing can be watched, the same
comparison runs periodically. watchdog gets one recursive watch, because each watch costs a thread. In the usual layout
this watch covers the whole configuration, otherwise the states; the path watcher of the resources watches the rest.

All walks through directory trees run in a thread, one at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

from holdfast.agent.configuration_files import (
    SHORTAGE,
    ConfigurationFiles,
    ExtraPaths,
    MadeFrom,
    Signature,
    Survey,
    WatchRoots,
)
from holdfast.agent.health import Health
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.path_nodes import Subscription
from holdfast.agent.host.path_watcher import PathWatcher
from holdfast.agent.observer import DirectoryObserver
from holdfast.agent.settings import WatchSettings

POLL = 2.0
"""Seconds between two comparisons while something cannot be watched."""
TIMEOUT = 1.0
"""Seconds to wait at the end for watchdog, which may itself be waiting for a file system."""


class ConfigWatch:
    """Calls `changed` with the paths that have changed, after a moment without events.

    Creating it reads all files, which blocks.
    """

    def __init__(
        self,
        watched: ConfigurationFiles,
        settings: WatchSettings,
        changed: Callable[[list[str]], None],
        health: Health,
        paths: PathWatcher,
    ) -> None:
        self._watched, self._settings = watched, settings
        self._changed = changed
        self._health = health
        self._paths = paths
        self._blocking = Blocking(1)
        self._touched = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._observer = DirectoryObserver(self._touch)
        self._elsewhere: list[Subscription] = []
        self._told = True
        """Whether events caused the present comparison, not the interval."""
        self._made = MadeFrom(tuple)
        self._following = False
        """Whether the graph was just made from other files: then files that are new to the watch do not count as
        changed."""
        self._apart: list[Subscription] = []
        self._reach: WatchRoots | None = None
        """The present watches; None if watching failed."""
        self._seen = Survey(watched.signature(), {}, ExtraPaths())

    async def update(self, watched: ConfigurationFiles, settings: WatchSettings) -> None:
        """Watch other files from now on: every change after the return of this call is noticed."""
        if (watched, settings) == (self._watched, self._settings):
            return
        if watched != self._watched:
            now: Signature = await self._blocking(watched.signature)
            same = {
                str(file) for file in watched.files if file in self._watched.files
            }  # the settings were already read from these
            earlier = {path: looks for path, looks in self._seen.named.items() if path in same}
            self._seen = self._seen._replace(
                named={path: looks for path, looks in now.items() if path not in same} | earlier
            )
        self._watched, self._settings = watched, settings
        self._touched.set()

    def follow(self, made: MadeFrom) -> None:
        """Also watch the files that the graph was made from, wherever they are."""
        self._made, self._following = made, True
        self._touched.set()

    async def run(self) -> None:
        """Watch until cancelled."""
        try:
            await self._arm()
            self._touched.set()  # earlier changes have caused no event
            while True:
                await self._wait()
                await self._look()
        finally:
            _close((*self._elsewhere, *self._apart))
            with suppress(TimeoutError, RuntimeError):
                async with asyncio.timeout(TIMEOUT):
                    await self._blocking(self._observer.stop)

    async def _wait(self) -> None:
        """Wait until something has happened and no event has followed for a while, or until a comparison is due."""
        self._told = True
        try:
            async with asyncio.timeout(self._settings.rescan if self._reach else POLL):
                await self._touched.wait()
        except TimeoutError:
            self._told = False
            return
        until = self._loop.time() + self._settings.settle_limit
        while self._touched.is_set() and self._loop.time() < until:
            self._touched.clear()
            await asyncio.sleep(self._settings.settle)

    async def _look(self) -> None:
        """Find changes since the last comparison.

        If files vanish or cannot be read meanwhile, the watch continues and compares again soon.
        """
        await self._arm()
        try:
            await self._compare()
        except (OSError, RuntimeError) as error:
            self._poll(error)
        if self._reach:
            self._health.clear("config-polling")

    async def _arm(self, *, anew: bool = False) -> None:
        """Watch; if that fails, compare again soon."""
        try:
            await self._watch(anew=anew)
        except (OSError, RuntimeError) as error:  # RuntimeError: a thread cannot be started
            self._poll(error)

    async def _compare(self) -> None:
        watched, made = self._watched, self._made
        survey, changed = await self._blocking(watched.compare, self._seen, made, self._following)
        if watched is not self._watched:
            return
        if made is self._made:
            self._following = False
        beyond, self._seen = self._seen.beyond, survey
        if survey.beyond != beyond:
            self._watch_apart(survey.beyond)
        if changed and not self._told:
            await self._arm(
                anew=True
            )  # no event reported this: part of the tree is not watched, so watch all of it again
        if changed:
            self._changed(changed)

    def _watch_apart(self, beyond: ExtraPaths) -> None:
        """Watch the paths that the watch of the main directory does not reach."""
        _close(self._apart)
        self._apart = self._subscribed(beyond.trees, beyond.files)
        self._touched.set()  # another comparison finds changes from before the watch

    def _subscribed(self, trees: Iterable[str], files: Iterable[str]) -> list[Subscription]:
        return [
            self._paths.subscribe(trees, self._touched.set, recursive=True),
            self._paths.subscribe(files, self._touched.set),
        ]

    def _touch(self) -> None:
        """Record that something happened; called from watchdog's threads."""
        if not self._touched.is_set() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._touched.set)

    async def _watch(self, *, anew: bool) -> None:
        """Watch the present directories; others if one has appeared or vanished, or a link has another target."""
        reach: WatchRoots = await self._blocking(self._watched.reach)
        if reach == self._reach and not anew and (reach.main is None or self._observer.alive):
            return
        self._leave()
        self._elsewhere = self._subscribed(reach.trees, reach.files)
        if reach.main is not None:
            await self._blocking(self._observer.watch, reach.main)
        else:
            await self._blocking(self._observer.stop)
        self._reach = reach

    def _leave(self) -> None:
        """Mark the configuration as not watched."""
        _close(self._elsewhere)
        self._elsewhere, self._reach = [], None

    def _poll(self, error: OSError | RuntimeError) -> None:
        """Report that the configuration is polled and why; the next comparison tries to watch it again."""
        self._leave()
        number = error.errno if isinstance(error, OSError) else 0
        limit = "a limit of inotify (fs.inotify.*) or of open files is reached"
        why = limit if number in SHORTAGE else error.strerror if isinstance(error, OSError) else str(error)
        self._health.set("config-polling", f"cannot watch the configuration: {why}; checking it every {POLL:g} s")


def _close(subscriptions: Iterable[Subscription]) -> None:
    for subscription in subscriptions:
        subscription.close()
