"""Kernel parameters, now and after the next boot."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import field_validator

from holdfast.resources import paths
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency, lies_in
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import HoldfastError, Permanent, refused_call
from holdfast.resources.fields import AbsPath, Text, shaped
from holdfast.resources.file_locks import file_lock
from holdfast.resources.paths.handle import read_whole
from holdfast.resources.paths.place import Place
from holdfast.resources.traits import Declaration, Edgeable, Reversible

KERNEL = "/proc/sys"
LIMIT = 1 << 20
"""Maximum size of a file of parameters, in bytes."""
OWN_FILE, SALT_FILE = "/etc/sysctl.d/99-holdfast.conf", "/etc/sysctl.d/99-salt.conf"
BOOTED = "/run/systemd/system"
"""A directory that exists if systemd runs, which does not read /etc/sysctl.conf."""
PERIOD = 10.0
"""Seconds between two reads of the value.

No event reports changes by the kernel itself or from another container.
"""
MODULES = {"net.bridge.": "br_netfilter", "net.netfilter.": "nf_conntrack", "fs.nfs.": "lockd", "sunrpc.": "sunrpc"}
"""Prefix of names of parameters -> the kernel module that has these parameters."""
REASONS = {
    errno.EINVAL: "the kernel refuses that value",
    errno.EROFS: "it is read-only here",
    errno.EACCES: "permission denied",
}


def plain(value: str) -> str:
    """Return a value with single blanks, because the kernel shows tabs."""
    return " ".join(value.split())


def dotted(name: str) -> str:
    """Return the name of a parameter with dots as separators.

    The first . or / of the name is the separator. If it is /, swap all . and / of the name.
    """
    swapped = name.find("/") != -1 and (name.find(".") == -1 or name.find("/") < name.find("."))
    return name.translate(str.maketrans("./", "/.")) if swapped else name


class Present(Edgeable, Reversible, Resource, kind="sysctl.present"):
    """A kernel parameter has a value, now and after each boot.

    net.ipv4.ip_forward:
      sysctl.present:
        - value: 1
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("set", "remove")
    concerns: ClassVar[Mapping[str, Concern]] = {"": "security"}
    name: Annotated[
        str,
        shaped(
            r"[\w*:@+-]+([./][\w*:@+-]+)+",
            "the name of a parameter: a name has at least one dot, as in net.ipv4.ip_forward",
        ),
    ]
    """The parameter: `net.ipv4.ip_forward`.

    A dot within a part of the name is written as a slash: `net.ipv4.conf.eth0/1.forwarding`.
    """
    value: Text
    """The value as the kernel shows it; blanks and tabs are equal."""
    config: AbsPath | None = None
    """The file with the value for the next boot.

    Default: `/etc/sysctl.d/99-holdfast.conf`, or `/etc/sysctl.conf` without systemd. A parameter in Salt's file,
    `99-salt.conf`, stays there, because the system reads this file later.
    """
    persist: bool = True
    """Write the value for the next boot; false: remove it from the file."""

    @field_validator("value")
    @classmethod
    def _one_line(cls, value: str) -> str:
        if not value.strip() or "\n" in value.strip():
            raise ValueError("a parameter's value is one line that is not empty")
        return plain(value)

    @property
    def path(self) -> str:
        """Path of the parameter below /proc/sys."""
        return f"{KERNEL}/{dotted(self.name).translate(str.maketrans('./', '/.'))}"

    @property
    def files(self) -> tuple[str, ...]:
        """The files that may have the value; the value in the first file takes precedence."""
        return (
            (self.config,) if self.config else (SALT_FILE, OWN_FILE) if paths.exists(BOOTED) else ("/etc/sysctl.conf",)
        )

    async def file(self, ctx: Context) -> str:
        """Return the file that has the value, or to which to write it. Raises `Permanent` or `Temporary`."""
        for path in self.files:
            if self._kept(await self._lines(ctx, path)):
                return path
        return SALT_FILE if ctx.salt_names and SALT_FILE in self.files else self.files[-1]

    def desired(self) -> State:
        """Return the value in the kernel and in the file."""
        return {"value": self.value, "persisted": [self.value] if self.persist else []}

    async def probe(self, ctx: Context) -> State:
        """Return the present value in the kernel and in the file."""
        return {
            "value": await self._seen(ctx),
            "persisted": sorted({*self._kept(await self._lines(ctx, await self.file(ctx)))}),
        }

    async def _seen(self, ctx: Context) -> str:
        """Return the value in the kernel. Raises `Permanent` if the parameter does not exist."""
        try:
            return plain(await ctx.read_text(self.path))
        except FileNotFoundError:
            raise Permanent(
                f"cannot find {self.name}: the kernel has no such parameter; a module may have to be loaded first"
            ) from None
        except OSError as error:
            raise self._failure("read", error) from None

    async def _lines(self, ctx: Context, path: str) -> list[str]:
        """Return the lines of a file with their line breaks."""
        try:
            return (await ctx.read_text(path)).splitlines(keepends=True)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._failure(f"read {path} for", error) from None

    def _mine(self, line: str) -> bool:
        """Return whether a line of the file sets this parameter.

        A leading - makes systemd ignore errors of the line.
        """
        name, equals, _ = line.strip().partition("=")
        return (
            bool(equals)
            and not name.startswith(("#", ";"))
            and dotted(name.strip().removeprefix("-")) == dotted(self.name)
        )

    def _kept(self, lines: list[str]) -> list[str]:
        """Return the values of the parameter in the file."""
        return [plain(line.partition("=")[2]) for line in lines if self._mine(line)]

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Set the value in the kernel first: a value that the kernel refuses must not be written for the next boot."""
        if "value" in delta.fields:
            try:
                await ctx.blocking(write, self.path, self.value)
            except OSError as error:
                raise self._failure(f"set {self.value!r} for", error) from None
        if "persisted" in delta.fields:
            path = await self.file(ctx)
            async with file_lock(path):
                await self._keep(ctx, path)

    async def _keep(self, ctx: Context, path: str) -> None:
        """Write the file: set the value on each line of the parameter, or add a line at the end."""
        wanted = f"{self.name} = {self.value}\n"
        try:
            if self.persist:
                paths.make_parents(path)
            place = paths.at(path, follow=True)
            lines, mode = content(place)
            if not self.persist:
                lines = [line for line in lines if not self._mine(line)]
            elif self._kept(lines):
                lines = [wanted if self._mine(line) else line for line in lines]
            else:
                lines = [*lines[:-1], *(f"{line.rstrip()}\n" for line in lines[-1:]), wanted]
            if lines:
                await ctx.write_file(place, "".join(lines).encode(errors="surrogateescape"), mode=mode)
            else:
                await ctx.blocking(paths.at(path).unlink)
        except OSError as error:
            raise self._failure(f"write {path} for", error) from None

    def _failure(self, doing: str, error: OSError) -> HoldfastError:
        text = f"cannot {doing} {self.name}: {REASONS.get(error.errno or 0) or (error.strerror or str(error)).lower()}"
        return refused_call(text, error)

    async def inverse(self, ctx: Context) -> Declaration:
        """Return a declaration of the present value and of whether the file has it."""
        path = await self.file(ctx)
        kept = bool(self._kept(await self._lines(ctx, path)))
        return Declaration(
            "sysctl.present", {"name": self.name, "value": await self._seen(ctx), "config": path, "persist": kept}
        )

    async def watch(self, ctx: Context) -> Watch:
        """Watch writes to the parameter and to the files, and poll the value for other changes."""
        events = ctx.watch_path(self.path, *self.files)
        event, last = asyncio.ensure_future(anext(events)), await self._glance(ctx)
        try:
            while True:
                done, _ = await asyncio.wait({event}, timeout=PERIOD)
                seen = await self._glance(ctx)
                if done:
                    event.result()
                    event = asyncio.ensure_future(anext(events))
                if done or seen != last:
                    last = seen
                    yield None
        finally:
            event.cancel()
            await asyncio.wait({event})

    async def _glance(self, ctx: Context) -> str:
        """Return the value, or the error that reading it raised."""
        try:
            return await self._seen(ctx)
        except HoldfastError as error:
            return str(error)

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the parameter."""
        return (("sysctl", dotted(self.name)),)

    def touches(self) -> tuple[Uid, ...]:
        """Return the file below /proc/sys and the files that may have the value."""
        return (("path", self.path), *[("path", path) for path in self.files])

    def offers(self) -> tuple[Uid, ...]:
        """Return nothing: no resource depends on a parameter."""
        return ()

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the directory of the configuration file and the kernel module that has the parameter."""
        own = (lies_in(self.config, vital=False),) if self.config else ()
        needed = (module for start, module in MODULES.items() if dotted(self.name).startswith(start))
        return (*own, *(Dependency("module", module, vital=False) for module in needed))

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the new value, as Salt does."""
        return {self.name: self.value}

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"{self.name} is already {self.value}"

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does to the value and to the file for the next boot."""
        if "value" not in delta.fields:
            detail = f" to {self.value}" if self.persist else ""
            return Effect(("set" if self.persist else "remove",), self.name, "the boot value", detail)
        kept = "" if "persisted" not in delta.fields else ", kept" if self.persist else ", no longer kept"
        return Effect(("set",), self.name, detail=f" to {self.value}{kept and f'{kept} for the next boot'}")


def content(place: Place) -> tuple[list[str], int]:
    """Return the lines of a file, with their line breaks, and the mode of the new file, which the agent's user owns.

    The new mode gives no access that the present file does not give. For the file of another user, it gives at most
    read access to others. Raises `OSError`, `Permanent` if the file cannot be read, and `Unsafe` for another user's
    file in a user's directory.
    """
    try:
        handle, seen = place.open()
    except FileNotFoundError:
        return [], 0o644
    mode = stat.S_IMODE(seen.st_mode) & 0o777
    if seen.st_uid not in paths.trusted_uids():
        place.demand_own(seen, "edit")
        mode &= 0o644
    data = read_whole(handle.fd, seen, LIMIT, place.path)
    return data.decode(errors="surrogateescape").splitlines(keepends=True), mode


def write(path: str, value: str) -> None:
    """Set the value of a parameter; never create a file. Blocks. Raises `OSError` and `Unsafe`."""
    place = paths.at(path)
    descriptor = os.open(place.at, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.fd)
    try:
        os.write(descriptor, f"{value}\n".encode())
    finally:
        os.close(descriptor)
