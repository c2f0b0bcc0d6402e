"""A user repeatedly mounts a file system that never answers, while root accesses paths below.

Root runs `unshare --mount hangs.py BASE`. Below BASE are `home/d`, which belongs to the user, `states` and `var`. Every
kind is called in turn. All mounts hang until each kind has been called once more after the last of them. The script
prints whether a call has hung until then, the duration of the longest call in seconds, and the numbers of mounts and
calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import itertools
import json
import os
import select
import sys
import time
from pathlib import Path
from typing import Any

from deadline import DEADLINE
from holdfast.agent.host.host import LocalHost
from holdfast.resources import registry
from holdfast.resources.errors import HoldfastError
from holdfast.resources.paths import mounts

UID = 12345
MOUNTS = 900
"""Below the limit of descriptors of a process: each mount hangs as long as its own descriptor is open."""
NOSUID_NODEV, DETACH = 6, 2


def mount(directory: str, libc: Any) -> int:
    """Mount a file system of the user that is open to all, as `fusermount` does."""
    file = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={file},rootmode=40000,user_id={UID},group_id={UID},allow_other"
    if libc.mount(b"hangs", directory.encode(), b"fuse", NOSUID_NODEV, options.encode()):
        sys.exit(f"cannot mount: {os.strerror(ctypes.get_errno())}")
    return file


def keep_mounting(directory: str, mounted: int, go_on: int) -> bool:
    """Mount and unmount. Notify the other process when all is mounted; return whether it still works then."""
    libc = ctypes.CDLL(None, use_errno=True)
    held = []
    for number in range(MOUNTS):
        held.append(mount(directory, libc))
        for _ in range(number % 100 * 100):
            pass
        libc.umount2(directory.encode(), DETACH)
    os.write(mounted, b"x")
    return bool(select.select([go_on], [], [], DEADLINE)[0])


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


async def call(base: Path, mounted: int, go_on: int) -> tuple[int, float]:
    """Call all kinds until all is mounted, and then once more.

    Return the number of calls, and the longest in seconds.
    """
    made = resources(str(base / "home"))
    last, longest = sys.maxsize, 0.0
    async with LocalHost(states=base / "states", var_dir=base / "var", durable=False) as host:
        for number in itertools.count():
            if last == sys.maxsize and select.select([mounted], [], [], 0)[0]:
                last = number + len(made)
            if number == last:
                os.write(go_on, b"x")
                return number, longest
            kind, arguments = made[number % len(made)](number // len(made))
            began = time.monotonic()
            with contextlib.suppress(HoldfastError):
                await registry.find(kind).model_validate(arguments).check_apply(host.context(kind), True)
            longest = max(longest, time.monotonic() - began)
    raise AssertionError


def main() -> None:
    """Mount in one process, and call the kinds in the other."""
    base = Path(sys.argv[1])
    libc = ctypes.CDLL(None, use_errno=True)
    first = mount(str(base / "home/d"), libc)
    if not mounts.careful():  # fuse.conf has this line where users may do that
        sys.exit("the mount is not seen")
    libc.umount2(str(base / "home/d").encode(), DETACH)
    os.close(first)
    told, mounted = os.pipe()
    asked, go_on = os.pipe()
    child = os.fork()
    if not child:
        os._exit(0 if keep_mounting(str(base / "home/d"), mounted, asked) else 1)
    calls, longest = asyncio.run(call(base, told, go_on))
    hung = os.waitpid(child, 0)[1] != 0
    sys.stdout.write(json.dumps({"hung": hung, "longest": longest, "calls": calls, "mounts": MOUNTS}) + "\n")


main()
