"""What all kinds of files share: the path as identity, owners by name, and system errors as sentences."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import BeforeValidator

from holdfast.resources import accounts, paths
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.errors import HoldfastError, Permanent, passing_or_not
from holdfast.resources.fields import AbsPath, Mode, Owner, field, parse_mode
from holdfast.resources.needs import Need, lies_in, owned_by, unit_behind, unit_parts
from holdfast.resources.paths import Place, Unsafe
from holdfast.resources.paths.handle import ABSENT
from holdfast.resources.temporaries import give_back, take_name
from holdfast.resources.traits import Edgeable, Recvable
from holdfast.resources.visible import escaped

LARGE = 1 << 20
"""Bytes from which on content is read and compared in a thread."""
NEW_FILE, NEW_DIRECTORY = 0o644, 0o755
"""Modes of what is made where none is declared."""
UNDECLARED = -1
"""In place of a uid or gid: leave it as it is."""
UNKNOWN = -2
"""In place of a uid or gid: there is no such user or group (yet)."""

REASONS = {
    errno.ENOSPC: "no space is left on the file system",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "the operation is not permitted to the agent, or the file is immutable",
    errno.ENAMETOOLONG: "the path is too long",
    errno.ELOOP: "too many symbolic links",
    errno.EBUSY: "it is in use",
}
WINDOWS = dict.fromkeys(
    ("win_owner", "win_perms", "win_deny_perms", "win_inheritance", "win_perms_reset"), "Windows only"
)
"""Arguments of Salt's that mean nothing here."""


DECIDES = re.compile(
    r"/etc/(passwd|shadow|group|gshadow|sudoers|securetty|hosts\.(allow|deny)|crontab|(sudoers\.d|ssh|pam\.d|security|polkit-1|apparmor\.d|selinux|cron\.\w+)(/.*)?)"
    r"|/(root|home/[^/]+)/\.ssh(/.*)?|/var/spool/cron(/.*)?"
)
"""Paths of files that decide who may do what."""


def failure(doing: str, path: str, error: OSError) -> HoldfastError:
    """The one-line error for a failed system call, `Temporary` where trying again may help."""
    reason = REASONS.get(error.errno or 0) or (error.strerror or str(error)).lower()
    text = escaped(f"cannot {doing} {path}: {reason}")
    return passing_or_not(text, error)


class telling:  # noqa: N801 - used like a function, as those of contextlib
    """Turn any `OSError` inside into a sentence about `path`. A class, for each look at a file enters one or two."""

    __slots__ = ("_doing", "_path")

    def __init__(self, doing: str, path: str) -> None:
        self._doing, self._path = doing, path

    def __enter__(self) -> None:
        """Nothing is to be done."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Tell. Raises `Permanent` or `Temporary`."""
        if isinstance(error, OSError):
            raise failure(self._doing, self._path, error) from None


def found(path: str, *, follow: bool = False) -> tuple[Place | None, os.stat_result | None]:
    """The place of a path, and what is there; no place where directories on the way are missing. Links there are followed with `follow`.

    Raises `Permanent` when it may not be looked at, or is not safe.
    """
    try:
        place = paths.at(path, follow=follow)
        return place, place.look()
    except ABSENT:
        return None, None
    except OSError as error:
        raise failure("look at", path, error) from None


def status(path: str) -> os.stat_result | None:
    """What is at a path, links there not followed; None when nothing is. Raises as `found` does."""
    return found(path)[1]


def place_of(path: str) -> Place:
    """The place of a path whose directory is there. Raises `Permanent` or `Temporary`."""
    with telling("reach", path):
        return paths.at(path)


class Ownership(NamedTuple):
    """Declared owner, as names and as numbers, and mode."""

    user: str | None
    group: str | None
    uid: int
    gid: int
    mode: int | None

    def wrong(self, seen: os.stat_result) -> dict[str, str]:
        """What of it differs, in Salt's words: `{"mode": "0644", "user": "www-data"}`."""
        changes = {}
        if self.user is not None and self.uid != seen.st_uid:
            changes["user"] = self.user
        if self.group is not None and self.gid != seen.st_gid:
            changes["group"] = self.group
        if self.mode is not None and self.mode != stat.S_IMODE(seen.st_mode) and not stat.S_ISLNK(seen.st_mode):
            changes["mode"] = f"{self.mode:04o}"
        return changes

    def of_new(self, mode: int) -> str:
        """Mode and owner of what would be made, for a plan; `mode` is that of what is made where none is declared."""
        return f" with {self.mode_of_new(mode)}, {self.owner_of_new()}"

    def mode_of_new(self, mode: int) -> str:
        """Its mode alone."""
        return f"mode {mode if self.mode is None else self.mode:04o}"

    def owner_of_new(self) -> str:
        """Its owner alone, which is all that a link has."""
        numbers = ((self.user, self.uid, os.geteuid()), (self.group, self.gid, os.getegid()))
        user, group = (name or _name(own if number < 0 else number) for name, number, own in numbers)
        return f"owner {user}:{group}"

    def demand(self, path: str) -> None:
        """Raise `Permanent` when the user or group does not exist."""
        for word, name, number in (("user", self.user, self.uid), ("group", self.group, self.gid)):
            if number == UNKNOWN:
                raise Permanent(
                    f"cannot give {path} to {word} {name}: there is no such {word}; declare it, or correct the name"
                )

    def put(self, place: Place, seen: os.stat_result) -> None:
        """Set what differs on what was seen at a place, never on what a link there leads to. Raises `OSError` and `Unsafe`."""
        place.change(seen, max(self.uid, UNDECLARED), max(self.gid, UNDECLARED), self.mode)

    def make(self, place: Place, mode: int) -> None:
        """Make a directory with this owner, of this mode where none is declared. Raises `OSError` and `Unsafe`."""
        place.mkdir(max(self.uid, UNDECLARED), max(self.gid, UNDECLARED), mode if self.mode is None else self.mode)


def _name(number: int) -> str:
    return str(number) if number else "root"


def put_link(place: Place, target: str, owner: Ownership) -> None:
    """Make a link beside its place and rename it: who looks sees the old one or the new. Raises `OSError`."""
    beside = place.beside(take_name(place.name))
    try:
        with suppress(FileNotFoundError):  # one that a killed agent with our number has left
            beside.unlink()
        beside.symlink(target, max(owner.uid, UNDECLARED), max(owner.gid, UNDECLARED))
        beside.rename(place)
    except (OSError, Unsafe):
        with suppress(OSError):
            beside.unlink()
        raise
    finally:
        give_back(beside.name)


async def ownership(ctx: Context, user: str | None, group: str | None, mode: int | None = None) -> Ownership:
    """Look names up: in this host's files, then in its name service."""
    uid = gid = UNDECLARED
    if user is not None:
        known = accounts.local_uid(user)
        known = await ctx.blocking(accounts.service_uid, user) if known is None else known
        uid = UNKNOWN if known is None else known
    if group is not None:
        known = accounts.local_gid(group)
        known = await ctx.blocking(accounts.service_gid, group) if known is None else known
        gid = UNKNOWN if known is None else known
    return Ownership(user, group, uid, gid, mode)


def octal(mode: str | None) -> int | None:
    """A declared mode as a number."""
    return None if mode is None else int(mode, 8)


def passable(mode: int) -> int:
    """The mode of a directory made for a file of this mode: whoever may read may also pass."""
    return mode | (mode & 0o444) >> 2


def make_parents(path: str, owner: Ownership, mode: int = 0o755) -> None:
    """Make the directories on the way to a path; those that exist are left as they are. Raises `Permanent` or `Temporary`."""
    try:
        paths.make_parents(path, max(owner.uid, UNDECLARED), max(owner.gid, UNDECLARED), mode)
    except OSError as error:
        raise failure("make directory", str(error.filename or path), error) from None


def demand_parent(path: str, *, makedirs: bool, apply: bool) -> None:
    """Raise `Permanent` when the parent is missing and is not to be made; without `apply` it may be somebody else's to make."""
    parent = os.path.dirname(path)  # noqa: PTH120 - Path objects are slow
    if apply and not makedirs and status(parent) is None:
        raise Permanent(f"cannot make {path}: directory {parent} does not exist; declare it, or set makedirs: true")


def parse_mode_or_keep(value: object) -> object:
    """A mode, or `keep`: that of the source."""
    return value if value == "keep" else parse_mode(value)


ModeOrKeep = Annotated[str, BeforeValidator(parse_mode_or_keep)]


class PathResource(Recvable, Resource):
    """A resource that is one path."""

    concerns: ClassVar[Mapping[str, Concern]] = {
        "mode": "security",
        "user": "security",
        "group": "security",
        "": "content",
    }
    removes: ClassVar[bool] = False
    """It is right when nothing is there."""

    name: AbsPath
    """The absolute path; the ID of the state where it gives no name."""

    def uids(self) -> tuple[Uid, ...]:
        """The path."""
        return (("path", self.name),)

    def touches(self) -> tuple[Uid, ...]:
        """The unit that the file makes, masks, adds to or enables."""
        return unit_behind(self.name)

    def contradicts(self, other: Resource) -> str | None:
        """As any two, but those that remove the path go together, and so do a part of the file and a whole that has it."""
        if isinstance(other, PathResource) and self.removes and other.removes and type(self) is not type(other):
            return None
        if isinstance(other, PathResource) and (self.partial or other.partial):
            return (
                None if self.partial and other.partial else other.refuses(self) if self.partial else self.refuses(other)
            )
        return super().contradicts(other)

    def concern(self, changes: Mapping[str, Any]) -> Concern:
        """As its parts, but for files that decide who may do what."""
        return "security" if DECIDES.fullmatch(self.name) else super().concern(changes)

    def refuses(self, part: PathResource) -> str | None:
        """Why the part of the file that another declares can never be in what this declares; None where it can, or nobody knows yet."""
        return None

    def watch(self, ctx: Context) -> Watch:
        """Events of the path and of its parents."""
        return ctx.watch_path(self.name)


class Placed(Edgeable, PathResource):
    """A path that is there when all is right, in a directory that must be there before."""

    def offers(self) -> tuple[Uid, ...]:
        """The path; and the unit, where it is a file of one."""
        return (("path", self.name), *unit_parts(self.name))

    def needs(self) -> tuple[Need, ...]:
        """The directory that it lies in."""
        return (lies_in(self.name, vital=not getattr(self, "makedirs", False)),)


class OwnedResource(Placed):
    """A path with an owner, whose parents may be made on the way."""

    user: Owner | None = None
    """Owner, by name or number; None leaves it as it is."""
    group: Owner | None = None
    """Group, by name or number; None leaves it as it is."""
    makedirs: bool = False
    """Make missing parent directories, too."""
    dir_mode: Mode | None = field(None)
    """Mode of directories made for `makedirs`. Default: 0755."""

    def needs(self) -> tuple[Need, ...]:
        """The directory that it lies in, and its owner."""
        return (lies_in(self.name, vital=not self.makedirs), *owned_by(self.user, self.group))


def note(ctx: Context, changes: dict[str, Any], comment: str) -> None:
    """Tell what was done, or would be."""
    ctx.report.changes = changes
    ctx.report.comment = comment
