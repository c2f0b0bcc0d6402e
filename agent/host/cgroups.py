"""Control groups for commands, below the one that systemd has delegated to the agent (`Delegate=` of the unit).

    holdfast.service/           delegated by systemd, which leaves everything below it alone
        agent                   the agent
        command-1, -2, ...      one command each, with all that it has started

An unprivileged process cannot leave its group by itself, so a group knows all descendants of its command. What a service starts for it (`systemd-run`, also
`--user`; at; cron) is no descendant. No controllers are turned on: the groups limit and count nothing. systemd's rules: https://systemd.io/CGROUP_DELEGATION; the kernel's: cgroups(7).
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
"""The agent's own group: by the kernel's rule, processes belong into groups without others below."""
COMMAND = "command-"
MARKS = ("user.delegate", "trusted.delegate")
"""Extended attributes by which systemd says that a group is delegated: from version 251 on, and before."""
TRIES = 2
"""Groups of ended commands that are looked at when another command ends: more than come, so that all are removed in the end."""


class Cgroups:
    """The groups of the agent's commands, in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = itertools.count(1)
        self._left: deque[Path] = deque()
        """Groups of commands that are over, but not all that they have started."""

    def make(self) -> Path:
        """Make a group, and return its path. Raises `OSError`."""
        while True:
            path = self._directory / f"{COMMAND}{next(self._numbers)}"
            try:
                path.mkdir()
            except FileExistsError:  # one that a dead agent has left
                continue
            return path

    def release(self, path: Path) -> None:
        """Remove a group when nothing runs in it, which may be now or when a later command ends."""
        if not _removed(path):
            self._left.append(path)
        for _ in range(min(TRIES, len(self._left))):
            other = self._left.popleft()
            if not _removed(other):
                self._left.append(other)

    def adopt(self) -> None:
        """Remove the groups that a dead agent has left, now or when they are empty. Raises `OSError`."""
        self._left.extend(path for path in self._directory.glob(f"{COMMAND}*") if not _removed(path))


def delegated() -> Cgroups | None:
    """The groups below the one that systemd has delegated to this process, which is moved into a leaf of its own; None where there is no such group.

    Raises `OSError` where the system refuses that.
    """
    own = _own()
    if own is None:
        return None
    if not _is_delegated(own) and own.name == LEAF:
        own = own.parent  # this process has been moved already
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
    """The directory of this process's group; None without control groups of version 2."""
    groups = os.fsdecode(Path("/proc/self/cgroup").read_bytes()).splitlines()
    mounts = [line.split() for line in Path(TABLE).read_bytes().splitlines() if b" - cgroup2 " in line]
    for inside in (line.removeprefix("0::") for line in groups if line.startswith("0::/")):
        for fields in mounts:
            top, point = unescaped(fields[3]), unescaped(fields[4])
            if Path(inside).is_relative_to(top):
                return Path(point) / Path(inside).relative_to(top)
    return None


def _is_delegated(path: Path) -> bool:
    """Whether systemd has marked a group as delegated to this process's user."""
    if path.stat().st_uid != os.geteuid():
        return False
    for mark in MARKS:
        with contextlib.suppress(OSError):
            if os.getxattr(path, mark) == b"1":
                return True
    return False


def entrance(path: Path) -> int:
    """A descriptor of a group: a process that writes 0 to it moves there. Raises `OSError`."""
    return os.open(path / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)


def members(path: Path) -> set[int]:
    """All processes of a group and of the groups below it."""
    found: set[int] = set()
    for directory, _, _ in os.walk(path):
        with contextlib.suppress(OSError):  # it is gone
            found.update(map(int, Path(directory, "cgroup.procs").read_bytes().split()))
    return found - {0}


def kill(path: Path) -> None:
    """Kill all processes of a group and of the groups below it, in one step that no fork escapes."""
    try:
        _set(path, "cgroup.kill")
    except OSError:  # before Linux 5.14: a frozen process starts nothing, and can be killed
        with contextlib.suppress(OSError):
            _set(path, "cgroup.freeze")
        processes.end(lambda: members(path))


def _set(path: Path, name: str) -> None:
    """Set a switch of a group. Raises `OSError`."""
    descriptor = os.open(path / name, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, b"1")
    finally:
        os.close(descriptor)


def _removed(path: Path) -> bool:
    """Remove a group and those below it, if all are empty; whether it is gone."""
    try:
        for directory, _, _ in os.walk(path, topdown=False):
            Path(directory).rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
