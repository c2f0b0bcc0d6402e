"""Looks after the agent's own files while it runs: what somebody removes or replaces is made anew, and told."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from pathlib import Path

from holdfast.agent.control.server import ControlServer
from holdfast.agent.engine.journal import Journal
from holdfast.agent.health import Health
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.statedir import TOLD, Lock, private_directory
from holdfast.resources.errors import HoldfastError

PERIOD = 5.0
"""Seconds between two looks: some calls of stat, in a thread that ends with them."""
RENEWED = "state-renewed"
"""Code of the health condition that says what was made anew."""
TROUBLE = "state-trouble"
"""Code of the health condition that says what cannot be made anew, or used as it is."""


class Guard:
    """Looks after the state directory, the lock and the journal in it, and the control socket."""

    def __init__(self, directory: Path, lock: Lock, journal: Journal, server: ControlServer, health: Health) -> None:
        self._directory, self._lock, self._journal, self._server, self._health = (
            directory,
            lock,
            journal,
            server,
            health,
        )
        self._blocking = Blocking(1)
        self._seen = _identity(directory)
        """Device and inode of the directory; None while it is missing."""

    async def run(self) -> None:
        """Look again and again, for ever."""
        while True:
            await asyncio.sleep(PERIOD)
            await self.look()

    async def look(self) -> None:
        """See whether all is there; what is not is made anew, the journal soon after."""
        renewed: list[str] = []
        where = self._directory
        try:
            await self._blocking(self._renew_files, renewed)
            where = self._server.path
            if await self._blocking(self._server.lost):
                await self._server.start()
                renewed.append(f"{where} was removed or replaced")
            self._health.clear(TROUBLE)
        except HoldfastError as error:
            self._health.set(TROUBLE, str(error), "error")
        except (OSError, RuntimeError) as error:
            self._health.set(TROUBLE, f"{where} was removed or replaced, and cannot be made anew: {error}", "error")
        if renewed:
            text = f"{'; '.join(renewed)} while the agent ran; made anew. Find out who does that"
            self._health.set(RENEWED, text, lasts=TOLD)
        self._journal.check()

    def _renew_files(self, renewed: list[str]) -> None:
        """Make the directory and the lock anew, if need be; `renewed` gets what had happened. Blocks."""
        now = _identity(self._directory)
        if now is None:
            _set_aside(self._directory)
        private_directory(self._directory)
        if now != self._seen:
            renewed.append(f"{self._directory} was {'removed' if now is None else 'replaced'}")
            self._directory.chmod(0o700)  # whoever needed it first may have made it, for all to read
            self._seen = _identity(self._directory)
        if self._lock.renew() and not renewed:
            renewed.append(f"{self._lock.path} was removed or replaced")


def _identity(directory: Path) -> tuple[int, int] | None:
    """What tells a directory from others; None where there is none."""
    try:
        info = directory.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return (info.st_dev, info.st_ino) if stat.S_ISDIR(info.st_mode) else None


def _set_aside(path: Path) -> None:
    """Keep what is no directory, or a link that leads nowhere, under another name."""
    if os.path.lexists(path):
        path.rename(path.with_name(f"{path.name}.{time.time_ns()}"))
