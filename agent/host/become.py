"""The fork server: a small process that starts each command of the agent in a child of its own.

This module has both sides of a start: the server's loop, and the steps of the child until it executes the command.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import marshal
import mmap
import os
import resource
import signal
import socket
from typing import NamedTuple, NoReturn

from holdfast.agent.host import processes

NOT_THERE = (errno.ENOENT, errno.ENOTDIR)
"""Errors of the kernel after which the program may still be in another directory of PATH."""
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
CLONE_PARENT = 0x8000
STACK = 1 << 20
"""Bytes of address space for the stack of a new process; the kernel allocates memory only for the pages in use."""
IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""Signals that a subreaper ignores: it ends when its command ends."""
RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python ignores; programs expect their default action."""
PASSED = 7
"""Most descriptors of one request: child, report, standard input, output and error, control group, directory."""
_libc = ctypes.PyDLL(None, use_errno=True)
"""The C library, loaded with `PyDLL`, which keeps the interpreter's lock: the new process runs Python and needs it."""


class Child(NamedTuple):
    """All that the new process of a command needs.

    `marshal` can write every field; texts are bytes, as the system expects.
    """

    account: tuple[int, list[int]] | None
    """uid and groups; None keeps those of the agent."""
    gid: int | None
    umask: int | None
    """None keeps the agent's."""
    cwd: bytes | None
    """Directory to enter; None means `home`, or / if the process cannot enter `home`."""
    home: bytes
    programs: list[bytes]
    """Paths to try for the program, in order."""
    argv: list[bytes]
    env: dict[bytes, bytes]
    grouped: bool
    """Whether a descriptor of the control group to enter is passed."""
    opened: bool
    """Whether a descriptor of the directory to enter is passed, in place of `cwd`."""
    reaped: bool
    """Whether a subreaper stays between the agent and the command."""
    swept: bool
    """Whether the subreaper ends the remaining descendants when the command has ended by itself."""
    files: tuple[int, int] | None
    """Limits (soft, hard) of open files; None keeps the agent's."""


def serve(number: int) -> None:
    """Start a command for each message on the socket with this descriptor, until the agent closes its end or ends.

    A message is one byte, with the descriptors that `PASSED` counts. The new process is a child of the agent
    (`CLONE_PARENT`), which waits for it as for any other child, so no running command depends on the fork server. The
    child reads the request itself: no secret of a command stays in the memory of the fork server.
    """
    _libc.prctl(PR_SET_NAME, b"holdfast-fork", 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    agent = socket.socket(fileno=number)
    stack = mmap.mmap(-1, STACK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # each child has its own copy of it
    top = ctypes.addressof(ctypes.c_char.from_buffer(stack)) + STACK
    passed: list[int] = []

    def begin(_: object) -> int:
        become(passed)

    entry = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(begin)
    while True:
        data, passed[:], _, _ = socket.recv_fds(agent, 1, PASSED)
        if not data:
            return
        if _libc.clone(entry, ctypes.c_void_p(top), CLONE_PARENT | signal.SIGCHLD, None) < 0:
            _tell(passed[1], b"error %d \n" % ctypes.get_errno())
        for descriptor in passed:
            os.close(descriptor)


def become(passed: list[int]) -> NoReturn:
    """Turn the new process into the command: enter control group, switch user, enter directory as that user, execute.

    The report pipe gets these lines: `started PID` first; `pid PID` for a command below a subreaper; `error ERRNO STEP`
    when a step fails. STEP is `cwd` for the directory and `group` for the control group.
    """
    request, report, *standard = passed[:5]
    step = ""
    try:
        os.setsid()
        os.write(report, b"started %d\n" % os.getpid())
        data = os.pread(request, os.fstat(request).st_size, 0)
        child = Child(*marshal.loads(data))  # noqa: S302 - written by the agent
        more = passed[5:]
        entrance = more.pop(0) if child.grouped else None
        directory = more.pop(0) if child.opened else None
        for number, descriptor in enumerate(standard):
            os.dup2(descriptor, number)
        _close_others(report, entrance, directory)
        for ignored in RESTORED:
            signal.signal(ignored, signal.SIG_DFL)
        if entrance is not None:
            step = "group"
            os.write(entrance, b"0")
        step = ""
        if child.reaped:
            _leave_subreaper(child, report)
        _take_on(child)
        step = "cwd"
        _enter(child, directory)
        step = ""
        _execute(child)
    except OSError as error:
        _tell(report, f"error {error.errno} {step}\n".encode())
    finally:
        os._exit(255)


def _take_on(child: Child) -> None:
    """Switch to the user; set the umask and the limit of open files. Raises `OSError`."""
    if child.umask is not None:
        os.umask(child.umask)
    if child.files is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, child.files)
    if child.account is not None:
        os.setgroups(child.account[1])
    if child.gid is not None:
        os.setresgid(child.gid, child.gid, child.gid)
    if child.account is not None:
        uid = child.account[0]
        os.setresuid(uid, uid, uid)


def _tell(report: int, line: bytes) -> None:
    """Report an error, if the agent still reads the report."""
    with contextlib.suppress(BrokenPipeError):
        os.write(report, line)


def _close_others(*kept: int | None) -> None:
    """Close all descriptors but the standard ones and `kept`; execution closes those in `kept`."""
    first = 3
    for descriptor in sorted(descriptor for descriptor in kept if descriptor is not None):
        os.closerange(first, descriptor)
        os.set_inheritable(descriptor, False)
        first = descriptor + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))


def _leave_subreaper(child: Child, report: int) -> None:
    """Continue in a child. The original process becomes the subreaper: the parent of all orphans below it.

    The subreaper ends when its child ends, with the same status. It keeps no descriptors: one of the command's
    directory would keep the file system from being unmounted.
    """
    if _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "")
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.write(report, b"pid %d\n" % os.getpid())
        return
    _libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # the command may dump core, this process must not
    _libc.prctl(PR_SET_NAME, b"holdfast-reaper", 0, 0, 0)
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    os.closerange(0, os.sysconf("SC_OPEN_MAX"))
    ended = status = 0
    while ended != pid:
        ended, status = os.wait()
    if child.swept:
        processes.end(lambda: processes.children(os.getpid()))
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL needs no default action
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _enter(child: Child, directory: int | None) -> None:
    """Enter the directory."""
    if directory is not None:
        os.chdir(directory)
        return
    try:
        os.chdir(child.home if child.cwd is None else child.cwd)
    except OSError:
        if child.cwd is not None:
            raise
        os.chdir("/")


def _execute(child: Child) -> NoReturn:
    """Execute the first program that can be executed. Raises `OSError`."""
    refusal: OSError | None = None
    for program in child.programs:
        try:
            os.execve(program, child.argv, child.env)  # noqa: S606 - no shell is wanted
        except OSError as error:
            if refusal is None or refusal.errno in NOT_THERE:
                refusal = error
    raise refusal or FileNotFoundError(errno.ENOENT, "")
