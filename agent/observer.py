"""The one recursive watch of the configuration, by watchdog."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable

from watchdog import events
from watchdog.observers.api import BaseObserver
from watchdog.observers.inotify import InotifyObserver

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


class Observer:
    """Calls `touched`, from threads of its own, when something happens below one directory, or when events were lost.

    `watch` and `stop` block: watchdog walks through the whole tree, and waits for its threads.
    """

    def __init__(self, touched: Callable[[], None]) -> None:
        self._handler, self._overflow = _Handler(touched), _OverflowHandler(touched)
        self._observer: BaseObserver | None = None
        # Watchdog's way of saying that it met a new directory twice, by its event and by its own walk: harmless.
        warnings.filterwarnings("ignore", "Callback with id .* already exists", RuntimeWarning)

    @property
    def alive(self) -> bool:
        """Whether it watches."""
        return self._observer is not None and self._observer.is_alive()

    def watch(self, directory: str) -> None:
        """Watch this directory with all below, and no other. Raises `OSError` or `RuntimeError` when it cannot, and leaves nothing open."""
        self.stop()
        _demand_descriptors()
        observer = InotifyObserver()
        try:
            observer.schedule(self._handler, directory, recursive=True, event_filter=_FILTER)
            observer.start()
        except (OSError, RuntimeError):
            observer.stop()
            raise
        logging.getLogger("watchdog").addHandler(self._overflow)
        self._observer = observer

    def stop(self) -> None:
        """Watch nothing any more."""
        logging.getLogger("watchdog").removeHandler(self._overflow)
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()
            observer.join(1.0)


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
