"""The first steps of a new process that is to run the command of another user, up to its execution."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from holdfast.resources.accounts import Account

NOT_THERE = (errno.ENOENT, errno.ENOTDIR)
"""What the kernel says of a program that another directory of PATH may have."""


@dataclass(frozen=True, slots=True)
class Child:
    """All that the new process of another user's command needs, ready before the fork."""

    who: Account
    gid: int
    cwd: str | None
    programs: list[str]
    """Paths at which the program may be."""
    argv: tuple[str, ...]
    env: Mapping[str, str]
    report: int
    """Descriptor for what is refused: errno, a blank, and `cwd` if the directory was refused."""
    last: int
    """The first number that no descriptor has."""


def become(child: Child) -> NoReturn:
    """In the new process: become the user, enter the directory with that user's rights, and execute the command.

    `Popen` enters the directory before it changes the uid, so root's rights would lead there. It also waits, and the event loop
    with it, until the command is executed: a user's file system, or a lease on a file, could hold that up for ever. So all
    descriptors are closed first, and with them the one that `Popen` waits for; errors are written to `report`, which the loop reads.
    The wakeup descriptor of signals is shared with the agent: a signal that the user sends now must not count as one to the agent.

    Python code between fork and exec is safe as long as it takes no lock that another thread held at the fork. This is nothing but
    system calls: it imports nothing and logs nothing; Python itself has renewed the interpreter's locks and stopped the garbage collector.
    """
    step = ""
    try:
        signal.set_wakeup_fd(-1)
        os.closerange(3, child.report)
        os.closerange(child.report + 1, child.last)
        os.setgroups(child.who.groups)
        os.setresgid(child.gid, child.gid, child.gid)
        os.setresuid(child.who.uid, child.who.uid, child.who.uid)
        step = "cwd"
        try:
            os.chdir(child.who.home if child.cwd is None else child.cwd)
        except OSError:
            if child.cwd is not None:
                raise
            os.chdir("/")
        step = ""
        refusal: OSError | None = None
        for program in child.programs:
            try:
                os.execve(program, child.argv, child.env)  # noqa: S606 - no shell is wanted
            except OSError as error:
                if refusal is None or refusal.errno in NOT_THERE:
                    refusal = error
        raise refusal or FileNotFoundError(errno.ENOENT, "")
    except OSError as error:
        os.write(child.report, f"{error.errno} {step}".encode())
    finally:
        os._exit(255)
