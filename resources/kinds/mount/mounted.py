"""`mount.mounted` and `mount.unmounted`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator

from holdfast.resources import paths
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Resource, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency, lies_in
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import HoldfastError, Temporary
from holdfast.resources.fields import Owner, Texts, parse_list
from holdfast.resources.kinds.file.edit import Regex
from holdfast.resources.kinds.mount import acting, options
from holdfast.resources.kinds.mount.acting import MountCall
from holdfast.resources.kinds.mount.devices import comes_from, is_path
from holdfast.resources.kinds.mount.fstab import Device, FileSystem, InFstab, Match, Number, Options, Point, matched
from holdfast.resources.kinds.mount.lines import MountLine, masked
from holdfast.resources.kinds.mount.table import Mount
from holdfast.resources.traits import Declaration, Refreshable, Reversible
from holdfast.resources.watches import either

BOOT = "/proc/sys/kernel/random/boot_id"
NOTE = "options.json"
"""File of the resource with options that were set and that the kernel does not show."""
AGAIN = ("nfs", "cvfs", "fuse", "sshfs")
"""Prefixes of types whose options change only when the file system is unmounted and mounted again."""
PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "btrfs": ("btrfs-progs",),
    "cifs": ("cifs-utils",),
    "glusterfs": ("glusterfs-client", "glusterfs-fuse"),
    "nfs": ("nfs-common", "nfs-utils"),
    "nfs4": ("nfs-common", "nfs-utils"),
    "xfs": ("xfsprogs",),
}
"""Type of a file system -> packages with its programs."""
Patterns = Annotated[tuple[Regex, ...], BeforeValidator(parse_list)]


class AtPoint(Reversible, InFstab):
    """Base of the kinds of one mount point."""

    name: Point
    """The mount point."""

    def matches(self, seen: MountLine) -> bool:
        """Return whether an entry has this mount point."""
        return seen.name == self.name

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the mount point."""
        return (("mount", self.name),)

    async def watch(self, ctx: Context) -> Watch:
        """Watch the file, and the kernel's table for changes of this mount point."""
        last: object = None
        armed = False
        async for item in either(super().watch(ctx), ctx.watch_kernel("mounts")):
            seen = await self._glance(ctx)
            if item is not None or not armed or seen != last:
                last, armed = seen, True
                yield item

    async def _glance(self, ctx: Context) -> object:
        """Return what is mounted and the text of the file, or the error that reading them raised."""
        try:
            return await acting.stack(ctx, await acting.real_point(ctx, self.name)), await self.text(ctx)
        except HoldfastError as error:
            return str(error)


class Mounted(Refreshable, AtPoint, kind="mount.mounted"):
    """A file system is mounted, and has an entry in fstab for the next boot.

    Another device at the mount point is unmounted first; if it is busy, the error names the processes that use it. The
    state compares only options that the kernel shows, and sets others once. A change of a watched state sets all
    options again. The kernel reports changes of mounts; inotify reports changes of the file.

    /srv/data:
      mount.mounted:
        - device: UUID=066e0200-2867-4ebe-b9e6-f30026ca2314
        - fstype: ext4
        - opts: [noatime, nofail]
        - mkmnt: true
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("mount", "change", "unmount", "add", "create", "refresh")
    ignored: ClassVar[Mapping[str, str]] = {
        "bind_mount_copy_active_opts": "a bind mount always has the options of its file system",
    }

    device: Device
    """A path, `UUID=...`, `LABEL=...`, `server:/path`, or the name of a virtual file system."""
    fstype: FileSystem
    """The type; `none` for bind mounts."""
    mkmnt: bool = False
    """Create the mount point and its parents if they are missing."""
    opts: Options = ("defaults",)
    """Options: a list, or text with commas. Their order does not matter. Put passwords into a credentials file."""
    dump: Number = 0
    """Whether dump(8) backs up the file system."""
    pass_num: Number = 0
    """When fsck(8) checks the file system at boot: 1 first, 2 later, 0 never."""
    persist: bool = True
    """Keep an entry in fstab; false: do not change the file."""
    mount: bool = True
    """Mount the file system now; false: only keep the entry and, with `mkmnt`, the directory."""
    user: Owner | None = None
    """The user who mounts the file system. Default: the agent's user."""
    match_on: Match = ()
    """The fields that identify the present entry. `auto`, the default: the mount point."""
    device_name_regex: Patterns = ()
    """Other accepted names of the device: regular expressions for the beginning of a name."""
    extra_mount_invisible_options: Texts = ()
    """Further options that the kernel does not show."""
    extra_mount_invisible_keys: Texts = ()
    """Further names of options with values that the kernel does not show."""
    extra_mount_ignore_fs_keys: dict[str, Texts] | None = None
    """Type of file system -> names of its options that are not compared."""
    extra_mount_translate_options: dict[str, str] | None = None
    """Option -> the form in which the kernel shows it."""
    hidden_opts: Options = ()
    """Options that are not compared."""

    def entry(self) -> MountLine:
        """Return the declared entry."""
        opts = tuple(option for option in self.opts if option != "remount") or ("defaults",)
        return MountLine(self.device, self.name, self.fstype, opts, self.dump, self.pass_num)

    def matches(self, seen: MountLine) -> bool:
        """Return whether an entry has the fields of `match_on`."""
        return matched(self.entry(), seen, self.match_on)

    @property
    def compared(self) -> tuple[str, ...]:
        """The options that the kernel should show."""
        more = {*self.extra_mount_invisible_options, *self.hidden_opts, "remount"}
        keys = {*self.extra_mount_invisible_keys, *(self.extra_mount_ignore_fs_keys or {}).get(self.fstype, ())}
        kept = [option for option in self.opts if options.is_visible(option, self.fstype, more, keys)]
        return tuple((self.extra_mount_translate_options or {}).get(option, option) for option in kept)

    def desired(self) -> State:
        """Return that the file system is mounted from its device with all options, and has its entry."""
        wanted: dict[str, Any] = {"persist": "present"} if self.persist else {}
        if self.mount:
            return {"mount": True, "device": self.device, "missing": (), **wanted}
        return {"directory": True, **wanted} if self.mkmnt else wanted

    async def probe(self, ctx: Context) -> State:
        """Return what is mounted, the options that are missing, and the state of the entry."""
        state = dict(await super().probe(ctx) or {}) if self.persist else {}
        point = await acting.real_point(ctx, self.name)
        seen = await acting.stack(ctx, point)
        if not seen:
            exists = await ctx.blocking(paths.exists, point)
            return {**state, "mount": False, "device": self.device, "missing": (), "directory": exists}
        right = not self.mount or await comes_from(ctx, seen[-1], self.device, self.device_name_regex)
        missing = await self._missing(ctx, seen[-1]) if right else ()
        device = self.device if right else seen[-1].source
        return {**state, "mount": True, "device": device, "missing": missing, "directory": True}

    async def _missing(self, ctx: Context, seen: Mount) -> tuple[str, ...]:
        """Return the missing options, without those that the kernel does not show and that were set."""
        missing = options.missing(self.compared, seen)
        if not missing:
            return ()
        boot, number, names = await self._remembered(ctx)
        known = names if (boot, number) == (await self._boot(ctx), seen.number) else []
        return tuple(option for option in missing if option not in known)

    @staticmethod
    async def _remembered(ctx: Context) -> tuple[str, int, list[str]]:
        """Return the boot and the mount number for which options were set, and these options."""
        try:
            found = json.loads(await ctx.read_text(str(ctx.var_dir / NOTE)))
            return str(found["boot"]), int(found["number"]), [str(name) for name in found["options"]]
        except (OSError, ValueError, KeyError, TypeError):
            return "", 0, []

    @staticmethod
    async def _boot(ctx: Context) -> str:
        return (await ctx.read_text(BOOT)).strip()

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Mount the file system before writing its entry: an entry that cannot be mounted could stop the next boot."""
        if self.user is None:
            await acting.demand_source(ctx, self.device)
        point = await acting.real_point(ctx, self.name)
        if {"mount", "device", "missing"} & {*delta.fields}:
            await self._repair(ctx, point, delta)
        elif "directory" in delta.fields:
            await acting.make_point(ctx, point, make=True)
        if "persist" in delta.fields:
            await super().apply(ctx, delta)

    async def _repair(self, ctx: Context, point: str, delta: Delta) -> None:
        seen = await acting.stack(ctx, point)
        for _ in range(acting.MOST):
            if not seen or await comes_from(ctx, seen[-1], self.device, self.device_name_regex):
                break
            await acting.unmount(ctx, point, self.user)
            seen = await acting.stack(ctx, point)
        else:
            raise Temporary(f"cannot mount {self.name}: another program keeps mounting something else there")
        if not seen:
            await acting.make_point(ctx, point, make=self.mkmnt)
            await acting.mount(ctx, MountCall(self.device, self.fstype, self.opts, self.user), point)
        elif "missing" in delta.fields or options.missing(self.compared, seen[-1]):
            await self._mount_again(ctx, seen[-1])
        await self._remember(ctx, point)

    async def _mount_again(self, ctx: Context, seen: Mount) -> None:
        """Set the options; some file systems must be unmounted and mounted again for that."""
        if self.fstype.startswith(AGAIN):
            await acting.unmount(ctx, seen.point, self.user)
            await acting.mount(ctx, MountCall(self.device, self.fstype, self.opts, self.user), seen.point)
        else:
            await acting.remount(ctx, seen, self.opts)

    async def _remember(self, ctx: Context, point: str) -> None:
        """Remember the options that were set and that the kernel does not show, until the next mount."""
        seen = await acting.stack(ctx, point)
        left = (
            options.missing([option for option in self.compared if option not in {"ro", "rw"}], seen[-1])
            if seen
            else ()
        )
        if left:
            note = {"boot": await self._boot(ctx), "number": seen[-1].number, "options": left}
            path = str(ctx.var_dir / NOTE)
            await ctx.write_file(path, json.dumps(note).encode(), mode=0o600, touches=False)

    async def refresh(self, ctx: Context, apply: bool) -> bool:
        """Set all options again after a change of a watched state."""
        seen = await acting.stack(ctx, await acting.real_point(ctx, self.name))
        if not self.mount or not seen:
            return True
        if apply:
            ctx.report.changing()
            await self._mount_again(ctx, seen[-1])
        ctx.report.changes = {"mount": True}
        ctx.report.did(Effect(("refresh",), self.name), applied=apply)
        return False

    def offers(self) -> tuple[Uid, ...]:
        """Return the path: resources below it wait until the file system is mounted."""
        return (("path", self.name), *self.uids())

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the mount point, its directory, a device that is a path, and the packages of the file system."""
        own = (Dependency("path", self.name, vital=False), lies_in(self.name, vital=False))
        source = (Dependency("path", self.device, vital=False, above=True),) if is_path(self.device) else ()
        programs = [Dependency("pkg", name, vital=False) for name in PROGRAMS.get(self.fstype, ())]
        return (*super().dependencies(), *own, *source, *programs)

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return a declaration of the absence of the mount and the entry; None if one of them exists."""
        point = await acting.real_point(ctx, self.name)
        if await acting.stack(ctx, point) or await self.before(ctx) is not None:
            return None
        return Declaration("mount.unmounted", {"name": self.name, "config": self.config, "persist": self.persist})

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the changes as Salt reports them: `mount`, `umount` with the reason, and `persist`."""
        before = delta.before or {}
        changes: dict[str, Any] = {}
        if "device" in delta.fields:
            why = f"devices don't match. Wanted: {self.device}, current: {before['device']}"
            changes = {"umount": f"Forced unmount because {why}", "mount": True}
        elif "missing" in delta.fields:
            again = "unmount and mount" if self.fstype.startswith(AGAIN) else "remount"
            changes["umount"] = masked(f"Forced {again} because options ({','.join(before['missing'])}) changed")
        elif "mount" in delta.fields:
            changes["mount"] = True
        if "persist" in delta.fields:
            changes["persist"] = "new" if before["persist"] == "new" else "update"
        return {**changes, **({"directory": self.name} if "directory" in delta.fields else {})}

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does to the mount, or only to the entry."""
        before = delta.before or {}
        kept = f", and its entry in {self.config}" if "persist" in delta.fields else ""
        if "device" in delta.fields:
            return Effect(("mount",), self.name, detail=f" from {self.device}, instead of {before['device']}{kept}")
        if "mount" in delta.fields:
            return Effect(("mount",), self.name, detail=f" from {self.device}{kept}")
        if "missing" in delta.fields:
            return Effect(("change",), self.name, "the options", masked(f": {', '.join(before['missing'])}{kept}"))
        if "directory" in delta.fields:
            return Effect(("create",), self.name, detail=kept)
        return Effect(("add" if before["persist"] == "new" else "change",), self.name, f"the entry in {self.config}")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"{self.name} is already mounted from {self.device}" if self.mount else f"{self.name} is as declared"


class Unmounted(AtPoint, kind="mount.unmounted"):
    """Nothing is mounted at a mount point.

    If it is busy, the error names the processes that use it. The kernel reports changes of mounts; inotify reports
    changes of the file.

    /mnt:
      mount.unmounted:
        - persist: true
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("unmount", "remove")

    device: Device | None = None
    """Unmount only this device. Default: any device."""
    persist: bool = False
    """Remove the entry in fstab, too."""
    user: Owner | None = None
    """The user who unmounts the file system. Default: the agent's user."""

    def entry(self) -> None:
        """Return None: no entry."""
        return

    def matches(self, seen: MountLine) -> bool:
        """Return whether an entry has this mount point and, if one is declared, this device."""
        return super().matches(seen) and self.device in {None, seen.device}

    def desired(self) -> State:
        """Return that nothing is mounted and, with `persist`, that there is no entry."""
        return {"mounted": False, **({"persist": "absent"} if self.persist else {})}

    async def probe(self, ctx: Context) -> State:
        """Return whether something is mounted, and whether there is an entry."""
        state = await super().probe(ctx) if self.persist else {}
        return {**(state or {}), "mounted": bool(await self._mine(ctx, await acting.real_point(ctx, self.name)))}

    async def _mine(self, ctx: Context, point: str) -> Sequence[Mount]:
        """Return the mounts to unmount; none if another device is visible."""
        seen = await acting.stack(ctx, point)
        if seen and self.device and not await comes_from(ctx, seen[-1], self.device):
            return ()
        return seen

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Unmount everything there, then remove the entry."""
        point = await acting.real_point(ctx, self.name)
        for _ in range(acting.MOST):
            if not await self._mine(ctx, point):
                break
            await acting.unmount(ctx, point, self.user)
        else:
            raise Temporary(f"cannot unmount {self.name}: another program keeps mounting something there")
        if "persist" in delta.fields:
            await super().apply(ctx, delta)

    def contradicts(self, other: Resource) -> str | None:
        """Return the contradiction; a state for one device does not contradict a mount of another device."""
        if isinstance(other, Mounted):
            mine = self.device in {None, other.device}
            return f"{self.name} must be mounted and must not be mounted" if mine and other.mount else None
        return super().contradicts(other)

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return a declaration of the mount; None for no mount, several mounts, or a bind mount without an entry."""
        seen = await acting.stack(ctx, await acting.real_point(ctx, self.name))
        if len(seen) != 1:
            return None
        entry = await self.before(ctx) if self.persist else None
        mount, opts = seen[0], options.shown(seen[0])
        if entry is None and mount.root != "/" and not any(option.startswith("subvol=") for option in opts):
            return None
        fstype, opts = (mount.fstype, opts) if entry is None else (entry.fstype, [*entry.opts])
        arguments: dict[str, Any] = {"name": self.name, "device": entry.device if entry else mount.source}
        arguments |= {"fstype": fstype, "opts": opts, "persist": entry is not None, "config": self.config}
        return Declaration("mount.mounted", arguments)

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the changes as Salt reports them: `umount` and `persist`."""
        words: dict[str, Any] = {"mounted": ("umount", True), "persist": ("persist", "purged")}
        return dict(words[name] for name in delta.fields)

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does."""
        if "mounted" not in delta.fields:
            return Effect(("remove",), self.name, f"the entry in {self.config}")
        kept = f", removed its entry in {self.config}" if "persist" in delta.fields else ""
        return Effect(("unmount",), self.name, detail=kept)

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"nothing is mounted at {self.name}"
