"""What a run of a file kind finds on the disk: read safely, compared, shown, kept a copy of."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass

from holdfast.resources.context import Context
from holdfast.resources.diff import unified
from holdfast.resources.kinds.file.base import LARGE, UNDECLARED, Ownership, failure, telling

KEPT = 20
"""Backups of one file that are kept."""
DIFF_LIMIT = 8 << 20
"""Bytes of old content above which it is not read just for the diff."""


@dataclass(slots=True)
class Look:
    """What one run found at the path, and what should be there."""

    path: str
    seen: os.stat_result | None
    owner: Ownership
    wanted: bytes | None
    """None: the content is left as it is."""
    old: bytes | None = None
    """None: not read, for it is too large to show or does not exist."""
    differs: bool = False


def inherited(owner: Ownership, seen: os.stat_result | None) -> tuple[int, int]:
    """Owner of the new file: as declared, else that of the one it replaces, where that is not ours anyway."""
    uid, gid = owner.uid, owner.gid
    if seen is not None:
        uid = seen.st_uid if uid < 0 and seen.st_uid != os.geteuid() else uid
        gid = seen.st_gid if gid < 0 and seen.st_gid != os.getegid() else gid
    return max(uid, UNDECLARED), max(gid, UNDECLARED)


async def read(ctx: Context, path: str, size: int) -> bytes:
    """The content of a regular file, in a thread if it is large. Raises `OSError`."""
    return bytes(await ctx.blocking(read_regular, path)) if size > LARGE else read_regular(path)


def read_regular(path: str) -> bytes:
    """The content of a regular file; never waits for a fifo that was put there meanwhile. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 - a descriptor
        return file.read()


async def compare(ctx: Context, look: Look, wanted: bytes) -> None:
    """Note whether the content differs, and the old content if it may be shown."""
    size = look.seen.st_size if look.seen is not None else 0
    if size != len(wanted) and size > DIFF_LIMIT:
        look.differs = True
        return
    try:
        look.old = await read(ctx, look.path, size)
    except FileNotFoundError:
        look.seen = None
        return
    except OSError as error:
        raise failure("read", look.path, error) from None
    look.differs = look.old != wanted


def difference(look: Look) -> str:
    """The unified diff, or a line where there is too much to show."""
    wanted = look.wanted or b""
    if look.old is None:
        return f"content of {look.path} differs: it is now {len(wanted)} bytes\n"
    return unified(look.old, wanted, look.path)


def source_mode(ctx: Context, url: str) -> int | None:
    """The mode of a source on this host."""
    path = ctx.source_path(url)
    if path is None:
        return None
    with telling("look at", path):
        return stat.S_IMODE(os.stat(path).st_mode)  # noqa: PTH116 - Path objects are slow


def back_up(path: str, directory: str) -> None:
    """Keep a copy of a file, readable for the agent alone; the oldest go. Raises `Permanent` or `Temporary`."""
    name = os.path.basename(path)  # noqa: PTH119 - Path objects are slow
    with telling("back up", path):
        data = read_regular(path)
        target = os.path.join(directory, f"{name}_{time.strftime('%Y%m%d-%H%M%S')}_{time.time_ns() % 10**9:09d}")  # noqa: PTH118 - the same
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as copy:  # noqa: PTH123 - a descriptor
            copy.write(data)
        for old in sorted(entry for entry in os.listdir(directory) if entry.startswith(f"{name}_"))[:-KEPT]:  # noqa: PTH208 - the same
            os.unlink(os.path.join(directory, old))  # noqa: PTH108, PTH118 - the same
