"""`mount.swap`."""

from __future__ import annotations

from typing import Any, ClassVar

from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.kinds._commands import reason
from holdfast.resources.kinds.file.base import found, os_errors
from holdfast.resources.kinds.mount import table
from holdfast.resources.kinds.mount.acting import MINUTES
from holdfast.resources.kinds.mount.devices import is_path, located
from holdfast.resources.kinds.mount.fstab import Device, InFstab, matched
from holdfast.resources.kinds.mount.lines import MountLine
from holdfast.resources.kinds.mount.table import Swap as SwapSpace
from holdfast.resources.paths import Unsafe
from holdfast.resources.watches import either


class Swap(InFstab, kind="mount.swap"):
    """Swap space is in use, and has an entry in fstab for the next boot.

    The space must exist and have its signature (`mkswap`). The kernel reports changes of swap spaces; inotify reports
    changes of the file.

    /swapfile:
      mount.swap
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("start", "add")

    name: Device
    """The space: the path of a device or file, `UUID=...` or `LABEL=...`."""
    persist: bool = True
    """Keep an entry in fstab; false: do not change the file. The options of an existing entry stay."""

    def entry(self) -> MountLine:
        """Return a new entry."""
        return MountLine(self.name, "none", "swap")

    def matches(self, seen: MountLine) -> bool:
        """Return whether an entry is for this swap space."""
        return matched(self.entry(), seen, ())

    def read(self, text: str) -> State:
        """Return whether there is an entry, whatever its options."""
        state = super().read(text)
        return {"persist": "present"} if state == {"persist": "change"} else state

    def desired(self) -> State:
        """Return that the space is in use and has an entry."""
        return {"active": True, **({"persist": "present"} if self.persist else {})}

    async def probe(self, ctx: Context) -> State:
        """Return whether the space is in use and whether it has an entry."""
        state = await super().probe(ctx) if self.persist else {}
        return {**(state or {}), "active": await self._active(ctx) is not None}

    async def _active(self, ctx: Context) -> SwapSpace | None:
        """Return the space as the kernel shows it; None if it is not in use."""
        with os_errors("read", table.SWAPS):
            known = await ctx.blocking(table.swaps)
        if not known:
            return None
        path = await located(ctx, self.name)
        space: SwapSpace | None = await ctx.blocking(_named, known, path)
        return space

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Use the space before writing its entry: a space that cannot be used must not disturb the next boot."""
        if "active" in delta.fields:
            path = await located(ctx, self.name)
            await ctx.blocking(_demand_safe, path)
            ctx.report.touched = True
            done = await ctx.run("swapon", path, check=False, timeout=MINUTES)
            if done.retcode:
                raise Permanent(f"cannot use swap space {self.name}: {reason(done)}")
            used = await self._active(ctx)
            ctx.report.changes = {} if used is None else {name: str(value) for name, value in used._asdict().items()}
            ctx.report.changes.pop("device", None)
        if "persist" in delta.fields:
            await super().apply(ctx, delta)
            ctx.report.changes["persist"] = "new"

    async def watch(self, ctx: Context) -> Watch:
        """Watch the file and the table of the kernel."""
        async for item in either(super().watch(ctx), ctx.watch_kernel("swaps")):
            yield item

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the swap space."""
        return (("swap", self.name),)

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the file that contains the swap space."""
        own = (Dependency("path", self.name),) if is_path(self.name) else ()
        return (*super().dependencies(), *own)

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return what would change."""
        words: dict[str, Any] = {"active": ("active", True), "persist": ("persist", "new")}
        return dict(words[name] for name in delta.fields)

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does."""
        if "active" not in delta.fields:
            return Effect(("add",), f"swap space {self.name}", detail=f" to {self.config}")
        kept = f", and its entry in {self.config}" if "persist" in delta.fields else ""
        return Effect(("start",), f"swap space {self.name}", detail=kept)

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"swap space {self.name} is already in use"


def _named(known: list[SwapSpace], path: str) -> SwapSpace | None:
    """Return the space with this path, or another path of the same device or file. Blocks."""
    own = found(path, follow=True)[1] if path.startswith("/") else None
    for space in known:
        seen = found(space.device, follow=True)[1] if own is not None else None
        same = own is not None and seen is not None and (own.st_dev, own.st_ino) == (seen.st_dev, seen.st_ino)
        if space.device == path or same or (own and seen and own.st_rdev and own.st_rdev == seen.st_rdev):
            return space
    return None


def _demand_safe(path: str) -> None:
    """Raise `Unsafe` for a file that a user could replace or write, because the kernel writes into it. Blocks."""
    place, seen = found(path, follow=True)
    if place is not None and seen is not None and (place.who(seen) or seen.st_uid):
        raise Unsafe(f"cannot use swap space {path}: it belongs to another user than root, or {place.reason(seen)}")
