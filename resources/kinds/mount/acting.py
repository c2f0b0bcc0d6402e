"""Mount and unmount with mount(8) and umount(8), in directories that only trusted users can change."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.resources import paths
from holdfast.resources.context import Context
from holdfast.resources.errors import ChangedMeanwhile, Permanent, Temporary
from holdfast.resources.kinds._commands import reason
from holdfast.resources.kinds.file.base import demand_parent, found, make_parents, os_errors, ownership, place_of
from holdfast.resources.kinds.mount import table
from holdfast.resources.kinds.mount.devices import is_path
from holdfast.resources.kinds.mount.lines import masked
from holdfast.resources.kinds.mount.table import Mount
from holdfast.resources.paths import Place, Unsafe
from holdfast.resources.paths.handle import ABSENT, what

MINUTES = 5 * 60
"""Time limit of a mount, in seconds: it may check the file system, or wait for a server."""
MOST = 16
"""Maximum number of file systems to unmount that are mounted over each other at one place."""
AUTOMOUNT = "autofs"
PASSWORDS = ("password=", "passwd=", "pass=")
BINDS = frozenset({"bind", "rbind"})
ONCE = BINDS | {"loop", "remount"}
"""Options that say how to mount and that the mounted file system does not keep."""
IN_ENVIRONMENT = frozenset({"cifs", "smb3"})
"""File systems whose program reads the password from the environment, which other users cannot see."""


async def stack(ctx: Context, point: str) -> Sequence[Mount]:
    """Return the mounts at a place, the visible one last, without automount points.

    Raises `Permanent` or `Temporary`.
    """
    with os_errors("read", table.MOUNTS):
        known: Sequence[Mount] = await ctx.blocking(table.mounts)
    return [mount for mount in known if mount.point == point and mount.fstype != AUTOMOUNT]


async def real_point(ctx: Context, name: str) -> str:
    """Resolve the links in a mount point. Do not touch the mounted file system: its server may not answer."""
    with os_errors("inspect", name):
        point: str = await ctx.blocking(_unfollowed, name)
    if await stack(ctx, point):
        return point
    place, seen = await ctx.blocking(_followed, name)
    return point if place is None or seen is None else str(place.real)


def _unfollowed(name: str) -> str:
    """Resolve the links in a path except for its end, where a server may not answer. Blocks."""
    try:
        return paths.at(name).real
    except ABSENT:
        return name


def _followed(name: str) -> tuple[Place | None, os.stat_result | None]:
    return found(name, follow=True)


async def make_point(ctx: Context, point: str, *, make: bool) -> None:
    """Create a missing directory if the state allows it, and check that it is a safe mount point.

    Raises `Permanent` and `Unsafe`.
    """
    place, seen = await ctx.blocking(_followed, point)
    if seen is None:
        if not make:
            raise Permanent(f"cannot mount {point}: the directory does not exist; declare it, or set mkmnt: true")
        owner = await ownership(ctx, None, None)
        ctx.report.touched = True
        make_parents(point, owner)
        demand_parent(point, makedirs=True, apply=True)
        with os_errors("make directory", point):
            place_of(point).mkdir()
        place, seen = await ctx.blocking(_followed, point)
    if place is None or seen is None:
        raise ChangedMeanwhile(f"cannot mount {point}: the directory was removed meanwhile")
    if place.who(seen) or place.directory.holders:
        raise Unsafe(
            f"cannot mount {point}: {place.reason(seen)}; a user could move the mount point, so use a directory in "
            "which only root can rename"
        )
    if stat.S_ISLNK(seen.st_mode):
        raise Permanent(f"cannot mount {point}: it is {what(seen.st_mode)}")


class MountCall(NamedTuple):
    """What to mount."""

    device: str
    fstype: str
    opts: Sequence[str]
    user: str | None = None


async def demand_source(ctx: Context, device: str) -> None:
    """Raise `Unsafe` for a path that a user could redirect.

    Otherwise, all users could reach the files at the new target, even below directories that they cannot enter.
    """
    if not is_path(device):
        return
    place, seen = await ctx.blocking(_followed, device)
    if place is not None and seen is not None and (place.who(seen) or place.directory.holders):
        raise Unsafe(
            f"cannot mount {device}: {place.reason(seen)}; a user could redirect this path to files of others, so use "
            "a directory in which only root can rename"
        )


async def mount(ctx: Context, call: MountCall, point: str) -> None:
    """Mount a file system at a directory. Raises `Permanent` with the message of the tool, and `Unsafe`."""
    device, fstype, opts, user = call
    if user is None:
        await demand_source(ctx, device)
    shown, password = _without_password(fstype, opts)
    argv = ["mount", "-t", fstype, "-o", ",".join(shown) or "defaults", device, point]
    env = {"PASSWD": password} if password else None
    ctx.report.touched = True
    done = await ctx.run(*argv, check=False, timeout=MINUTES, env=env, user=user)
    if done.retcode:
        raise Permanent(f"cannot mount {device} at {point}: {masked(reason(done))}")


def _without_password(fstype: str, opts: Sequence[str]) -> tuple[Sequence[str], str]:
    """Return the options without the password, which others could read in a command line, and the password.

    Raises `Permanent` if the file system cannot take a password from the environment.
    """
    secret = [option for option in opts if option.startswith(PASSWORDS)]
    if secret and fstype not in IN_ENVIRONMENT:
        raise Permanent(
            f"cannot mount with the option {secret[0].partition('=')[0]}: all users could read the password in the "
            "list of processes; use a credentials file"
        )
    return [option for option in opts if option not in secret], secret[-1].partition("=")[2] if secret else ""


async def mount_listed(ctx: Context, point: str) -> None:
    """Mount a file system that fstab lists. Raises `Permanent` with the message of the tool."""
    await make_point(ctx, await real_point(ctx, point), make=False)
    done = await ctx.run("mount", point, check=False, timeout=MINUTES)
    if done.retcode:
        raise Permanent(f"cannot mount {point}: {masked(reason(done))}")


async def remount(ctx: Context, seen: Mount, opts: Sequence[str]) -> None:
    """Change the options of a mount. Raises `Permanent` with the message of the tool.

    The command names the source, which the kernel ignores, so that the tool does not add options from fstab.
    """
    bind = ["bind"] if BINDS & {*opts} else []
    shown = [option for option in opts if not option.startswith(PASSWORDS) and option not in ONCE]
    ctx.report.touched = True
    argv = ["mount", "-o", ",".join(["remount", *bind, *shown]), seen.source or "none", seen.point]
    done = await ctx.run(*argv, check=False, timeout=MINUTES)
    if done.retcode:
        raise Permanent(f"cannot change the options of {seen.point}: {masked(reason(done))}")


async def unmount(ctx: Context, point: str, user: str | None = None) -> None:
    """Unmount the visible file system at a mount point.

    Raises `Unsafe` if a user could move the mount point, and `Temporary` with its users if it is busy.
    """
    with os_errors("inspect", point):
        directory = (await ctx.blocking(paths.at, point)).directory
    if directory.holders:
        raise Unsafe(
            f"cannot unmount {point}: {directory.reason}, so a user could move the mount point; unmount it by hand"
        )
    ctx.report.touched = True
    done = await ctx.run("umount", point, check=False, timeout=MINUTES, user=user)
    if not done.retcode:
        return
    words = masked(reason(done))
    if "busy" in words:
        who = await ctx.long_blocking(table.users_of, point)
        raise Temporary(f"cannot unmount {point}: {who or words}")
    raise Permanent(f"cannot unmount {point}: {words}")
