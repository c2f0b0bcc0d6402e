"""Processes by their ids: who descends from whom, and how they are signalled and ended."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable

ROUNDS = 50
"""Times that new processes are looked for; the second or third look finds none, unless somebody wants to get away."""
LOOKS = 5
"""Looks for descendants at most: without a fork bomb the second or third finds nothing new."""
DEAD = (b"Z", b"X")
"""States of processes that have ended."""
GONE = (FileNotFoundError, ProcessLookupError)
UNKNOWN = 255
"""The status of a process for which somebody else has waited."""


def send(pid: int, number: int) -> None:
    """Send a signal to a process, if it is still there and may be signalled.

    The numbers below 2 mean others than one process: 0 the agent's own group, -1 all that there are. They are never meant, and neither is init.
    """
    if pid > 1:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def send_group(group: int, number: int) -> None:
    """Send a signal to all processes of a process group; the same holds for its number."""
    if group > 1:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)


def group_of(pid: int) -> int:
    """The process group of a process; 0 for one that is gone."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


def waited(pid: int) -> int | None:
    """How a child of this process has ended, waited for now: its status, or the negative number of a signal; None while it runs."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # somebody else has waited for it
        return UNKNOWN
    return os.waitstatus_to_exitcode(status) if ended else None


def below(roots: Iterable[int]) -> dict[int, bool]:
    """All descendants of these processes, without the processes themselves: process id -> whether it still runs.

    Only they are looked at, however many processes the host has. One whose parent ends during a look may be missed by it, for it goes to another
    parent; so looks are repeated until one finds nothing new. Raises `OSError` when too many files are open.
    """
    tops = list(roots)
    found: dict[int, bool] = {}
    for _ in range(LOOKS):
        known = len(found)
        found |= _look(tops)
        if len(found) == known:
            break
    return found


def _look(roots: list[int]) -> dict[int, bool]:
    """The same, as far as one look finds them."""
    found: dict[int, bool] = {}
    waiting = list(roots)
    while waiting:
        new = [pid for pid in _children(waiting.pop()) if pid not in found]
        found |= {pid: _runs(pid) for pid in new}
        waiting += new
    return found


def tells_children() -> bool:
    """Whether the kernel tells the children of a process (CONFIG_PROC_CHILDREN), and /proc is there."""
    return os.access(f"/proc/{os.getpid()}/task/{os.getpid()}/children", os.R_OK)


def _children(pid: int) -> list[int]:
    """The children of a process, dead ones too as long as nobody has waited for them; none of one that is gone."""
    found: list[int] = []
    with contextlib.suppress(*GONE):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - Path objects are slow
            with contextlib.suppress(*GONE):
                found += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
    return found


def _runs(pid: int) -> bool:
    """Whether a process has not ended."""
    try:
        return _read(f"/proc/{pid}/stat").rpartition(b") ")[2][:1] not in DEAD
    except GONE:
        return False


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - the same
        return file.read()


def end(members: Callable[[], set[int]]) -> None:
    """Kill all processes that `members` finds, and what they start meanwhile: all are stopped first, for a stopped process starts nothing.

    `members` finds dead ones, too, as long as nobody has waited for them: those that fork and end between two looks are noticed by that. Once a look
    finds nothing that was not there before, all are stopped.
    """
    known: set[int] = set()
    for _ in range(ROUNDS):
        new = members() - known
        if not new:
            break
        for pid in new:
            send(pid, signal.SIGSTOP)
        known |= new
    for pid in known:
        send(pid, signal.SIGKILL)
