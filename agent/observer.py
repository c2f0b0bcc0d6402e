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
"""Pipes that can be opened before a watch begins: with fewer descriptors watchdog loses events or directories
silently."""
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
"""All events except opening, and closing without changes: our own reads cause these."""


class DirectoryObserver:
    """Calls `touched`, from its own threads, after events below one directory, and after events were lost.

    `watch` and `stop` block: watchdog walks through the whole tree and waits for its threads.
    """

    def __init__(self, touched: Callable[[], None]) -> None:
        self._handler, self._overflow = _Handler(touched), _OverflowHandler(touched)
        self._observer: BaseObserver | None = None
        # A warning that a new directory was found twice, by its event and by a walk: harmless.
        warnings.filterwarnings("ignore", "Callback with id .* already exists", RuntimeWarning)

    @property
    def alive(self) -> bool:
        """Whether the watch works."""
        return self._observer is not None and self._observer.is_alive()

    def watch(self, directory: str) -> None:
        """Watch this directory recursively, and no other.

        Raises `OSError` or `RuntimeError`; then nothing is left open.
        """
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
        """Stop watching."""
        logging.getLogger("watchdog").removeHandler(self._overflow)
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()
            observer.join(1.0)


def _demand_descriptors() -> None:
    """Raise `OSError` if too few descriptors are left for a watch."""
    taken: list[int] = []
    try:
        for _ in range(SPARE):
            taken += os.pipe2(os.O_CLOEXEC)
    finally:
        for each in taken:
            os.close(each)


class _Handler(events.FileSystemEventHandler):
    """Receives watchdog's events; their details do not matter."""

    def __init__(self, touch: Callable[[], None]) -> None:
        self._touch = touch

    def dispatch(self, event: events.FileSystemEvent) -> None:  # noqa: ARG002 - watchdog's signature
        """Handle one event."""
        self._touch()


class _OverflowHandler(logging.Handler):
    """Receives watchdog's log, the only place where watchdog reports lost events."""

    def __init__(self, touch: Callable[[], None]) -> None:
        super().__init__(logging.WARNING)
        self._touch = touch

    def emit(self, record: logging.LogRecord) -> None:  # noqa: ARG002 - the standard library's signature
        """Handle one log line."""
        self._touch()
