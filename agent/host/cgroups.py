"""Control groups for commands, below the one that systemd has delegated to the agent (`Delegate=` of the unit).

    holdfast.service/           delegated by systemd, which leaves everything below it alone
        agent                   the agent
        command-1, -2, ...      one command each, with all its descendants

An unprivileged process cannot leave its group by itself, so a group knows all descendants of its command. Processes
that a service starts on request (`systemd-run`, also `--user`; at; cron) are not descendants. No controllers are
enabled: the groups neither limit nor account for anything. systemd's rules: https://systemd.io/CGROUP_DELEGATION; the
kernel's: cgroups(7).
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections import deque
from pathlib import Path

from holdfast.agent.host import processes
from holdfast.resources.paths.mounts import TABLE, unescaped

LEAF = "agent"
"""The agent's own group. The kernel allows processes only in groups without child groups."""
COMMAND = "command-"
MARKS = ("user.delegate", "trusted.delegate")
"""Extended attributes with which systemd marks a delegated group: from version 251 on, and in older versions."""
TRIES = 2
"""Left-over groups to check when a command ends: more than one command can add, so all are removed in the end."""


class Cgroups:
    """The groups of the agent's commands, in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = itertools.count(1)
        self._left: deque[Path] = deque()
        """Groups of ended commands that still contain descendants."""

    def make(self) -> Path:
        """Make a group, and return its path. Raises `OSError`."""
        while True:
            path = self._directory / f"{COMMAND}{next(self._numbers)}"
            try:
                path.mkdir()
            except FileExistsError:  # left over from an agent that died
                continue
            return path

    def release(self, path: Path) -> None:
        """Remove a group: now if it is empty, else when a later command ends."""
        if not _removed(path):
            self._left.append(path)
        for _ in range(min(TRIES, len(self._left))):
            other = self._left.popleft()
            if not _removed(other):
                self._left.append(other)

    def adopt(self) -> None:
        """Remove the groups left over from an agent that died, now or when they are empty. Raises `OSError`."""
        self._left.extend(path for path in self._directory.glob(f"{COMMAND}*") if not _removed(path))


def delegated() -> Cgroups | None:
    """Return the groups below the one that systemd has delegated to this process; None if there is no such group.

    This process is moved into a leaf of its own. Raises `OSError` if the system refuses that.
    """
    own = _own()
    if own is None:
        return None
    if not _is_delegated(own) and own.name == LEAF:
        own = own.parent  # this process has already been moved
    if not _is_delegated(own):
        return None
    leaf = own / LEAF
    leaf.mkdir(exist_ok=True)
    enter = entrance(leaf)
    try:
        os.write(enter, b"0")
    finally:
        os.close(enter)
    found = Cgroups(own)
    found.adopt()
    return found


def _own() -> Path | None:
    """Return the directory of this process's group; None without control groups of version 2."""
    groups = os.fsdecode(Path("/proc/self/cgroup").read_bytes()).splitlines()
    mounts = [line.split() for line in Path(TABLE).read_bytes().splitlines() if b" - cgroup2 " in line]
    for inside in (line.removeprefix("0::") for line in groups if line.startswith("0::/")):
        for fields in mounts:
            top, point = unescaped(fields[3]), unescaped(fields[4])
            if Path(inside).is_relative_to(top):
                return Path(point) / Path(inside).relative_to(top)
    return None


def _is_delegated(path: Path) -> bool:
    """Return whether systemd has marked a group as delegated to this process's user."""
    if path.stat().st_uid != os.geteuid():
        return False
    for mark in MARKS:
        with contextlib.suppress(OSError):
            if os.getxattr(path, mark) == b"1":
                return True
    return False


def entrance(path: Path) -> int:
    """Return a descriptor of a group: a process that writes 0 to it moves there. Raises `OSError`."""
    return os.open(path / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)


def members(path: Path) -> set[int]:
    """Return all processes of a group and of the groups below it."""
    found: set[int] = set()
    for directory, _, _ in os.walk(path):
        with contextlib.suppress(OSError):  # the group is gone
            found.update(map(int, Path(directory, "cgroup.procs").read_bytes().split()))
    return found - {0}


def kill(path: Path) -> None:
    """Kill all processes of a group and of the groups below it, in one atomic step that no fork escapes."""
    try:
        _set(path, "cgroup.kill")
    except OSError:  # before Linux 5.14: freeze, so that nothing forks, then kill
        with contextlib.suppress(OSError):
            _set(path, "cgroup.freeze")
        processes.end(lambda: members(path))


def _set(path: Path, name: str) -> None:
    """Write a control file of a group. Raises `OSError`."""
    descriptor = os.open(path / name, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, b"1")
    finally:
        os.close(descriptor)


def _removed(path: Path) -> bool:
    """Remove a group and those below it if all are empty; return whether the group is gone."""
    try:
        for directory, _, _ in os.walk(path, topdown=False):
            Path(directory).rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
