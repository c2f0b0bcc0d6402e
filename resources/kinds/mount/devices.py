"""Whether a mounted file system comes from the declared device."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence

from holdfast.resources import paths
from holdfast.resources.context import Context
from holdfast.resources.errors import Permanent
from holdfast.resources.expressions import expression
from holdfast.resources.kinds.file.base import found, os_errors
from holdfast.resources.kinds.mount.lines import TAG, plain_device
from holdfast.resources.kinds.mount.table import Mount

LOOP = re.compile(r"/dev/(loop\d+)")
LIMIT = 4096
"""Maximum size, in bytes, of the kernel's description of a loop device."""


async def comes_from(ctx: Context, mount: Mount, device: str, patterns: Sequence[str] = ()) -> bool:
    """Return whether a mount has the declared device. Raises `Permanent` if the device cannot be found."""
    if bare(mount.source) == bare(device):
        return True
    for pattern in patterns:
        if await ctx.blocking(expression(pattern).match, mount.source) is not None:
            return True
    path = await located(ctx, device)
    return bool(is_path(path) and await ctx.blocking(_is, mount, path))


def bare(device: str) -> str:
    """Return a device without the prefix of FUSE (`sshfs#host:`) and without a final slash."""
    found_type = re.fullmatch(r"\w+#(.+)", device)
    device = found_type[1] if found_type else device
    return device.rstrip("/") or device


async def located(ctx: Context, device: str) -> str:
    """Return the path of a device that is named by a tag, such as `UUID=x`; return other names unchanged.

    Raises `Permanent` if the device does not exist.
    """
    plain = plain_device(device)
    if not TAG.fullmatch(plain):
        return device
    done = await ctx.run("findfs", plain, check=False)
    if done.retcode or not done.stdout.strip():
        raise Permanent(f"cannot find the device {device}: no file system or partition has this identifier")
    return done.stdout.strip()


def _is(mount: Mount, path: str) -> bool:
    """Return whether a mount has the device, the file or the directory at a path. Blocks.

    Raises `Permanent` if the path does not exist: a mount must not be removed in favour of a missing device.
    """
    seen = found(path, follow=True)[1]
    if seen is None:
        raise Permanent(
            f"cannot find the device {path}: it does not exist; {mount.source} is mounted at {mount.point} and stays"
        )
    if stat.S_ISBLK(seen.st_mode):
        source = found(mount.source, follow=True)[1] if mount.source.startswith("/") else None
        numbers = f"{os.major(seen.st_rdev)}:{os.minor(seen.st_rdev)}"
        return mount.device == numbers or (source is not None and source.st_rdev == seen.st_rdev)
    if stat.S_ISREG(seen.st_mode) and (loop := LOOP.fullmatch(mount.source)):
        with os_errors("inspect", mount.source):
            told = paths.read(f"/sys/block/{loop[1]}/loop/backing_file", LIMIT).decode(errors="surrogateescape")
        return told.rstrip("\n") == paths.resolve(path)
    point = found(mount.point)[1]
    return point is not None and (point.st_dev, point.st_ino) == (seen.st_dev, seen.st_ino)


def is_path(device: str) -> bool:
    """Return whether a device is a path on this host and not on a server (`//server/share`)."""
    return device.startswith("/") and not device.startswith("//")
