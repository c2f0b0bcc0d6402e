"""A named pipe beside the database, by which other processes wake the agent after a commit, so it need not poll."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from holdfast.agent.sqlite_files import beside, clear


class CommitBell:
    """The pipe. It is only a hint: without it, a commit is noticed at the next poll."""

    def __init__(self, path: Path) -> None:
        self._file = beside(path, ".bell")
        self._descriptor: int | None = None

    def listen(self, rung: Callable[[], None]) -> None:
        """Create the pipe, and call `rung` in the event loop whenever another process rings."""
        with suppress(OSError):  # such as a full or read-only disk
            clear(self._file)
            os.mkfifo(self._file, 0o600)
            self._descriptor = os.open(self._file, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
            asyncio.get_running_loop().add_reader(self._descriptor, self._heard, rung)

    def ring(self) -> None:
        """Wake the agent, if there is one."""
        with suppress(OSError):
            descriptor = os.open(self._file, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                    os.write(descriptor, b"\0")
            finally:
                os.close(descriptor)

    def close(self) -> None:
        """Stop listening, and remove the pipe: programs that read whole directories would wait for it."""
        if self._descriptor is not None:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            with suppress(OSError):
                if os.path.samestat(os.fstat(self._descriptor), self._file.lstat()):
                    self._file.unlink()
            os.close(self._descriptor)
            self._descriptor = None

    def _heard(self, rung: Callable[[], None]) -> None:
        if self._descriptor is not None:
            with suppress(OSError):
                os.read(self._descriptor, 65536)
            rung()
