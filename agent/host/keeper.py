"""The keeper: a small process between the agent and one long-running process, which ends with the agent.

The keeper starts that process.

It adopts all orphans below the process that it keeps, so that none of its descendants escapes. It ends them when the
process ends, and when the pipe from the agent is closed: by the agent, or because the agent has died. It runs as the
agent's user, so that the process cannot end it.

The module is executed by an interpreter without other libraries (`forkserver.program`).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import marshal
import os
import resource
import select
import signal
import time
from typing import NamedTuple, NoReturn

from holdfast.agent.host import processes

PR_SET_NAME, PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE = 15, 36, 4
IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""Signals that the keeper ignores: it ends when the process or the agent ends."""
RESTORED = (*IGNORED, signal.SIGPIPE, signal.SIGXFSZ)
"""Signals whose default action the process gets: those that Python or the keeper ignores."""
REAP = 2.0
"""Seconds to wait for killed processes. One that is stuck in the kernel must not hold up the agent."""
PAUSE = 0.005
"""Seconds between two checks of them."""


class Kept(NamedTuple):
    """The process to keep. `marshal` can write every field."""

    argv: list[bytes]
    env: dict[bytes, bytes]
    account: tuple[int, int, list[int]] | None
    """uid, gid and groups; None keeps those of the agent."""
    memory: int
    """Bytes of address space; 0: no limit."""
    files: int
    """Most files that it may have open."""
    streams: tuple[int, int]
    """Descriptors of its standard output and standard error."""
    passed: int
    """A further descriptor that it gets."""
    home: bytes
    """Directory that is removed when it has ended."""
    timeout: float
    """Seconds in which it must end by itself."""


def keep(request: int, lifeline: int, report: int) -> NoReturn:
    """Start the process that `request` describes, and keep it until it ends or `lifeline` is closed.

    Lines of the report: `pid PID`, or `error ERRNO STEP` if it cannot be started; `ended STATUS` at the end.
    """
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_NAME, b"holdfast-keeper", 0, 0, 0)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    kept = Kept(*marshal.loads(os.pread(request, os.fstat(request).st_size, 0)))  # noqa: S302 - written by the agent
    os.close(request)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writing)
        _become(kept, reading, report)
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    for descriptor in {reading, *kept.streams, kept.passed}:
        os.close(descriptor)
    _report(report, b"pid %d\n" % pid)
    _wait(pid, lifeline, writing, kept.timeout)
    status = _end(pid)
    _remove(kept.home)
    _report(report, b"ended %d\n" % status)
    os._exit(0)


def _report(report: int, line: bytes) -> None:
    """Write a line of the report; the agent may have died meanwhile."""
    with contextlib.suppress(BrokenPipeError):
        os.write(report, line)


def _become(kept: Kept, stdin: int, report: int) -> NoReturn:
    """Turn the new process into the one to keep."""
    step = b""
    try:
        os.setsid()
        for number, descriptor in enumerate((stdin, *kept.streams)):
            os.dup2(descriptor, number)
        os.set_inheritable(report, False)
        os.set_inheritable(kept.passed, True)
        for descriptor in set(range(3, max(report, kept.passed, *kept.streams, stdin) + 8)) - {report, kept.passed}:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        for number in RESTORED:
            signal.signal(number, signal.SIG_DFL)
        os.umask(0o077)
        os.chdir("/")
        step = b"limits"
        try:
            _limit(kept)
        except (ValueError, OverflowError) as error:  # what `setrlimit` raises above the hard limit
            raise OSError(errno.EPERM, str(error)) from None
        step = b"user"
        if kept.account is not None:
            uid, gid, groups = kept.account
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        step = b"program"
        os.execvpe(kept.argv[0], kept.argv, kept.env)  # noqa: S606 - no shell is wanted
    except OSError as error:
        os.write(report, b"error %d %s\n" % (error.errno or 0, step))
    finally:
        os._exit(127)


def _limit(kept: Kept) -> None:
    """Set the limits of the process."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = kept.files if most == resource.RLIM_INFINITY else min(kept.files, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    _forbid_core()
    if kept.memory:
        resource.setrlimit(resource.RLIMIT_AS, (kept.memory, kept.memory))


def _forbid_core() -> None:
    """Let the process leave no core, which would hold the secrets of its configuration.

    A limit of 0 forbids only files. At 1 byte, the kernel also gives no core to the program that `core_pattern` names.
    """
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    except ValueError:  # an agent without this right has the limit 0
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _wait(pid: int, lifeline: int, stdin: int, timeout: float) -> None:
    """Wait until the process has ended.

    When the agent has closed the lifeline, the keeper closes the standard input of the process. Near the end of
    `timeout`, it sends SIGTERM. A byte in the lifeline ends the process at once.
    """
    ended = os.pidfd_open(pid)
    waiting = select.poll()
    waiting.register(lifeline, select.POLLIN | select.POLLHUP)
    waiting.register(ended, select.POLLIN)
    if ended not in dict(waiting.poll()):
        os.close(stdin)
        waiting.unregister(lifeline)
        if os.read(lifeline, 1):
            return
        if not waiting.poll(timeout * 800):
            processes.send_group(pid, signal.SIGTERM)
            waiting.poll(timeout * 200)


def _end(pid: int) -> int:
    """Kill what is left of the process and of its descendants; return the status of the process."""
    status = processes.UNKNOWN
    own = os.getpid()
    with contextlib.suppress(OSError):
        processes.end(lambda: processes.children(own))
    processes.send_group(pid, signal.SIGKILL)
    until = time.monotonic() + REAP
    while time.monotonic() < until:
        try:
            reaped, how = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if reaped == pid:
            status = os.waitstatus_to_exitcode(how)
        if not reaped:
            time.sleep(PAUSE)
    return status


def _remove(home: bytes) -> None:
    """Remove the directory of the process, whatever it has put there."""
    import shutil  # noqa: PLC0415 - it takes memory, which the process has no longer

    with contextlib.suppress(RecursionError):
        shutil.rmtree(home, ignore_errors=True)  # by descriptors: links lead nowhere else
