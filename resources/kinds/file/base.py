"""Base of all kinds of files: the path as identity, owners by name, and messages for system errors."""

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
from holdfast.resources.accepts import accepts
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.dependencies import Dependency, lies_in, owned_by, unit_behind, unit_parts
from holdfast.resources.effects import Effect
from holdfast.resources.errors import HoldfastError, Permanent, refused_call
from holdfast.resources.fields import AbsPath, Mode, Owner, field, parse_mode
from holdfast.resources.paths import Place, Unsafe, change
from holdfast.resources.paths.handle import ABSENT
from holdfast.resources.paths.trust import called
from holdfast.resources.temporaries import give_back, take_name
from holdfast.resources.traits import Edgeable, Recvable
from holdfast.resources.visible import escaped

LARGE = 1 << 20
"""Size, in bytes, from which content is read and compared in a thread."""
NEW_FILE, NEW_DIRECTORY = 0o644, 0o755
"""Modes of new files and directories without a declared mode."""
UNDECLARED = -1
"""Value of a uid or gid that must not be changed."""
UNKNOWN = -2
"""Value of a uid or gid whose user or group does not exist (yet)."""

REASONS = {
    errno.ENOSPC: "no space is left on the file system",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "the agent is not permitted to do this, or the file is immutable",
    errno.ENAMETOOLONG: "the path is too long",
    errno.ELOOP: "too many symbolic links",
    errno.EBUSY: "it is in use, or something is mounted there",
}
WINDOWS = dict.fromkeys(
    ("win_owner", "win_perms", "win_deny_perms", "win_inheritance", "win_perms_reset"), "Windows only"
)
"""Arguments of Salt that have no meaning on Linux."""


DECIDES = (
    r"/etc/(passwd|shadow|group|gshadow|sudoers|securetty|hosts\.(allow|deny)|crontab"
    r"|(sudoers\.d|ssh|pam\.d|security|polkit-1|apparmor\.d|selinux|cron\.\w+)(/.*)?)"
    r"|/(root|home/[^/]+)/\.ssh(/.*)?|/var/spool/cron(/.*)?"
)
"""Matches paths of files that grant access. It is compiled at its first use, because many runs never use it."""


def failure(doing: str, path: str, error: OSError) -> HoldfastError:
    """Return the error for a failed system call, `Temporary` if trying again may help."""
    reason = REASONS.get(error.errno or 0) or (error.strerror or str(error)).lower()
    text = escaped(f"cannot {doing} {path}: {reason}")
    return refused_call(text, error)


class os_errors:  # noqa: N801 - used like a function, as those of contextlib
    """Turn each `OSError` in the body into an error about `path`.

    This is a class because each probe of a file enters it once or twice.
    """

    __slots__ = ("_doing", "_path")

    def __init__(self, doing: str, path: str) -> None:
        self._doing, self._path = doing, path

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raise `Permanent` or `Temporary` for an `OSError`."""
        if isinstance(error, OSError):
            raise failure(self._doing, self._path, error) from None


def found(path: str, *, follow: bool = False) -> tuple[Place | None, os.stat_result | None]:
    """Return the place of a path and the status of its file; the status is None if there is no file.

    The place is None if a parent directory is missing. With `follow`, a link at the path is followed. Raises
    `Permanent` if the path is unsafe or must not be read.
    """
    try:
        place = paths.at(path, follow=follow)
        return place, place.look()
    except ABSENT:
        return None, None
    except OSError as error:
        raise failure("inspect", path, error) from None


async def present_text(ctx: Context, path: str) -> str | None:
    """Return the text of a file; None if the file does not exist. Raises `Permanent` or `Temporary`."""
    with os_errors("read", path):
        try:
            return await ctx.read_text(path)
        except FileNotFoundError:
            return None


def status(path: str) -> os.stat_result | None:
    """Return the status of the file at a path without following a link there; None if there is no file.

    Raises the errors of `found`.
    """
    return found(path)[1]


def place_of(path: str) -> Place:
    """Return the place of a path whose directory exists. Raises `Permanent` or `Temporary`."""
    with os_errors("reach", path):
        return paths.at(path)


class Ownership(NamedTuple):
    """Declared owner, as names and as numbers, and mode."""

    user: str | None
    group: str | None
    uid: int
    gid: int
    mode: int | None

    def wrong(self, seen: os.stat_result | None) -> dict[str, str]:
        """Return the differences as Salt does, `{"mode": "0644", "user": "www-data"}`; empty if the file is missing."""
        changes: dict[str, str] = {}
        if seen is None:
            return changes
        if self.user is not None and self.uid != seen.st_uid:
            changes["user"] = self.user
        if self.group is not None and self.gid != seen.st_gid:
            changes["group"] = self.group
        if self.mode is not None and self.mode != stat.S_IMODE(seen.st_mode) and not stat.S_ISLNK(seen.st_mode):
            changes["mode"] = f"{self.mode:04o}"
        return changes

    def of_new(self, mode: int) -> str:
        """Return the mode and owner of a new file for a plan; `mode` applies if none is declared."""
        return f" with {self.mode_of_new(mode)}, {self.owner_of_new()}"

    def mode_of_new(self, mode: int) -> str:
        """Return only the mode of a new file."""
        return f"mode {mode if self.mode is None else self.mode:04o}"

    def owner_of_new(self) -> str:
        """Return only the owner of a new file; used for links, which have no mode."""
        numbers = ((self.user, self.uid, os.geteuid()), (self.group, self.gid, os.getegid()))
        user, group = (name or _name(own if number < 0 else number) for name, number, own in numbers)
        return f"owner {user}:{group}"

    def demand(self, path: str) -> None:
        """Raise `Permanent` if the user or group does not exist."""
        for word, name, number in (("user", self.user, self.uid), ("group", self.group, self.gid)):
            if number == UNKNOWN:
                raise Permanent(
                    f"cannot give {path} to {word} {name}: the {word} does not exist; declare it, or correct the name"
                )

    def put(self, place: Place, seen: os.stat_result) -> None:
        """Set the owner and mode where they differ, never on the target of a link. Raises `OSError` and `Unsafe`."""
        change(place, seen, max(self.uid, UNDECLARED), max(self.gid, UNDECLARED), self.mode)

    def make(self, place: Place) -> None:
        """Create a directory with this owner and mode. Raises `OSError` and `Unsafe`."""
        place.mkdir(max(self.uid, UNDECLARED), max(self.gid, UNDECLARED), self.mode)


def _name(number: int) -> str:
    return str(number) if number else "root"


def put_link(place: Place, target: str, owner: Ownership) -> None:
    """Create a link under a temporary name, then rename it into place atomically. Raises `OSError`."""
    beside = place.beside(take_name(place.name))
    try:
        with suppress(FileNotFoundError):  # left by a killed agent with the same process id
            beside.unlink(own=True)
        beside.symlink(target, max(owner.uid, UNDECLARED), max(owner.gid, UNDECLARED))
        beside.rename(place)
    except (OSError, Unsafe):
        with suppress(OSError):
            beside.unlink(own=True)
        raise
    finally:
        give_back(beside.name)


async def ownership(ctx: Context, user: str | None, group: str | None, mode: int | None = None) -> Ownership:
    """Look up the user and group in this host's files, then in its name service."""
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
    """Return a declared mode as a number."""
    return None if mode is None else int(mode, 8)


def passable(mode: int) -> int:
    """Return the mode of a new directory for a file with this mode: users who can read the file can enter it."""
    return mode | (mode & 0o444) >> 2


def make_parents(path: str, owner: Ownership, mode: int | None = None) -> None:
    """Create the missing parents of a path, with a mode as for `Place.mkdir`. Raises `Permanent` or `Temporary`."""
    try:
        paths.make_parents(path, max(owner.uid, UNDECLARED), max(owner.gid, UNDECLARED), mode)
    except OSError as error:
        raise failure("make directory", str(error.filename or path), error) from None


def demand_parent(path: str, *, makedirs: bool, apply: bool) -> None:
    """Raise `Permanent` if the parent directory is missing and this state does not create it.

    Without `apply`, raise nothing, because an earlier state may create the directory.
    """
    parent = os.path.dirname(path)  # noqa: PTH120 - Path objects are slow
    if apply and not makedirs and status(parent) is None:
        raise Permanent(f"cannot make {path}: directory {parent} does not exist; declare it, or set makedirs: true")


def follower_of(place: Place | None) -> int | None:
    """Return the user whose link leads to the place of a new file; None if no link of a user does."""
    return None if place is None else place.directory.follower


def demand_reached(path: str, place: Place | None, owner: Ownership | None) -> None:
    """Raise `Permanent` for a dangling link at the path of a new file if the file would not be reachable through it.

    `place` is that of the file, links followed. A user's link must lead to a file of that user: `owner` is the owner of
    the new file, or None if `follower_of` returns None.
    """
    follower = follower_of(place)
    if follower is not None and (owner is None or owner.uid != follower):
        raise Permanent(
            f"cannot make {path}: it is a dangling link, which {called(follower)} could replace; create its target as "
            "this user, or remove the link"
        )
    link = found(path)[0] if place is None else None
    if link is not None and link.look() is not None:
        with os_errors("read link", path):  # the link may have been replaced meanwhile
            target = link.readlink()
        raise Permanent(
            f"cannot make {path}: it is a dangling link to {target}, whose directory does not exist; create "
            "this directory, or remove the link"
        )


@accepts(str, numbers=True, pattern=r"keep|(0o)?[0-7]{1,5}|[ugoa].*")
def parse_mode_or_keep(value: object) -> object:
    """Return a mode, or `keep` for the mode of the source."""
    return value if value == "keep" else parse_mode(value)


ModeOrKeep = Annotated[str, BeforeValidator(parse_mode_or_keep)]


class PathResource(Recvable, Resource):
    """Base of the resources that manage one path."""

    concerns: ClassVar[Mapping[str, Concern]] = {
        "mode": "security",
        "user": "security",
        "group": "security",
        "": "content",
    }
    removes: ClassVar[bool] = False
    """Whether the kind removes the file or directory at the path."""

    name: AbsPath
    """The absolute path. Default: the ID of the state."""

    def uids(self) -> tuple[Uid, ...]:
        """Return the uid of the path."""
        return (("path", self.name),)

    def touches(self) -> tuple[Uid, ...]:
        """Return the unit that the file defines, masks, extends or enables."""
        return unit_behind(self.name)

    def contradicts(self, other: Resource) -> str | None:
        """Return the contradiction as for other kinds, with two exceptions.

        Kinds that remove the path agree with each other. A state of a part of the file agrees with a state of the whole
        file unless `refuses` of the latter returns a reason.
        """
        if isinstance(other, PathResource) and self.removes and other.removes and type(self) is not type(other):
            return None
        if isinstance(other, PathResource) and (self.partial or other.partial):
            return (
                None if self.partial and other.partial else other.refuses(self) if self.partial else self.refuses(other)
            )
        return super().contradicts(other)

    def concern(self, changes: Mapping[str, Any]) -> Concern:
        """Return the concern of the changes; changes of files that grant access always concern security."""
        return "security" if re.fullmatch(DECIDES, self.name) else super().concern(changes)

    def refuses(self, part: PathResource) -> str | None:
        """Return why the file of this state can never have the part that another state declares.

        None if it can have the part, or if this is not known yet.
        """
        return None

    def changes_text(self, text: str) -> bool:
        """Return whether this state, which manages a part of the file, would certainly change or refuse this content.

        Only quick checks are made.
        """
        return False

    def watch(self, ctx: Context) -> Watch:
        """Watch the path and its parents."""
        return ctx.watch_path(self.name)


class Placed(Edgeable, PathResource):
    """Base of the kinds that put something at a path, in a directory that must exist."""

    def offers(self) -> tuple[Uid, ...]:
        """Return the path, and the unit if the file belongs to one."""
        return (("path", self.name), *unit_parts(self.name))

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the directory of the path."""
        return (lies_in(self.name, vital=not getattr(self, "makedirs", False)),)


class OwnedResource(Placed):
    """Base of the kinds of paths that have an owner and whose parents may be created."""

    user: Owner | None = None
    """Owner, by name or number. Default: unchanged."""
    group: Owner | None = None
    """Group, by name or number. Default: unchanged."""
    makedirs: bool = False
    """Create missing parent directories, too."""
    dir_mode: Mode | None = field(None)
    """Mode of directories that `makedirs` creates. Default: 0755."""

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the directory of the path and the owner."""
        return (lies_in(self.name, vital=not self.makedirs), *owned_by(self.user, self.group))


def is_public(place: Place | None, *modes: int | None) -> bool:
    """Return whether all users may read the file at a place, with both its present and its declared mode.

    False if this is unknown, for example for a file in a directory that does not exist yet.
    """
    try:
        return place is not None and paths.everyone_reads(place, *modes)
    except OSError:
        return False


def note(ctx: Context, changes: dict[str, Any], effect: Effect, *, applied: bool) -> None:
    """Report changes and effect: with `applied` as done, otherwise as what a run would do."""
    ctx.report.changes = changes
    ctx.report.did(effect, applied=applied)
