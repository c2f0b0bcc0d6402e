"""How all that a command starts is held, so that it can be ended with the command, whatever it calls.

| hold | where | what escapes when the command is ended |
|---|---|---|
| `Cgroup` | systemd has delegated a control group to the agent (`Delegate=` of the unit) | what a service starts for it (systemd-run, at, cron) |
| `Subreaper` | elsewhere, where /proc tells the children of a process | the same, and all of it if the command kills its own subreaper as root |
| `Group` | without either | what has left the process group (setsid) |

A command that ends by itself keeps what it has started, as in Salt; but one that only watches something does not.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from abc import ABC, abstractmethod

from holdfast.agent.host import cgroups, processes
from holdfast.agent.loggers import Late

log = Late("holdfast.commands")


class Hold(ABC):
    """All processes of one command. `pid` is the command's own, and 0 until it is known."""

    def __init__(self) -> None:
        self.pid = 0

    def entrance(self) -> int | None:
        """A descriptor that the starter writes 0 to, or None. Raises `OSError`."""
        return None

    def begin_end(self, starter: int) -> None:  # noqa: B027 - most have nothing to do
        """The command is going to be ended, which is said before any of the following; `starter` is the process that the agent has started."""

    @abstractmethod
    def members(self) -> set[int]:
        """The processes that are known; those of the command's process group may be missing."""

    @abstractmethod
    def alive(self) -> bool:
        """Whether any of them still runs."""

    def ask(self, number: int) -> None:
        """Send all of them a signal that asks them to end."""
        processes.send_group(self.pid, number)
        for pid in self.members():
            if processes.group_of(pid) != self.pid:
                processes.send(pid, number)

    def kill(self) -> None:
        """End all of them at once; those that cannot be looked for, with the process group."""
        with contextlib.suppress(OSError):
            processes.end(self.members)
        processes.send_group(self.pid, signal.SIGKILL)

    def sweep(self) -> None:
        """The command has ended by itself, and was not waited for: end what it has started, for it was only there to watch something."""
        self.kill()

    def release(self) -> None:  # noqa: B027 - the same
        """The command is over."""


class Group(Hold):
    """The process group."""

    def members(self) -> set[int]:
        """None but those of the group."""
        return set()

    def alive(self) -> bool:
        """Whether the command itself has not ended."""
        return self.pid != 0 and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


class Subreaper(Hold):
    """A process between the agent and the command, which becomes the parent of all orphans among the command's descendants (prctl(2))."""

    def __init__(self) -> None:
        super().__init__()
        self._reaper = 0

    def begin_end(self, starter: int) -> None:
        """Stop the subreaper: with its end its orphans would leave it."""
        self._reaper = starter
        processes.send(starter, signal.SIGSTOP)

    def members(self) -> set[int]:
        """Its descendants."""
        return set(processes.below([self._reaper]))

    def alive(self) -> bool:
        """Whether any of its descendants runs."""
        return any(processes.below([self._reaper]).values())

    def sweep(self) -> None:
        """The subreaper has done so itself (`Child.swept`)."""

    def kill(self) -> None:
        """End its descendants; the subreaper then waits for the command and ends, unless it has not started that yet."""
        begun = self.pid != 0
        with contextlib.suppress(OSError):
            begun = bool(self.members())
        super().kill()
        processes.send(self._reaper, signal.SIGCONT if begun else signal.SIGKILL)


class Cgroup(Hold):
    """A control group of its own. Raises `OSError` when there can be none."""

    def __init__(self, groups: cgroups.Cgroups) -> None:
        super().__init__()
        self._groups = groups
        self._path = groups.make()

    def entrance(self) -> int:
        """Its descriptor. Raises `OSError`."""
        return cgroups.entrance(self._path)

    def members(self) -> set[int]:
        """Those in the group, and their descendants: what root runs there may have been moved elsewhere (`su` with a session of its own)."""
        inside = cgroups.members(self._path)
        return inside | processes.below(inside).keys()

    def alive(self) -> bool:
        """Whether any is left in the group."""
        return bool(cgroups.members(self._path))

    def kill(self) -> None:
        """End those in the group in one step, and those elsewhere one by one."""
        elsewhere: set[int] = set()
        with contextlib.suppress(OSError):
            elsewhere = self.members() - cgroups.members(self._path)
        cgroups.kill(self._path)
        if elsewhere:
            with contextlib.suppress(OSError):
                processes.end(lambda: elsewhere | processes.below(elsewhere).keys())
        processes.send_group(self.pid, signal.SIGKILL)

    def release(self) -> None:
        """Give the group back."""
        self._groups.release(self._path)


@functools.cache
def _groups() -> cgroups.Cgroups | None:
    """The control groups that were delegated to this process, if any; asked for once."""
    try:
        return cgroups.delegated()
    except OSError as error:
        _warn(f"commands get no control groups of their own: {error.strerror}")
        return None


@functools.cache
def _warn(text: str) -> None:
    """Say it once, not with each command."""
    log.warning(text)


_can_reap = functools.cache(processes.tells_children)
"""Whether the descendants of a subreaper can be found."""


def prepare() -> None:
    """Move this process into its own control group, and tidy up after a dead agent, before the first command."""
    _groups()


def new() -> Hold:
    """The best hold that this host allows."""
    groups = _groups()
    if groups is not None:
        try:
            return Cgroup(groups)
        except OSError as error:
            _warn(f"commands get no control groups of their own: {error.strerror}")
    return Subreaper() if _can_reap() else Group()
