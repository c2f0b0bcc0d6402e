"""Processes by their ids: who descends from whom, and how they are signalled and ended."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable

ROUNDS = 50
"""Times that new processes are looked for; the second or third look finds none, unless somebody wants to get away."""
DEAD = (b"Z", b"X")
"""States of processes that have ended."""


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


def below(roots: Iterable[int]) -> dict[int, bool]:
    """All descendants of these processes, without the processes themselves: process id -> whether it still runs. Raises `OSError` without /proc."""
    children: dict[int, list[int]] = {}
    running = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - Path objects are slow
        if name.isdigit() and (seen := _status(name)) is not None:
            state, parent = seen
            children.setdefault(parent, []).append(int(name))
            running[int(name)] = state not in DEAD
    found: dict[int, bool] = {}
    waiting = list(roots)
    while waiting:
        new = [pid for pid in children.get(waiting.pop(), ()) if pid not in found]
        found |= {pid: running[pid] for pid in new}
        waiting += new
    return found


def _status(pid: str) -> tuple[bytes, int] | None:
    """(state, parent) of a process; None for one that is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - the same
            fields = file.read(4096).rpartition(b") ")[2].split()
    except OSError:
        return None
    return (fields[0], int(fields[1])) if len(fields) > 1 else None


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
