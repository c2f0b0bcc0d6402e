"""The declaration that restores a path to its state before the first change."""

from __future__ import annotations

import hashlib
import os
import stat

from holdfast.resources.context import Context
from holdfast.resources.kinds.file.base import found, os_errors
from holdfast.resources.paths.handle import LIMIT, read_whole
from holdfast.resources.traits import Declaration


async def before(ctx: Context, path: str) -> Declaration | None:
    """Return a declaration that restores the present file, directory, link or absence; None for other types of files.

    The content of a file is copied. Raises `HoldfastError`.
    """
    place, seen = found(path)
    if place is None or seen is None:
        return Declaration("file.absent", {"name": path})
    owner = {"name": path, "user": str(seen.st_uid), "group": str(seen.st_gid)}
    mode = f"{stat.S_IMODE(seen.st_mode):04o}"
    if stat.S_ISLNK(seen.st_mode):
        with os_errors("read link", path):
            return Declaration("file.symlink", {**owner, "target": place.readlink(), "force": True})
    if stat.S_ISDIR(seen.st_mode):
        return Declaration("file.directory", {**owner, "mode": mode, "force": True})
    if not stat.S_ISREG(seen.st_mode):
        return None
    with os_errors("keep a copy of", path):
        handle, now = place.open()
        place.demand_readable(now)
        data = await ctx.blocking(read_whole, handle.fd, now, LIMIT, path)
    kept = stat.S_IMODE(now.st_mode) if place.keeps_attributes(now, -1) else stat.S_IMODE(now.st_mode) & 0o777
    owner, mode = {"name": path, "user": str(now.st_uid), "group": str(now.st_gid)}, f"{kept:04o}"
    copy = str(
        ctx.var_dir / f"before-{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}"
    )  # the name has a hash because the state may later manage another file
    with os_errors("keep a copy of", path):
        await ctx.write_file(copy, data, mode=0o600, touches=False)
    return Declaration("file.managed", {**owner, "mode": mode, "source": copy, "follow_symlinks": False}, copy)
