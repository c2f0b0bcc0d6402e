"""Processes by their ids: descendants, signals, and how processes end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable

CHASE = 2.0
"""Most seconds for stopping processes. The second or third scan finds nothing new, unless a process tries to escape."""
LOOKS = 5
"""Most scans for descendants. Without a fork bomb the second or third scan finds nothing new."""
DEAD = (b"Z", b"X")
"""States of processes that have ended."""
GONE = (FileNotFoundError, ProcessLookupError)
UNKNOWN = 255
"""Status of a process that another waiter has reaped."""


def send(pid: int, number: int) -> None:
    """Send a signal to a process, if it exists and may be signalled.

    Numbers below 2 are ignored: 0 means the agent's own process group, -1 all processes, and 1 is init.
    """
    if pid > 1:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def send_group(group: int, number: int) -> None:
    """Send a signal to all processes of a process group. Numbers below 2 are ignored, as in `send`."""
    if group > 1:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)


def group_of(pid: int) -> int:
    """Return the process group of a process; 0 if the process is gone."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


def waited(pid: int) -> int | None:
    """Reap a child of this process: its exit status, or the negative number of a signal; None while it runs."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # another waiter has reaped it
        return UNKNOWN
    return os.waitstatus_to_exitcode(status) if ended else None


def below(roots: Iterable[int]) -> dict[int, bool]:
    """Return all descendants of these processes, without the processes themselves: process id -> whether it still runs.

    Only descendants are read, however many processes the host has. A process whose parent ends during a scan gets
    another parent, and the scan may miss it. So scans are repeated until one finds nothing new. Raises `OSError` when
    too many files are open.
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
    """Return the descendants that one scan finds."""
    found: dict[int, bool] = {}
    waiting = list(roots)
    while waiting:
        new = [pid for pid in children(waiting.pop()) if pid not in found]
        found |= {pid: _runs(pid) for pid in new}
        waiting += new
    return found


def tells_children() -> bool:
    """Return whether the kernel lists the children of a process (CONFIG_PROC_CHILDREN), and /proc is mounted."""
    return os.access(f"/proc/{os.getpid()}/task/{os.getpid()}/children", os.R_OK)


def _runs(pid: int) -> bool:
    """Return whether a process has not ended."""
    try:
        return _read(f"/proc/{pid}/stat").rpartition(b") ")[2][:1] not in DEAD
    except GONE:
        return False


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - the same
        return file.read()


def children(pid: int) -> list[int]:
    """Return the children of a process, the newest last, zombies included; none if the process is gone."""
    found: list[int] = []
    with contextlib.suppress(*GONE):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - Path objects are slow
            with contextlib.suppress(*GONE):
                found += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
    return found


def end(tops: Callable[[], Iterable[int]]) -> None:
    """Kill the processes that `tops` returns, with all descendants, and those that they start meanwhile.

    All are stopped first, because a stopped process starts nothing. A process may replace itself between two scans
    again and again: it forks, and its parent exits. So each process is stopped as soon as it is seen, the newest one
    first. `tops` also returns zombies, which reveal that there are such processes. Once a scan finds nothing new, all
    processes are stopped. Raises `OSError` when too many files are open; those that were found are killed nevertheless.
    """
    known: set[int] = set()
    ended: set[int] = set()
    until = time.monotonic() + CHASE
    new = True
    try:
        while new and time.monotonic() < until:
            new = _stop(list(tops()), known, ended)
    finally:
        for pid in known:
            send(pid, signal.SIGKILL)


def _stop(waiting: list[int], known: set[int], ended: set[int]) -> bool:
    """Stop these processes and their descendants; return whether some were unknown. Add all to the sets."""
    before = len(known)
    while waiting:
        pid = waiting.pop()
        if pid not in known:
            send(pid, signal.SIGSTOP)
            known.add(pid)
        if pid not in ended:
            waiting += children(pid)
            if not _runs(pid):
                ended.add(pid)  # the process has no children any more, and is not read again
    return len(known) > before
