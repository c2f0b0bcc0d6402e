"""Notices changes of the configuration: settings, states, pillar, own kinds, grains.

watchdog tells that something happened, from threads of its own; what has really changed is found by comparing files.
That makes events cheap to lose: after an overflow of the kernel's queue, or where nothing can be watched, the same
comparison runs at an interval. watchdog gets one recursive watch, because each costs a thread: in the usual layout that
of the whole configuration, else that of the states; what lies elsewhere is left to the path watcher of the resources.
"""

from __future__ import annotations

import asyncio
import logging
import os
import warnings
from collections.abc import Callable

from watchdog import events
from watchdog.observers.api import BaseObserver
from watchdog.observers.inotify import InotifyObserver

from holdfast.agent.health import Health
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.pathnodes import Subscription
from holdfast.agent.host.paths import PathWatcher
from holdfast.agent.settings import WatchSettings
from holdfast.agent.watched import SHORTAGE, Beyond, MadeFrom, Signature, Survey, Watched, differences, inside

POLL = 2.0
"""Seconds between two looks while something cannot be watched."""
SPARE = 8
"""Pipes that can be opened before a watch begins: with fewer descriptors watchdog loses some, or leaves directories out without an error."""
_FILTER: list[type[events.FileSystemEvent]] = [
    events.FileCreatedEvent,
    events.FileModifiedEvent,
    events.FileAttribEvent,
    events.FileClosedEvent,
    events.FileDeletedEvent,
    events.FileMovedEvent,
    events.DirCreatedEvent,
    events.DirDeletedEvent,
    events.DirMovedEvent,
    events.DirAttribEvent,
]
"""All but opening and closing unchanged: those are our own reads."""


def _inode(path: str | None) -> int:
    """What tells one directory from another in its place; 0 when there is none."""
    try:
        return os.stat(path).st_ino if path is not None else 0  # noqa: PTH116 - text is faster
    except OSError:
        return 0


class ConfigWatch:
    """Calls `changed` with the paths that have changed, a moment after the last of them did."""

    def __init__(
        self, watched: Watched, settings: WatchSettings, changed: Callable[[list[str]], None], health: Health, paths: PathWatcher
    ) -> None:
        self._watched, self._settings = watched, settings
        self._changed = changed
        self._health = health
        self._paths = paths
        self._blocking = Blocking(1)
        self._touched = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._observer: BaseObserver | None = None
        self._elsewhere: list[Subscription] = []
        self._told = True
        """Events led to the present look, not the time."""
        self._made = MadeFrom(tuple)
        self._following = False
        """The graph has just been made from something else: what is new to us has not changed."""
        self._more: Signature = {}
        self._beyond = Beyond()
        self._apart: list[Subscription] = []
        self._armed: tuple[object, ...] = ()
        """What is watched now: the directory for watchdog, its inode, and what lies elsewhere."""
        self._signature: Signature = watched.signature()
        self._overflow = _OverflowHandler(self._touch)
        # Watchdog's way of saying that it met a new directory twice, by its event and by its own walk: harmless.
        warnings.filterwarnings("ignore", "Callback with id .* already exists", RuntimeWarning)

    def update(self, watched: Watched, settings: WatchSettings) -> None:
        """Watch something else from now on: what is there now is read after this."""
        if (watched, settings) == (self._watched, self._settings):
            return
        if watched != self._watched:
            self._signature = watched.signature()
        self._watched, self._settings = watched, settings
        self._touched.set()

    def follow(self, made: MadeFrom) -> None:
        """Watch also what the graph was made from, wherever it lies."""
        self._made, self._following = made, True
        self._touched.set()

    async def run(self) -> None:
        """Watch for the life of the agent; ends by being cancelled."""
        logging.getLogger("watchdog").addHandler(self._overflow)
        try:
            self._arm()
            while True:
                await self._wait()
                await self._look()
        finally:
            logging.getLogger("watchdog").removeHandler(self._overflow)
            self._unwatch()
            self._watch_apart(Beyond())

    async def _wait(self) -> None:
        """Until something happened and it is quiet again, or until the next look is due."""
        polling = self._observer is None and (not self._armed or self._armed[0] is not None)
        self._told = True
        try:
            async with asyncio.timeout(POLL if polling else self._settings.rescan):
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
        self._arm()
        try:
            await self._compare()
        except (OSError, RuntimeError) as error:
            self._unwatch()
            self._poll(error)

    def _arm(self) -> None:
        """Watch, or look again soon where that cannot be."""
        try:
            self._watch()
        except (OSError, RuntimeError) as error:  # a thread that cannot be started is a RuntimeError
            self._unwatch()
            self._poll(error)

    async def _compare(self) -> None:
        watched, made, following = self._watched, self._made, self._following
        self._following = False
        survey: Survey = await self._blocking(watched.survey, made)
        if watched is not self._watched:
            return
        more = differences(self._more, survey.more)
        if unseen := more - self._more.keys():  # looked at for the first time: it need not have changed
            more -= await self._blocking(made.unchanged, unseen, following)
        changed = sorted(differences(self._signature, survey.named) | more)
        self._signature, self._more = survey.named, survey.more
        self._watch_apart(survey.beyond)
        if changed and not self._told:
            self._unwatch()  # no event told of this: part of the tree is not watched, so all of it is watched anew
            self._arm()
        if changed:
            self._changed(changed)

    def _watch_apart(self, beyond: Beyond) -> None:
        """Have that watched which the watch of the main directory does not reach."""
        if beyond == self._beyond:
            return
        for subscription in self._apart:
            subscription.close()
        self._beyond = beyond
        self._apart = [
            self._paths.subscribe(beyond.trees, self._touched.set, recursive=True),
            self._paths.subscribe(beyond.files, self._touched.set),
        ]
        self._touched.set()  # what happened before the watch began is seen by another look

    def _touch(self) -> None:
        """Something happened; called from watchdog's threads."""
        if not self._touched.is_set() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._touched.set)

    def _watch(self) -> None:
        """Have the right directories watched; they change when one appears, vanishes, or a link points elsewhere."""
        main = self._watched.main()
        covered = {main} if main else set()
        trees = tuple(str(tree) for tree in self._watched.trees if not inside(os.path.realpath(tree), covered))
        # Names that are not strictly below it: files elsewhere, and directories or links that may be exchanged as a whole.
        names = (*self._watched.files, *self._watched.trees)
        files = tuple(str(path) for path in names if not inside(os.path.realpath(path.parent), covered))
        armed = (main, _inode(main), trees, files)
        if armed == self._armed and (main is None or (self._observer is not None and self._observer.is_alive())):
            return
        self._unwatch()
        self._armed = armed
        self._elsewhere = [
            self._paths.subscribe(trees, self._touched.set, recursive=True),
            self._paths.subscribe(files, self._touched.set),
        ]
        if main is not None:
            self._observe(main)

    def _observe(self, main: str) -> None:
        """Have watchdog watch a directory. Raises `OSError` or `RuntimeError` when it cannot, and leaves nothing open."""
        _demand_descriptors()
        observer = InotifyObserver()
        try:
            observer.schedule(_Handler(self._touch), main, recursive=True, event_filter=_FILTER)
            observer.start()
        except (OSError, RuntimeError):
            observer.stop()
            raise
        self._health.clear("config-polling")
        self._observer = observer

    def _poll(self, error: OSError | RuntimeError) -> None:
        """Say that the configuration is looked at, and why it is not watched."""
        number = error.errno if isinstance(error, OSError) else 0
        limit = "a limit of inotify (fs.inotify.*) or of open files is reached"
        why = limit if number in SHORTAGE else error.strerror if isinstance(error, OSError) else str(error)
        self._health.set("config-polling", f"cannot watch the configuration: {why}; looking at it every {POLL:g} s")

    def _unwatch(self) -> None:
        for subscription in self._elsewhere:
            subscription.close()
        self._elsewhere = []
        if self._observer is not None:
            self._observer.stop()
            self._observer.join(1.0)
            self._observer = None
        self._armed = ()


def _demand_descriptors() -> None:
    """Raise `OSError` when there are not enough descriptors left for a watch."""
    taken: list[int] = []
    try:
        for _ in range(SPARE):
            taken += os.pipe2(os.O_CLOEXEC)
    finally:
        for each in taken:
            os.close(each)


class _Handler(events.FileSystemEventHandler):
    """Takes watchdog's events; which they are does not matter."""

    def __init__(self, touch: Callable[[], None]) -> None:
        self._touch = touch

    def dispatch(self, event: events.FileSystemEvent) -> None:  # noqa: ARG002 - watchdog's signature
        """One event."""
        self._touch()


class _OverflowHandler(logging.Handler):
    """Watchdog tells that events were lost in its log, and nowhere else."""

    def __init__(self, touch: Callable[[], None]) -> None:
        super().__init__(logging.WARNING)
        self._touch = touch

    def emit(self, record: logging.LogRecord) -> None:  # noqa: ARG002 - the standard library's signature
        """One line of watchdog's log."""
        self._touch()
