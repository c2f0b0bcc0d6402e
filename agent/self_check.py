"""Checks the agent's own files while it runs: files that were removed or replaced are restored and reported."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from pathlib import Path

from holdfast.agent.control.server import ControlServer
from holdfast.agent.control.view_server import ViewServer
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.health import Health
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.statedir import TOLD, Lock, private_directory
from holdfast.resources.errors import HoldfastError

PERIOD = 5.0
"""Seconds between two checks. A check consists of some calls of stat, in a thread that ends with them."""
RENEWED = "state-renewed"
"""Code of the health condition that names restored files."""
TROUBLE = "state-trouble"
"""Code of the health condition that names files that cannot be restored or used."""


class SelfCheck:
    """Checks the state directory, the lock and the journal in it, and the sockets."""

    def __init__(
        self,
        directory: Path,
        lock: Lock,
        journal: Journal,
        server: ControlServer,
        health: Health,
        *,
        view: ViewServer | None = None,
    ) -> None:
        self._directory, self._lock, self._journal = directory, lock, journal
        self._server, self._view, self._health = server, view, health
        self._blocking = Blocking(1)
        self._seen = _identity(directory)
        """Device and inode of the directory; None while it is missing."""

    async def run(self) -> None:
        """Check all files every `PERIOD` seconds until cancelled."""
        while True:
            await asyncio.sleep(PERIOD)
            await self.look()

    async def look(self) -> None:
        """Check all files and restore missing ones; the journal is restored soon after."""
        renewed: list[str] = []
        where = self._directory
        try:
            await self._blocking(self._renew_files, renewed)
            where = self._server.path
            if await self._blocking(self._server.lost):
                await self._server.start()
                renewed.append(f"{where} was removed or replaced")
            if self._view is not None and (text := await self._view.renew()):
                renewed.append(text)
            self._health.clear(TROUBLE)
        except HoldfastError as error:
            self._health.set(TROUBLE, str(error), "error")
        except (OSError, RuntimeError) as error:
            self._health.set(TROUBLE, f"{where} was removed or replaced, and cannot be restored: {error}", "error")
        if renewed:
            text = f"{'; '.join(renewed)} while the agent ran; restored. Find the program that did this"
            self._health.set(RENEWED, text, lasts=TOLD)
        self._journal.check()

    def _renew_files(self, renewed: list[str]) -> None:
        """Restore the directory and the lock if needed; add a description of the damage to `renewed`. Blocks."""
        now = _identity(self._directory)
        if now is None:
            _set_aside(self._directory)
        private_directory(self._directory)
        if now != self._seen:
            renewed.append(f"{self._directory} was {'removed' if now is None else 'replaced'}")
            self._directory.chmod(0o700)  # another part may have created it first, readable by all
            self._seen = _identity(self._directory)
        if self._lock.renew() and not renewed:
            renewed.append(f"{self._lock.path} was removed or replaced")


def _identity(directory: Path) -> tuple[int, int] | None:
    """Return the numbers that identify a directory; None if there is none."""
    try:
        info = directory.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return (info.st_dev, info.st_ino) if stat.S_ISDIR(info.st_mode) else None


def _set_aside(path: Path) -> None:
    """Rename a path that is not a directory, or a broken link, out of the way."""
    if os.path.lexists(path):
        path.rename(path.with_name(f"{path.name}.{time.time_ns()}"))
