"""Confines the calling process permanently: it can compute, read its input and write its answer, and nothing else.

A filter of system calls (seccomp) allows those that computing needs and refuses all others, so there are no files, no
network, no processes and no signals. Limits bound memory and CPU time. A filter is the only mechanism that works
equally for root and other users, in containers, and on every kernel that Debian 12 may run on: user namespaces may be
disabled and are missing in containers, and Landlock restricts neither local sockets nor processes, and TCP only since
6.7.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
from collections.abc import Mapping
from typing import NamedTuple

MEMORY = 512 << 20
"""Bytes of address space."""
CPU = 10
"""Seconds of CPU time."""
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 22, 38
SECCOMP_MODE_FILTER = 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
"""Instructions of the filter: load a word of the call, jump if it is equal, end with a verdict."""
NUMBER, ARCHITECTURE = 0, 4
"""Offsets in the description of a call."""
ALLOW, REFUSE, KILL = 0x7FFF0000, 0x00050001, 0x80000000
"""Verdicts; a call that is refused fails with EPERM."""


class UnconfinedError(Exception):
    """A process cannot be confined on this system."""


class Machine(NamedTuple):
    """The numbers of one machine that the filter uses."""

    architecture: int
    """The kernel's constant AUDIT_ARCH_..."""
    calls: tuple[int, ...]
    """Numbers of the allowed calls: read, write, mmap, munmap, mremap, mprotect, madvise, brk, futex, rt_sigreturn,
    rt_sigprocmask, clock_gettime, getrandom, sched_yield, restart_syscall, exit, exit_group."""


GENERIC = (63, 64, 222, 215, 216, 226, 233, 214, 98, 139, 135, 113, 278, 124, 128, 93, 94)
MACHINES: Mapping[str, Machine] = {
    "x86_64": Machine(0xC000003E, (0, 1, 9, 11, 25, 10, 28, 12, 202, 15, 14, 228, 318, 24, 219, 60, 231)),
    "aarch64": Machine(0xC00000B7, GENERIC),
    "riscv64": Machine(0xC00000F3, GENERIC),
    "armv7l": Machine(
        0x40000028, (3, 4, 192, 91, 163, 125, 220, 45, 240, 422, 173, 175, 263, 403, 384, 158, 0, 1, 248)
    ),
}
"""Name of the machine, as `uname` returns it -> its numbers. Some calls of ARM with 32 bits have a second form."""


def confine(parent: int) -> None:
    """Confine this process, a child of `parent`. Raises `UnconfinedError`."""
    machine = MACHINES.get(_machine())
    if machine is None:
        raise UnconfinedError(f"the numbers of system calls on {platform.machine()} are not known")
    for limit, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_CPU, CPU),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        hard = resource.getrlimit(limit)[1]
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (bound, bound))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) or os.getppid() != parent:
        raise UnconfinedError("the process that started this one has ended")
    code = _filter(machine)
    memory = ctypes.create_string_buffer(code)
    described = struct.pack("@HP", len(code) // 8, ctypes.addressof(memory))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, described, 0, 0):
        raise UnconfinedError(f"the kernel refuses a filter of system calls: {os.strerror(ctypes.get_errno())}")


def _machine() -> str:
    """Return the machine of this process, which may be one of 32 bits on a kernel of 64 bits."""
    name = platform.machine()
    small = struct.calcsize("P") == 4
    return {"aarch64": "armv7l", "armv8l": "armv7l"}.get(name, name) if small and name != "x86_64" else name


def _filter(machine: Machine) -> bytes:
    """Return the program: check the architecture, compare the number with each that is allowed, refuse the rest."""
    program = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, machine.architecture), (RETURN, 0, 0, KILL)]
    program.append((LOAD, 0, 0, NUMBER))
    for number in machine.calls:
        program += [(EQUAL, 0, 1, number), (RETURN, 0, 0, ALLOW)]
    program.append((RETURN, 0, 0, REFUSE))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
