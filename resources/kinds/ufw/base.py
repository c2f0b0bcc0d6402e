"""What all kinds of ufw share: the command, its settings and its files."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from holdfast.resources import paths
from holdfast.resources.context import Completed, Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.dependencies import Dependency
from holdfast.resources.errors import ChangedMeanwhile, Permanent
from holdfast.resources.kinds._commands import reason
from holdfast.resources.kinds.file.base import os_errors, present_text
from holdfast.resources.package_locks import holder
from holdfast.resources.traits import Edgeable

DIRECTORY, DEFAULTS, SWITCH = "/etc/ufw", "/etc/default/ufw", "/etc/ufw/ufw.conf"
RULES = ("/etc/ufw/user.rules", "/etc/ufw/user6.rules", "/lib/ufw/user.rules", "/lib/ufw/user6.rules")
"""The files of ufw's rules; before version 0.36 they were below /lib."""
LOCK = Path("/run/ufw.lock")
TIMEOUT = 10.0
"""Seconds to wait for a ufw process that an operator has started."""
INTERVAL = 0.01
"""Seconds between two checks of ufw's lock. The kernel does not report the release of a lock."""


async def released() -> None:
    """Wait until no ufw is running: while it runs, its files and the kernel differ.

    A ufw that waits for an answer of its operator may run forever, so the wait ends after `TIMEOUT`.
    """
    until = asyncio.get_running_loop().time() + TIMEOUT
    while holder(LOCK) and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(INTERVAL)


class Ufw(Edgeable, Resource):
    """Base of all kinds of ufw."""

    concerns: ClassVar[Mapping[str, Concern]] = {"": "security"}

    async def ufw(self, ctx: Context, *words: str) -> Completed:
        """Run ufw. Raises `Permanent` with the error that it reports."""
        done = await ctx.run("ufw", *words, check=False)
        if done.retcode != 0:
            raise self.failure(done)
        return done

    def failure(self, done: Completed) -> Permanent:
        """Return the error of a run of ufw."""
        return Permanent(f"cannot use ufw: {reason(done)}")

    async def setting(self, ctx: Context, path: str, name: str) -> str:
        """Return a setting from one of ufw's files; empty if the file does not have it. Raises `Permanent`."""
        text = await present_text(ctx, path)
        if text is None:
            raise Permanent(f"cannot read {path}: the file does not exist; install ufw first")
        found = [line.partition("=") for line in text.splitlines()]
        values = [value.strip().strip('"') for key, equals, value in found if equals and key.strip() == name]
        return values[-1] if values else ""

    async def overwrite(self, ctx: Context, path: str, text: str) -> None:
        """Write one of ufw's files and keep its owner and mode. Raises `Permanent`."""
        with os_errors("write", path):
            place = paths.at(path, follow=True)
            seen = place.look()
            if seen is None:
                raise ChangedMeanwhile(f"cannot write {path}: it was removed meanwhile")
            place.demand_own(seen, "edit")
            mode = stat.S_IMODE(seen.st_mode) & 0o777
            await ctx.write_file(place, text.encode(), mode=mode, uid=seen.st_uid, gid=seen.st_gid)

    def watch(self, ctx: Context) -> Watch:
        """Watch the files of ufw."""
        return ctx.watch_path(SWITCH, DEFAULTS, *RULES)

    def offers(self) -> tuple[Uid, ...]:
        """Return nothing: no resource depends on ufw."""
        return ()

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the package and the files that other states may manage."""
        files = (SWITCH, DEFAULTS, f"{DIRECTORY}/applications.d")
        return (Dependency("pkg", "ufw"), *[Dependency("path", path, vital=False) for path in files])
