"""Other programs that change the account files, found by the locks that they hold until all files agree again.

The shadow tools, vipw and systemd-sysusers lock `.pwd.lock`, as lckpwdf(3) does; the shadow tools and vipw also create
`passwd.lock` and the like, with their process id. userdel writes passwd first and group last. A decision made in
between could give a new account the group that userdel is about to remove.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from holdfast.resources.errors import Temporary
from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.package_locks import described, holder
from holdfast.resources.providers._etc import ETC, FILES

TIMEOUT = 15.0
"""Seconds to wait for other programs; lckpwdf waits as long."""
INTERVAL = 0.05
"""Seconds between two checks. The kernel does not notify when a lock is released."""


async def released(host: ProviderHost, what: str) -> None:
    """Wait until no other program changes the account files.

    Raises `Temporary` with the program after `TIMEOUT` seconds.
    """
    etc = host.system_path(ETC)
    until = asyncio.get_running_loop().time() + TIMEOUT
    while who := changing(etc):
        if asyncio.get_running_loop().time() > until:
            raise Temporary(f"cannot {what}: {who} has locked the account files", delay=1.0)
        await asyncio.sleep(INTERVAL)


def changing(etc: Path) -> str:
    """Return the program that changes the account files, `process 7 (userdel)`; empty if there is none."""
    pid = holder(etc / ".pwd.lock") or next(filter(None, (_maker(etc / f"{file}.lock") for file in FILES)), 0)
    return described(pid) if pid else ""


def _maker(lock: Path) -> int:
    """Return the running process that has created a lock file; 0 if there is none. The tools remove leftover files."""
    try:
        pid = int(lock.read_bytes().strip(b"\0\n "))
        os.kill(pid, 0)
    except (OSError, ValueError, OverflowError):
        return 0
    return max(pid, 0)
