"""A user repeatedly mounts a file system that never answers, while root accesses paths below.

Root runs `unshare --mount hangs.py BASE`. Below BASE are `home/d`, which belongs to the user, `states` and `var`. Every
kind is called in turn. The script prints the seconds of the longest call, and the numbers of mounts and calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import itertools
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from holdfast.agent.host.host import LocalHost
from holdfast.resources import registry
from holdfast.resources.errors import HoldfastError
from holdfast.resources.paths import mounts

UID = 12345
MOUNTS = 900
"""Below the limit of descriptors of a process: each mount hangs as long as its own descriptor is open."""
NOSUID_NODEV, DETACH = 6, 2
HANGING = 2.0
"""Seconds for which a mount hangs."""


def mount(directory: str, libc: Any) -> int:
    """Mount a file system of the user that is open to all, as `fusermount` does."""
    file = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={file},rootmode=40000,user_id={UID},group_id={UID},allow_other"
    if libc.mount(b"hangs", directory.encode(), b"fuse", NOSUID_NODEV, options.encode()):
        sys.exit(f"cannot mount: {os.strerror(ctypes.get_errno())}")
    return file


def keep_mounting(directory: str) -> None:
    """Mount and unmount, then release the waiting processes."""
    libc = ctypes.CDLL(None, use_errno=True)
    held = []
    for number in range(MOUNTS):
        held.append(mount(directory, libc))
        for _ in range(number % 100 * 100):
            pass
        libc.umount2(directory.encode(), DETACH)
    end = time.monotonic() + HANGING
    while time.monotonic() < end:
        os.sched_yield()


def resources(home: str) -> list[Any]:
    """Return for each kind its name and its arguments."""
    below = f"{home}/d/f"
    return [
        lambda n: ("file.managed", {"name": below, "contents": str(n), "user": str(UID)}),
        lambda _: ("file.directory", {"name": f"{home}/d", "user": str(UID), "recurse": ["user"]}),
        lambda _: ("file.exists", {"name": below}),
        lambda _: ("file.absent", {"name": f"{home}/d/g"}),
        lambda n: ("file.append", {"name": below, "text": str(n)}),
        lambda n: ("file.symlink", {"name": f"{home}/d/s", "target": str(n)}),
    ]


async def call(base: Path, child: int) -> None:
    """Call all kinds until the child process has ended."""
    longest, where = 0.0, ""
    made = resources(str(base / "home"))
    async with LocalHost(states=base / "states", var_dir=base / "var", durable=False) as host:
        for number in itertools.count():
            if os.waitpid(child, os.WNOHANG)[0]:  # noqa: ASYNC222 - WNOHANG does not wait
                break
            kind, arguments = made[number % len(made)](number // len(made))
            start = time.monotonic()
            with contextlib.suppress(HoldfastError):
                await registry.find(kind).model_validate(arguments).check_apply(host.context(kind), True)
            taken = time.monotonic() - start
            longest, where = max((longest, where), (taken, kind))
    sys.stdout.write(json.dumps({"longest": longest, "kind": where, "calls": number, "mounts": MOUNTS}) + "\n")


def main() -> None:
    """Mount in one process, and call the kinds in the other."""
    base = Path(sys.argv[1])
    libc = ctypes.CDLL(None, use_errno=True)
    first = mount(str(base / "home/d"), libc)
    if not mounts.careful():  # fuse.conf says so where users may do that
        sys.exit("the mount is not seen")
    libc.umount2(str(base / "home/d").encode(), DETACH)
    os.close(first)
    child = os.fork()
    if not child:
        keep_mounting(str(base / "home/d"))
        os._exit(0)
    asyncio.run(call(base, child))


main()
