"""Containment of commands: ends a command together with all processes that it has started.

| containment | where | what escapes when the command is ended |
|---|---|---|
| `Cgroup` | systemd has delegated a control group (`Delegate=`) | what services start for it (systemd-run, at, cron) |
| `Subreaper` | else, if /proc lists children | the same; everything, if the command kills its subreaper as root |
| `ProcessGroup` | else | processes that have left the process group (setsid) |

A command that ends by itself leaves its descendants running, as in Salt, unless it only watches something.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from abc import ABC, abstractmethod

from holdfast.agent.host import cgroups, processes
from holdfast.agent.loggers import LazyLogger

log = LazyLogger("holdfast.commands")


class Containment(ABC):
    """All processes of one command. `pid` is the id of the command itself, 0 until it is known."""

    def __init__(self) -> None:
        self.pid = 0

    def entrance(self) -> int | None:
        """Return a descriptor to which the starting process writes 0, or None. Raises `OSError`."""
        return None

    def begin_end(self, starter: int) -> None:  # noqa: B027 - most have nothing to do
        """Prepare to end the command.

        Call this before any of the methods below. `starter` is the process that the agent has started.
        """

    @abstractmethod
    def members(self) -> set[int]:
        """Return the known processes; those of the command's process group may be missing."""

    @abstractmethod
    def alive(self) -> bool:
        """Return whether any of the processes runs."""

    def ask(self, number: int) -> None:
        """Send all processes a signal that asks them to end."""
        processes.send_group(self.pid, number)
        for pid in self.members():
            if processes.group_of(pid) != self.pid:
                processes.send(pid, number)

    def kill(self) -> None:
        """Kill the processes of the command's process group."""
        processes.send_group(self.pid, signal.SIGKILL)

    def sweep(self) -> None:
        """Kill the descendants of a watching command that has ended by itself, without waiting for their end."""
        self.kill()

    def release(self) -> None:  # noqa: B027 - the same
        """Release resources: the command is over."""


class ProcessGroup(Containment):
    """The process group."""

    def members(self) -> set[int]:
        """Return no processes: a signal to the group needs no list."""
        return set()

    def alive(self) -> bool:
        """Return whether the command itself runs."""
        return self.pid != 0 and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


class Subreaper(Containment):
    """A process between agent and command that adopts all orphans among the command's descendants (prctl(2))."""

    def __init__(self) -> None:
        super().__init__()
        self._reaper = 0

    def begin_end(self, starter: int) -> None:
        """Stop the subreaper process: if it ended now, its orphans would get another parent."""
        self._reaper = starter
        processes.send(starter, signal.SIGSTOP)

    def members(self) -> set[int]:
        """Return the descendants of the subreaper."""
        return set(processes.below([self._reaper]))

    def alive(self) -> bool:
        """Return whether any descendant runs."""
        return any(processes.below([self._reaper]).values())

    def sweep(self) -> None:
        """Nothing to do: the subreaper itself does this (`Child.swept`)."""

    def kill(self) -> None:
        """Kill the descendants.

        The subreaper then reaps the command and ends; one that has not started the command is killed.
        """
        begun = self.pid != 0
        with contextlib.suppress(OSError):
            begun = bool(processes.children(self._reaper))
            processes.end(lambda: processes.children(self._reaper))
        super().kill()  # of those that could not be found
        processes.send(self._reaper, signal.SIGCONT if begun else signal.SIGKILL)


class Cgroup(Containment):
    """A control group for the command. Raises `OSError` if none can be made."""

    def __init__(self, groups: cgroups.Cgroups) -> None:
        super().__init__()
        self._groups = groups
        self._path = groups.make()

    def entrance(self) -> int:
        """Return a descriptor of the group. Raises `OSError`."""
        return cgroups.entrance(self._path)

    def members(self) -> set[int]:
        """Return the processes in the group, and their descendants.

        Root may have moved these to another group (`su` with its own session).
        """
        inside = cgroups.members(self._path)
        return inside | processes.below(inside).keys()

    def alive(self) -> bool:
        """Return whether a process is left in the group."""
        return bool(cgroups.members(self._path))

    def kill(self) -> None:
        """Kill the processes in the group in one step, and those elsewhere one by one."""
        elsewhere: set[int] = set()
        with contextlib.suppress(OSError):
            elsewhere = self.members() - cgroups.members(self._path)
        cgroups.kill(self._path)
        if elsewhere:
            with contextlib.suppress(OSError):
                processes.end(lambda: elsewhere)
        processes.send_group(self.pid, signal.SIGKILL)

    def release(self) -> None:
        """Release the group."""
        self._groups.release(self._path)


@functools.cache
def _groups() -> cgroups.Cgroups | None:
    """Return the control groups delegated to this process, or None; looked up once."""
    try:
        return cgroups.delegated()
    except OSError as error:
        _warn(f"commands get no control groups of their own: {error.strerror}")
        return None


@functools.cache
def _warn(text: str) -> None:
    """Log a warning once, not with each command."""
    log.warning(text)


_can_reap = functools.cache(processes.tells_children)
"""Whether /proc can list the descendants of a subreaper."""


def prepare() -> None:
    """Move this process into a leaf control group and clean up after a dead agent, before the first command."""
    _groups()


def new() -> Containment:
    """Return the best containment that this host allows."""
    groups = _groups()
    if groups is not None:
        try:
            return Cgroup(groups)
        except OSError as error:
            _warn(f"commands get no control groups of their own: {error.strerror}")
    return Subreaper() if _can_reap() else ProcessGroup()
