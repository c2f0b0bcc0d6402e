"""Notices changes of the configuration: settings, states, pillar, own kinds, grains.

watchdog tells that something happened, from threads of its own; what has really changed is found by comparing files.
That makes events cheap to lose: after an overflow of the kernel's queue, or where nothing can be watched, the same
comparison runs at an interval. watchdog gets one recursive watch, because each costs a thread: in the usual layout that
of the whole configuration, else that of the states; what lies elsewhere is left to the path watcher of the resources.

Whatever walks through a tree runs in a thread, one call at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

from holdfast.agent.health import Health
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.pathnodes import Subscription
from holdfast.agent.host.paths import PathWatcher
from holdfast.agent.observer import Observer
from holdfast.agent.settings import WatchSettings
from holdfast.agent.watched import SHORTAGE, Beyond, MadeFrom, Reach, Signature, Survey, Watched

POLL = 2.0
"""Seconds between two looks while something cannot be watched."""
PATIENCE = 1.0
"""Seconds to wait at the end for watchdog, which may be waiting for a file system itself."""


class ConfigWatch:
    """Calls `changed` with the paths that have changed, a moment after the last of them did. Looks at all of them when it is made: that blocks."""

    def __init__(
        self,
        watched: Watched,
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
        self._observer = Observer(self._touch)
        self._elsewhere: list[Subscription] = []
        self._told = True
        """Events led to the present look, not the time."""
        self._made = MadeFrom(tuple)
        self._following = False
        """The graph has just been made from something else: what is new to us has not changed."""
        self._apart: list[Subscription] = []
        self._reach: Reach | None = None
        """What is watched now; None: it cannot be."""
        self._seen = Survey(watched.signature(), {}, Beyond())

    async def update(self, watched: Watched, settings: WatchSettings) -> None:
        """Watch something else from now on: any change that is made after this has returned is noticed."""
        if (watched, settings) == (self._watched, self._settings):
            return
        if watched != self._watched:
            now: Signature = await self._blocking(watched.signature)
            same = {
                str(file) for file in watched.files if file in self._watched.files
            }  # settings were read from them already
            earlier = {path: looks for path, looks in self._seen.named.items() if path in same}
            self._seen = self._seen._replace(
                named={path: looks for path, looks in now.items() if path not in same} | earlier
            )
        self._watched, self._settings = watched, settings
        self._touched.set()

    def follow(self, made: MadeFrom) -> None:
        """Watch also what the graph was made from, wherever it lies."""
        self._made, self._following = made, True
        self._touched.set()

    async def run(self) -> None:
        """Watch for the life of the agent; ends by being cancelled."""
        try:
            await self._arm()
            self._touched.set()  # what has changed before that no event has told
            while True:
                await self._wait()
                await self._look()
        finally:
            _close((*self._elsewhere, *self._apart))
            with suppress(TimeoutError, RuntimeError):
                async with asyncio.timeout(PATIENCE):
                    await self._blocking(self._observer.stop)

    async def _wait(self) -> None:
        """Until something happened and it is quiet again, or until the next look is due."""
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
        """See what has changed. Whatever vanishes or cannot be read meanwhile, the watch goes on, and looks again soon."""
        await self._arm()
        try:
            await self._compare()
        except (OSError, RuntimeError) as error:
            self._poll(error)
        if self._reach:
            self._health.clear("config-polling")

    async def _arm(self, *, anew: bool = False) -> None:
        """Watch, or look again soon where that cannot be."""
        try:
            await self._watch(anew=anew)
        except (OSError, RuntimeError) as error:  # a thread that cannot be started is a RuntimeError
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
            )  # no event told of this: part of the tree is not watched, so all of it is watched anew
        if changed:
            self._changed(changed)

    def _watch_apart(self, beyond: Beyond) -> None:
        """Have that watched which the watch of the main directory does not reach."""
        _close(self._apart)
        self._apart = self._subscribed(beyond.trees, beyond.files)
        self._touched.set()  # what happened before the watch began is seen by another look

    def _subscribed(self, trees: Iterable[str], files: Iterable[str]) -> list[Subscription]:
        return [
            self._paths.subscribe(trees, self._touched.set, recursive=True),
            self._paths.subscribe(files, self._touched.set),
        ]

    def _touch(self) -> None:
        """Something happened; called from watchdog's threads."""
        if not self._touched.is_set() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._touched.set)

    async def _watch(self, *, anew: bool) -> None:
        """Have the right directories watched; they change when one appears, vanishes, or a link points elsewhere."""
        reach: Reach = await self._blocking(self._watched.reach)
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
        """Count as not watching."""
        _close(self._elsewhere)
        self._elsewhere, self._reach = [], None

    def _poll(self, error: OSError | RuntimeError) -> None:
        """Say that the configuration is looked at, and why it is not watched; the next look tries to watch it anew."""
        self._leave()
        number = error.errno if isinstance(error, OSError) else 0
        limit = "a limit of inotify (fs.inotify.*) or of open files is reached"
        why = limit if number in SHORTAGE else error.strerror if isinstance(error, OSError) else str(error)
        self._health.set("config-polling", f"cannot watch the configuration: {why}; looking at it every {POLL:g} s")


def _close(subscriptions: Iterable[Subscription]) -> None:
    for subscription in subscriptions:
        subscription.close()
