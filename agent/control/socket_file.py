"""The file of a socket at which the agent listens."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path

from holdfast.agent.control.schema import address, unix_socket
from holdfast.agent.paths import demand_safe
from holdfast.resources import paths
from holdfast.resources.paths import trusted_uids
from holdfast.states.source.hostfiles import absolute


class SocketFile:
    """One socket file, for the agent's user alone or, with a group, for the members of that group, too."""

    def __init__(self, path: Path, advice: str) -> None:
        self.path = path
        self._advice = advice
        """How to choose another path, for errors."""
        self._made: tuple[int, int] | None = None
        """Device and inode of the file that was made last."""

    def make(self, group: int | None = None) -> socket.socket:
        """Make the file and return its socket, which does not listen yet.

        Replaces the socket of a dead agent: the caller holds the lock. The file has mode 0600 from the start, and 0660
        after it belongs to the group.

        Raises `OSError`, also if another kind of file is there, and `HoldfastError` if untrusted users could replace
        the socket.
        """
        demand_safe(self.path, "listen at", self._advice)
        paths.make_parents(absolute(self.path))
        place = paths.at(absolute(self.path))
        info = place.look()
        if info is not None and stat.S_ISSOCK(info.st_mode) and info.st_uid in trusted_uids():
            place.unlink()
        listener = unix_socket()
        try:
            os.fchmod(listener.fileno(), 0o600)  # the file has this mode from the start; other threads share the umask
            with address(self.path) as name:
                listener.bind(name)
            seen = place.look()
            if group is not None and seen is not None:
                paths.change(place, seen, gid=group, mode=0o660)
        except BaseException:
            listener.close()
            raise
        self._made = self._found()
        return listener

    def lost(self) -> bool:
        """Return whether the file is no longer the one that was made. Blocks."""
        return self._made is None or self._found() != self._made

    def remove(self) -> None:
        """Remove the file, if possible."""
        with contextlib.suppress(OSError, paths.Unsafe):
            paths.at(absolute(self.path)).unlink()

    def _found(self) -> tuple[int, int] | None:
        try:
            info = paths.at(absolute(self.path)).look()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return None if info is None else (info.st_dev, info.st_ino)
