"""The starter: the first steps of a new process that is to run a command, up to its execution."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from holdfast.agent.host import processes
from holdfast.resources.accounts import Account

NOT_THERE = (errno.ENOENT, errno.ENOTDIR)
"""What the kernel says of a program that another directory of PATH may have."""
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""Signals that do not end a subreaper: it ends with its command."""
_prctl = ctypes.CDLL(None, use_errno=True).prctl
"""Looked up here: the new process must not load anything."""


@dataclass(frozen=True, slots=True)
class Child:
    """All that the new process of a command needs, ready before the fork."""

    who: Account | None
    """The user, where it is not the agent's own."""
    gid: int | None
    cwd: str | None
    programs: Sequence[str]
    """Paths at which the program may be."""
    argv: tuple[str, ...]
    env: Mapping[str, str]
    entrance: int | None
    """Descriptor of the control group that it enters."""
    reaped: bool
    """Whether it leaves a subreaper between the agent and the command."""
    swept: bool
    """Whether the subreaper ends what is left when the command has ended by itself."""
    files: tuple[int, int] | None
    """The limit of open files; None leaves the agent's."""
    kept: Sequence[int]
    """Descriptors that are needed up to the execution, besides the report."""
    report: int
    """Descriptor for lines: `pid NUMBER` of a command with a subreaper; `error ERRNO STEP` for what is refused, where the step is
    `cwd` if the directory was, and `group` if the control group was."""
    last: int
    """The first number that no descriptor has."""


def become(child: Child) -> NoReturn:
    """In the new process: enter the control group, become the user, enter the directory with that user's rights, and execute the command.

    `Popen` enters the directory before it changes the uid, so root's rights would lead there. It also waits, and the event loop
    with it, until the command is executed: a user's file system, a lease on a file, or the kernel when it moves a process to another group could hold that
    up. So all descriptors are closed first, and with them the one that `Popen` waits for; errors are written to `report`, which the loop reads.
    The wakeup descriptor of signals is shared with the agent: a signal that the user sends now must not count as one to the agent.

    Python code between fork and exec is safe as long as it takes no lock that another thread held at the fork. This is nothing but
    system calls: it imports nothing and logs nothing; Python itself has renewed the interpreter's locks and stopped the garbage collector.
    """
    step = ""
    try:
        signal.set_wakeup_fd(-1)
        _close_others(child)
        step = "group"
        if child.entrance is not None:
            os.write(child.entrance, b"0")
        step = ""
        if child.reaped:
            _leave_subreaper(child)
        if child.files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, child.files)
        if child.who is not None:
            os.setgroups(child.who.groups)
        if child.gid is not None:
            os.setresgid(child.gid, child.gid, child.gid)
        if child.who is not None:
            os.setresuid(child.who.uid, child.who.uid, child.who.uid)
        step = "cwd"
        _enter(child)
        step = ""
        _execute(child)
    except OSError as error:
        os.write(child.report, f"error {error.errno} {step}\n".encode())
    finally:
        os._exit(255)


def _close_others(child: Child) -> None:
    """Close all descriptors but the standard ones and those that are needed; the command inherits none of those either."""
    first = 3
    for descriptor in sorted({*child.kept, child.report}):
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, child.last)


def _leave_subreaper(child: Child) -> None:
    """Go on in a child; the process of before becomes the parent of all orphans below it, ends when that child ends, and as that child did.

    It keeps no descriptor: one of the command's directory would keep its file system from being unmounted.
    """
    if _prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "")
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.write(child.report, b"pid %d\n" % os.getpid())
        return
    _prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # no core of this process where the command leaves one
    _prctl(PR_SET_NAME, b"holdfast-reaper", 0, 0, 0)
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    os.closerange(0, child.last)
    ended = status = 0
    while ended != pid:
        ended, status = os.wait()
    if child.swept:
        processes.end(lambda: set(processes.below([os.getpid()])))
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL needs no default action
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _enter(child: Child) -> None:
    """Enter the directory; that of another user is by default its home, and / where that cannot be entered."""
    home = child.who.home if child.who is not None else "/"
    try:
        os.chdir(home if child.cwd is None else child.cwd)
    except OSError:
        if child.cwd is not None:
            raise
        os.chdir("/")


def _execute(child: Child) -> NoReturn:
    """Execute the first program of those that can be. Raises `OSError`."""
    refusal: OSError | None = None
    for program in child.programs:
        try:
            os.execve(program, child.argv, child.env)  # noqa: S606 - no shell is wanted
        except OSError as error:
            if refusal is None or refusal.errno in NOT_THERE:
                refusal = error
    raise refusal or FileNotFoundError(errno.ENOENT, "")
