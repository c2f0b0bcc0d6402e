"""The lock of the process that may create and replace the file of a database."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.agent.northbound.errors import Unavailable
from holdfast.agent.sqlite_files import beside

WAITING = 1.0
"""Seconds for which a process waits for another one that creates the file."""


class OwnerLock:
    """A lock file beside the database. The kernel releases it when the process ends; it contains the holder's pid."""

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, beside(path, ".lock")
        self._descriptor: int | None = None

    def take(self) -> None:
        """Take the lock, unless this process has it.

        Raises `Unavailable` if another process does not release it. Blocks.
        """
        if self._descriptor is not None:
            return
        descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            self._wait(descriptor)
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock. The file stays: another process could otherwise hold a lock on a removed file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock during a block; a process that had it before keeps it afterwards."""
        keeps = self._descriptor is not None
        self.take()
        try:
            yield
        finally:
            if not keeps:
                self.release()

    def _wait(self, descriptor: int) -> None:
        until = time.monotonic() + WAITING
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    holder = os.pread(descriptor, 20, 0).decode("ascii", "replace") or "unknown"
                    raise Unavailable(
                        f"{self._path} belongs to a running agent (pid {holder}): stop that agent, or set another "
                        "state directory"
                    ) from None
                time.sleep(0.02)
            else:
                return
