"""`mount.fstab_present`, `mount.fstab_absent`, and the base of all kinds with an entry in fstab."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from holdfast.resources import paths
from holdfast.resources.accepts import ITEM, VALUE, accepts
from holdfast.resources.context import Context
from holdfast.resources.contract import Concern, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import AbsPath, Text, parse_list, shaped
from holdfast.resources.kinds._config_file import ConfigEntry
from holdfast.resources.kinds.mount import acting
from holdfast.resources.kinds.mount.lines import MountLine, found_in, masked, plain_device, with_entry
from holdfast.resources.traits import Declaration, Reversible

FSTAB = "/etc/fstab"
BOOTED = "/run/systemd/system"
RELOAD = 60
"""Time limit, in seconds, for systemd to reload its configuration."""
COLUMNS = ("device", "name", "fstype", "opts", "dump", "pass_num")
"""Names of the fields of a line that `match_on` accepts."""

Device = Annotated[
    Text,
    shaped(r"(?!-)[^\x00-\x1f\x7f]+", "a device: a device has no control characters and does not begin with a dash"),
]
FileSystem = Annotated[str, shaped(r"(?!-)[A-Za-z0-9_.,+-]+", "the type of a file system, such as ext4", 255)]
Number = Annotated[int, Field(ge=0, le=9)]


@accepts(VALUE, ITEM, None)
def parse_options(value: object) -> object:
    """Return options as a list; split text at commas."""
    words = [value] if isinstance(value, str) else parse_list(value)
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
        return words
    return tuple(part.strip() for word in words for part in word.split(",") if part.strip()) or ("defaults",)


@accepts(pattern=r"[^\x00-\x1f\x7f]*")
def demand_options(value: tuple[str, ...]) -> tuple[str, ...]:
    """Check options. Raises `ValueError` for control characters."""
    for option in value:
        if any(ord(letter) < ord(" ") or letter == "\x7f" for letter in option):
            raise ValueError("a mount option cannot contain control characters")
    return value


Options = Annotated[tuple[str, ...], BeforeValidator(parse_options), AfterValidator(demand_options)]
"""Options of a mount: a list, or text with commas."""


@accepts(VALUE, ITEM, str, None)
def parse_match(value: object) -> object:
    """Return the fields to match as a list; an empty list for `auto`."""
    return () if value == "auto" else parse_list(value)


Match = Annotated[
    tuple[Literal["device", "name", "fstype", "opts", "dump", "pass_num"], ...], BeforeValidator(parse_match)
]


@accepts(pattern=r"/[^\x00-\x1f\x7f]*")
def demand_printable(value: str) -> str:
    """Check a path. Raises `ValueError` for control characters, which fstab cannot have."""
    if any(ord(letter) < ord(" ") or letter == "\x7f" for letter in value):
        raise ValueError("a mount point cannot contain control characters")
    return value


Point = Annotated[AbsPath, AfterValidator(demand_printable)]
"""A mount point."""


class InFstab(ConfigEntry):
    """Base of the kinds with an entry in fstab."""

    concerns: ClassVar[Mapping[str, Concern]] = {"": "operation"}

    config: AbsPath = FSTAB
    """The file that lists the mounts of the next boot."""

    @abstractmethod
    def entry(self) -> MountLine | None:
        """Return the entry that the file should have; None: no entry."""

    @abstractmethod
    def matches(self, seen: MountLine) -> bool:
        """Return whether an entry is the one that this resource manages."""

    def file(self) -> str:
        """Return the file."""
        return self.config

    def read(self, text: str) -> State:
        """Return whether the entry is as declared (`present`), must be added (`new`) or must be changed (`change`)."""
        seen, wanted = found_in(text, self.matches), self.entry()
        if wanted is None:
            return {"persist": "present" if seen else "absent"}
        right = len(seen) == 1 and seen[0].same(wanted)
        return {"persist": "present" if right else "change" if seen else "new"}

    def edited(self, text: str) -> str:
        """Return the text with the entry as declared."""
        return with_entry(text, self.entry(), self.matches)

    async def probe(self, ctx: Context) -> State:
        """Return the state of the entry; mask passwords in the diff."""
        state = await super().probe(ctx)
        ctx.report.diff = masked(ctx.report.diff)
        return state

    async def rewrite(
        self, ctx: Context, change: Callable[[str], str], verify: Callable[[str], Awaitable[None]] | None = None
    ) -> None:
        """Replace the file; then reload systemd, because its mount units come from this file."""
        await super().rewrite(ctx, change, verify)
        ctx.report.diff = masked(ctx.report.diff)
        if self.config == FSTAB and paths.exists(BOOTED):
            await ctx.run("systemctl", "daemon-reload", check=False, timeout=RELOAD)

    async def before(self, ctx: Context) -> MountLine | None:
        """Return the first present entry that matches."""
        return next(iter(found_in(await self.text(ctx), self.matches)), None)


class OfDevice(Reversible, InFstab):
    """Base of the kinds that manage only the entry of a device."""

    name: Device
    """The device: a path, `UUID=...`, `LABEL=...`, `server:/path`, or the source of a virtual file system."""
    fs_file: Annotated[str, shaped(r"/[^\x00-\x1f\x7f]*|none|swap", "a mount point, or none")]
    """The mount point; `none` for swap space."""
    mount_by: Literal["device", "label", "uuid", "partlabel", "partuuid"] | None = None
    """Write the device in this form; the device must exist. Default: as given."""

    @property
    def point(self) -> str:
        """The mount point without a final slash."""
        return self.fs_file.rstrip("/") or self.fs_file

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the entry."""
        return (("fstab", f"{self.config} {self.name if self.point in {'none', 'swap'} else self.point}"),)

    async def resolved(self, ctx: Context) -> OfDevice:
        """Return the resource with the device in the form that `mount_by` names. Raises `Permanent`."""
        own = plain_device(self.name)
        wanted = (self.mount_by or "").upper()
        if not wanted or own.startswith(f"{wanted}=") or (wanted == "DEVICE" and own.startswith("/")):
            return self.model_copy(update={"mount_by": None})
        path = own if own.startswith("/") else (await ctx.run("findfs", own, check=False)).stdout.strip()
        if wanted != "DEVICE" and path:
            done = await ctx.run("blkid", "-s", wanted, "-o", "value", path, check=False)
            path = f"{wanted}={value}" if (value := done.stdout.strip()) else ""
        if not path:
            raise Permanent(f"cannot find the {self.mount_by} of {self.name}: the device does not exist or has none")
        return self.model_copy(update={"name": path, "mount_by": None})

    async def probe(self, ctx: Context) -> State:
        """Return the state of the entry."""
        if self.mount_by:
            return await (await self.resolved(ctx)).probe(ctx)
        return await super().probe(ctx)

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Write the file."""
        if self.mount_by:
            await (await self.resolved(ctx)).apply(ctx, delta)
        else:
            await super().apply(ctx, delta)

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return a declaration of the present entry, or of its absence."""
        own = await self.resolved(ctx)
        seen = await own.before(ctx)
        arguments = {"name": own.name, "fs_file": own.point, "config": own.config}
        return Declaration("mount.fstab_absent", arguments) if seen is None else as_declaration(seen, self.config)


def as_declaration(seen: MountLine, config: str) -> Declaration:
    """Return the declaration of an existing entry."""
    device, name, fstype, opts, dump, pass_num = seen
    arguments = {"name": device, "fs_file": name, "fs_vfstype": fstype, "fs_mntops": list(opts), "fs_freq": dump}
    return Declaration("mount.fstab_present", {**arguments, "fs_passno": pass_num, "config": config, "mount": False})


class FstabPresent(OfDevice, kind="mount.fstab_present"):
    """A file system has an entry in fstab, for the next boot. inotify reports changes of the file.

    /dev/vdb1:
      mount.fstab_present:
        - fs_file: /srv
        - fs_vfstype: ext4
        - fs_mntops: noatime,nofail
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("add", "change")
    ignored: ClassVar[Mapping[str, str]] = {"fs_mount": "AIX only"}

    fs_vfstype: FileSystem
    """The type of the file system."""
    fs_mntops: Options = ("defaults",)
    """Options: a list, or text with commas. Their order does not matter."""
    fs_freq: Number = 0
    """Whether dump(8) backs up the file system."""
    fs_passno: Number = 0
    """When fsck(8) checks the file system at boot: 1 first, 2 later, 0 never."""
    mount: bool = True
    """Mount the file system when its entry is added."""
    match_on: Match = ()
    """The fields that identify the present entry.

    `auto`, the default: the mount point, or for swap space the device.
    """
    not_change: bool = False
    """Do not change an existing entry."""

    def entry(self) -> MountLine:
        """Return the declared entry."""
        return MountLine(self.name, self.point, self.fs_vfstype, self.fs_mntops, self.fs_freq, self.fs_passno)

    def matches(self, seen: MountLine) -> bool:
        """Return whether an entry has the fields of `match_on`."""
        return matched(self.entry(), seen, self.match_on)

    def desired(self) -> State:
        """Return that the entry exists."""
        return {"persist": "present"}

    def read(self, text: str) -> State:
        """Return the state of the entry; with `not_change`, any entry counts as right."""
        if self.not_change and found_in(text, self.matches):
            return self.desired()
        return super().read(text)

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Write the file; mount the file system if its entry is new."""
        await acting.demand_source(ctx, self.name)
        await super().apply(ctx, delta)
        if self.mount and not self.mount_by and (delta.before or {}).get("persist") == "new" and self.fs_file[0] == "/":
            await acting.mount_listed(ctx, self.point)

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return `new` or `change`, as Salt does."""
        return {"persist": (delta.before or {}).get("persist", "new")}

    def effect(self, delta: Delta) -> Effect:
        """Return whether the entry is new."""
        new = (delta.before or {}).get("persist") == "new"
        return Effect(("add" if new else "change",), f"the entry of {self.point}", detail=f" in {self.config}")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"{self.config} already has the entry of {self.point}"


class FstabAbsent(OfDevice, kind="mount.fstab_absent"):
    """A mount point has no entry in fstab; a mounted file system stays mounted. inotify reports changes of the file.

    /dev/vdb1:
      mount.fstab_absent:
        - fs_file: /srv
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("remove",)

    def entry(self) -> None:
        """Return None: no entry."""
        return

    def matches(self, seen: MountLine) -> bool:
        """Return whether an entry has this mount point or, for swap space, this device."""
        return matched(MountLine(self.name, self.point, "swap"), seen, ())

    def desired(self) -> State:
        """Return that there is no entry."""
        return {"persist": "absent"}

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return `removed`, as Salt does."""
        return {"persist": "removed"}

    def effect(self, delta: Delta) -> Effect:
        """Return that the entry is removed."""
        return Effect(("remove",), f"the entry of {self.point}", detail=f" from {self.config}")

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"{self.config} has no entry of {self.point}"


def matched(wanted: MountLine, seen: MountLine, fields: tuple[str, ...]) -> bool:
    """Return whether two entries agree in these fields; by default, in the mount point or the device of swap space."""
    if not fields:
        swap = wanted.name in {"none", "swap"}
        if swap:
            return seen.fstype == "swap" and plain_device(seen.device) == plain_device(wanted.device)
        return seen.name == wanted.name
    own, other = wanted.normal, seen.normal
    return all(own[COLUMNS.index(name)] == other[COLUMNS.index(name)] for name in fields)
