"""Reads who a process is from /proc, at once: many processes end a moment after they have changed a file.

The command line lies in the memory of the process, and an untrusted user can block a read of it forever (a page of a
file system in user space). So the command line is read only if all user IDs of the process are those of trusted users.
The kernel keeps everything else, so no other read blocks.
"""

from __future__ import annotations

import os
import pwd
import signal
import time
from collections.abc import Mapping
from typing import NamedTuple

from holdfast.agent.host.cgroups import COMMAND, LEAF
from holdfast.resources import paths
from holdfast.resources.author import NO_LOGIN, Author

STATUS = 4096
"""Most bytes that are read from a file of /proc; the rest of a longer command line is unknown."""
GENERATIONS = 16
"""Most ancestors of a process that are compared with the agent."""
UNITS = (".service", ".scope", ".socket", ".mount", ".swap")
NAMES, FRESH = 64, 60.0
"""Most users whose names are remembered, and for how many seconds."""


class Process(NamedTuple):
    """A process that has changed something."""

    author: Author
    own: bool = False
    """The process is the agent, or works for it."""


class Processes:
    """Reads processes, and recognises those of the agent: itself, and its commands with their descendants."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._base = _group(self._pid).removesuffix(f"/{LEAF}")
        """The group that contains those of the agent and of its commands, if one was delegated to it."""
        self._names: dict[int, tuple[str, float]] = {}
        """User -> name, and the time until which it is used again."""

    def read(self, pid: int, pidfd: int) -> Process:
        """Return who a process is; only its number if it has ended. The descriptor guards against a reused number."""
        if pidfd < 0 or pid <= 0:
            return Process(Author(max(pid, 0)))
        if pid == self._pid:
            return Process(Author(pid), own=True)
        try:
            found = self._look(pid)
            signal.pidfd_send_signal(pidfd, 0)  # the process still has its number, so the right process was read
        except (OSError, KeyError, ValueError):
            return Process(Author(pid))
        return found

    def _look(self, pid: int) -> Process:
        """Return what the number stands for. Raises `OSError`, `KeyError` or `ValueError` if the process has ended."""
        status = _status(pid)
        uids = [int(uid) for uid in status["Uid"].split()]
        command = _command(pid) if paths.trusted_uids().issuperset(uids) else ""
        group = _group(pid)
        login = int(_read(pid, "loginuid") or NO_LOGIN)
        if self._is_own(group, status):
            return Process(Author(pid), own=True)
        user, login_user = self._name(uids[1]), "" if login == NO_LOGIN else self._name(login)
        return Process(Author(pid, status["Name"], command, uids[1], user, login_user, _unit(group)))

    def _is_own(self, group: str, status: Mapping[str, str]) -> bool:
        """Return whether a process is in a group of the agent, or in the agent's group and descends from it."""
        if group == self._base:
            return self._descends(status)
        inside = group.removeprefix(f"{self._base}/")
        return inside != group and (inside == LEAF or inside.startswith(COMMAND))

    def _descends(self, status: Mapping[str, str]) -> bool:
        """Return whether the agent is among the ancestors of a process with this status. Raises `OSError`."""
        for _ in range(GENERATIONS):
            parent = int(status["PPid"])
            if parent == self._pid:
                return True
            if parent <= 1:
                return False
            status = _status(parent)
        return False

    def _name(self, uid: int) -> str:
        """Return the name of a user; the number if there is none. A name service may block."""
        now = time.monotonic()
        name, until = self._names.get(uid, ("", 0.0))
        if until < now:
            try:
                name = pwd.getpwuid(uid).pw_name
            except KeyError:
                name = str(uid)
            if len(self._names) >= NAMES:
                self._names.clear()
            self._names[uid] = name, now + FRESH
        return name


def _status(pid: int) -> Mapping[str, str]:
    """Return the fields of /proc/PID/status. A name cannot forge a field: the kernel escapes line feeds in it."""
    lines = _read(pid, "status").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _command(pid: int) -> str:
    return _read(pid, "cmdline").rstrip("\0").replace("\0", " ")


def _group(pid: int) -> str:
    """Return the path of the control group in the hierarchy of systemd."""
    for line in _read(pid, "cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" or controllers == "name=systemd":
            return path.rstrip("/")
    return ""


def _read(pid: int, name: str) -> str:
    """Return the beginning of a file of /proc; empty if the kernel does not have this file. Raises `OSError`."""
    try:
        descriptor = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        if name in ("status", "cmdline"):
            raise
        return ""
    try:
        return os.fsdecode(os.read(descriptor, STATUS))
    finally:
        os.close(descriptor)


def _unit(group: str) -> str:
    """Return the innermost unit of a control group; empty for a group without one."""
    return next((part for part in reversed(group.split("/")) if part.endswith(UNITS)), "")
