"""Access control lists of files: permissions of single users and groups beyond owner, group and others."""

from __future__ import annotations

import os
import stat
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import field_validator, model_validator

from holdfast.resources import accounts
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.delta import Delta, State
from holdfast.resources.dependencies import Dependency, lies_in, owned_by
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import AbsPath, Owner, Owners, Text, field, shaped
from holdfast.resources.kinds import _posix_acl
from holdfast.resources.kinds._posix_acl import GROUP, GROUP_OBJ, MASK, OTHER, USER, USER_OBJ, Acl, AclType, Key, base
from holdfast.resources.kinds.file import trees
from holdfast.resources.kinds.file.base import found, os_errors
from holdfast.resources.paths import Place
from holdfast.resources.paths.attributes import put_acl, read_acl
from holdfast.resources.paths.trust import ACL, DEFAULT_ACL
from holdfast.resources.temporaries import is_temporary
from holdfast.resources.traits import Declaration, Edgeable, Reversible

NAMED, UNNAMED = {"user": USER, "group": GROUP}, {"user": USER_OBJ, "group": GROUP_OBJ, "mask": MASK, "other": OTHER}
ACCOUNTS = {"user": (accounts.local_uid, accounts.service_uid), "group": (accounts.local_gid, accounts.service_gid)}
SHOWN = 20
"""Maximum number of paths below a directory that a difference names."""


class WantedEntries(NamedTuple):
    """Entries by key, each with its declared name."""

    names: Mapping[Key, str]
    attribute: str
    """The extended attribute that stores these entries."""


class InAcl(Edgeable, Reversible, Resource):
    """Base of the kinds of this family."""

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("add", "change", "remove")
    concerns: ClassVar[Mapping[str, Concern]] = {"": "security"}

    name: AbsPath
    """The path of a file or directory, which must exist."""
    acl_type: AclType
    """Type of the entry: `user`, `group`, `mask` or `other`; for new files in a directory, `default:user` and so on."""
    recurse: bool = False
    """Include everything below a directory, but follow no links; only directories get default entries."""

    @property
    def default(self) -> bool:
        """Whether the entries are for new files."""
        return self.acl_type.startswith("default:")

    @property
    def word(self) -> str:
        """The type without `default:`."""
        return self.acl_type.removeprefix("default:")

    @abstractmethod
    def entries(self) -> tuple[str, ...]:
        """Return the names of users or groups; an empty name means the owner."""

    async def wanted(self, ctx: Context) -> WantedEntries:
        """Look up the users or groups. Raises `Permanent` for a missing one, unless its entry is being removed."""
        keys = {name: await self._key(ctx, name) for name in self.entries()}
        missing = next((name for name, key in keys.items() if key is None), None)
        if missing is not None and not self.removes():
            raise Permanent(
                f"cannot find {self.word} {missing}: the {self.word} does not exist; declare it, or correct the name"
            )
        names = {key: name for name, key in keys.items() if key is not None}
        return WantedEntries(names, DEFAULT_ACL if self.default else ACL)

    async def _key(self, ctx: Context, name: str) -> Key | None:
        if not name:
            return base(UNNAMED[self.word])
        local, service = ACCOUNTS[self.word]
        number = local(name)
        number = await ctx.blocking(service, name) if number is None else number
        return None if number is None else (NAMED[self.word], number)

    # -- what is there ------------------------------------------------------------------------------------------

    @abstractmethod
    def right(self, acl: Acl, wanted: WantedEntries, seen: os.stat_result) -> bool:
        """Return whether an ACL has the entries as declared."""

    @abstractmethod
    def changed(self, acl: Acl, wanted: WantedEntries, seen: os.stat_result) -> Acl:
        """Return the ACL with the entries as declared."""

    def top(self) -> tuple[Place, os.stat_result]:
        """Return the place of the path. Raises `Permanent` if it does not exist, or cannot have default entries."""
        place, seen = found(self.name, follow=True)
        if place is None or seen is None:
            raise Permanent(f"cannot read the ACL of {self.name}: it does not exist; declare it first")
        if self.default and not stat.S_ISDIR(seen.st_mode):
            raise Permanent(f"cannot set default entries for {self.name}: only directories have them")
        return place, seen

    def _places(self) -> Iterator[tuple[Place, os.stat_result]]:
        """Yield the path and, with `recurse`, all paths below it. Blocks.

        The content of a directory comes before the directory: its new ACL may let a user write it, and the agent
        changes nothing in directories that users can write.
        """
        place, seen = self.top()
        if self.recurse and stat.S_ISDIR(seen.st_mode):
            for each, status in trees.below(trees.enter(place, seen) or place.enter()):
                kinds = (stat.S_ISDIR,) if self.default else (stat.S_ISDIR, stat.S_ISREG, stat.S_ISFIFO, stat.S_ISSOCK)
                if any(is_kind(status.st_mode) for is_kind in kinds) and not is_temporary(each.name):
                    yield each, status
        yield place, seen

    def _read(self, place: Place, seen: os.stat_result, attribute: str) -> Acl:
        data = read_acl(place, attribute)
        return _posix_acl.decoded(data) if data or attribute == DEFAULT_ACL else _posix_acl.of_mode(seen.st_mode)

    def _wrong(self, wanted: WantedEntries) -> Iterator[tuple[Place, os.stat_result, Acl]]:
        """Yield each place whose entries differ, with its ACL. Blocks. Raises `OSError` and `Unsafe`."""
        for place, seen in self._places():
            try:
                acl = self._read(place, seen, wanted.attribute)
            except FileNotFoundError:  # removed after it was listed
                continue
            if not self.right(acl, wanted, seen):
                yield place, seen, acl

    def differing(self, wanted: WantedEntries) -> list[str]:
        """Return the paths whose entries differ. Blocks. Raises `Permanent` or `Temporary`."""
        with os_errors("read the ACL of", self.name):
            return [place.path for place, _, _ in self._wrong(wanted)]

    def present(self, wanted: WantedEntries) -> Mapping[str, str]:
        """Return the permissions of the entries of the path itself: name -> `r-x`. Blocks."""
        place, seen = self.top()
        with os_errors("read the ACL of", self.name):
            acl = self._read(place, seen, wanted.attribute)
        return {name: _posix_acl.written(acl[key]) for key, name in wanted.names.items() if key in acl}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Repair the entries of all paths that differ."""
        wanted = await self.wanted(ctx)
        await (ctx.long_blocking if self.recurse else ctx.blocking)(self._repair, wanted)

    def _repair(self, wanted: WantedEntries) -> None:
        with os_errors("read the ACL of", self.name):
            for place, seen, acl in self._wrong(wanted):
                present = _posix_acl.of_mode(seen.st_mode) if self.default and not acl else acl
                new = self.changed(present, wanted, seen)
                with os_errors("change the ACL of", place.path), suppress(FileNotFoundError):
                    put_acl(place, seen, wanted.attribute, _posix_acl.encoded(new) if new else b"")

    # -- what else the engine asks --------------------------------------------------------------------------------

    def watch(self, ctx: Context) -> Watch:
        """Watch the path and, with `recurse`, everything below it."""
        return ctx.watch_path(self.name, recursive=self.recurse)

    def uids(self) -> tuple[Uid, ...]:
        """Return the uids of the entries."""
        return tuple([("acl", f"{self.name} {self.acl_type} {name}") for name in self.entries()])

    def touches(self) -> tuple[Uid, ...]:
        """Return the path, because the mask of an ACL is part of the mode."""
        return (("path", self.name),)

    def offers(self) -> tuple[Uid, ...]:
        """Return nothing: no resource depends on an entry."""
        return ()

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the path and the users or groups."""
        owners = (
            each
            for name in self.entries()
            for each in owned_by(*((name, None) if self.word == "user" else (None, name)))
        )
        return (Dependency("path", self.name), lies_in(self.name, vital=False), *owners)

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"the ACL of {self.name} is as declared"

    def effect(self, delta: Delta) -> Effect:
        """Return what a repair does to the entries."""
        names = ", ".join(filter(None, self.entries())) or "the owner"
        called = f"{self.acl_type} {names}" if self.word in NAMED else self.acl_type
        below = [path for path in (delta.before or {}).get("differing", ()) if path != self.name]
        many = f" and {len(below)} paths below it" if below else ""
        verb: EffectVerb = (
            "remove" if self.removes() else "add" if not (delta.before or {}).get("entries") else "change"
        )
        return Effect(
            (verb,), f"{called}", detail=f" {'from' if verb == 'remove' else 'in'} the ACL of {self.name}{many}"
        )

    def removes(self) -> bool:
        """Return whether the entries are removed."""
        return False

    def known(self) -> dict[str, Any]:
        """Return the arguments that another state of the same entries also has."""
        return {"name": self.name, "acl_type": self.acl_type}

    @abstractmethod
    def declared(self, function: str, names: Sequence[str], **more: str) -> Declaration:
        """Return a state of this family for the entries of these users or groups."""

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return a declaration of the present entries or their absence; None for several paths or if entries differ."""
        wanted = await self.wanted(ctx)
        names = [*wanted.names.values()]
        present = {} if self.recurse else await ctx.blocking(self.present, wanted)
        granted = {present.get(name) for name in names}
        if self.recurse or len(granted) != 1:
            return None
        (perms,) = granted
        if perms is not None:
            return self.declared("present", names, perms=perms)
        return None if self.removes() or "" in names else self.declared("absent", names)


class DeclaredPermissions(InAcl):
    """Base of the kinds that declare permissions."""

    perms: Annotated[
        Text, shaped(r"[rwxX-]*|[0-7]", "permissions: letters of rwx, or X for directories and programs")
    ] = ""
    """Permissions: letters of `rwx`, or one octal digit. `X`: execute permission only for directories and programs."""
    force: bool = False
    """If the entry must be changed, remove all other entries of users and groups first."""

    def granted(self, acl: Acl, seen: os.stat_result) -> int:
        """Return the declared permissions for one file."""
        executable = stat.S_ISDIR(seen.st_mode) or any(granted & 1 for (tag, _), granted in acl.items() if tag != MASK)
        return _posix_acl.granted(self.perms, executable=executable)

    def right(self, acl: Acl, wanted: WantedEntries, seen: os.stat_result) -> bool:
        """Return whether each entry has the permissions."""
        granted = self.granted(acl, seen)
        return all(acl.get(key) == granted for key in wanted.names)

    def changed(self, acl: Acl, wanted: WantedEntries, seen: os.stat_result) -> Acl:
        """Return the ACL with the entries."""
        granted = self.granted(acl, seen)
        if self.force:
            acl = _posix_acl.without(acl, [key for key in acl if key[0] in {USER, GROUP}])
        return _posix_acl.put(acl, dict.fromkeys(wanted.names, granted))

    def desired(self) -> State:
        """Return that no path differs."""
        return {"differing": []}

    async def probe(self, ctx: Context) -> State:
        """Return the present permissions and the paths that differ."""
        wanted = await self.wanted(ctx)
        differing = await (ctx.long_blocking if self.recurse else ctx.blocking)(self.differing, wanted)
        return {"entries": self.present(wanted), "differing": differing[:SHOWN]}

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the new and the old entry, as Salt does."""
        names = ", ".join(self.entries())
        known = {"acl_name": names, "acl_type": self.acl_type}
        old = (delta.before or {}).get("entries", {})
        before = {"old": {**known, "perms": ", ".join(dict.fromkeys(old.values()))}} if old else {}
        return {"new": {**known, "perms": self.perms}, **before}


class Removes(InAcl):
    """Base of the kinds that declare absence."""

    def removes(self) -> bool:
        """Return True."""
        return True

    @model_validator(mode="after")
    def _named(self) -> Self:
        if self.word not in NAMED or not all(self.entries()):
            raise ValueError(
                "only entries of named users and groups can be removed: owner, group and others are part of the mode"
            )
        return self

    def right(self, acl: Acl, wanted: WantedEntries, seen: os.stat_result) -> bool:
        """Return whether there is no such entry."""
        return not wanted.names.keys() & acl.keys()

    def changed(self, acl: Acl, wanted: WantedEntries, seen: os.stat_result) -> Acl:
        """Return the ACL without the entries."""
        return _posix_acl.without(acl, wanted.names)

    def desired(self) -> State:
        """Return None: absent."""
        return None

    async def probe(self, ctx: Context) -> State:
        """Return the present permissions and the paths that have such entries; None if there are none."""
        wanted = await self.wanted(ctx)
        differing = await (ctx.long_blocking if self.recurse else ctx.blocking)(self.differing, wanted)
        return {"entries": self.present(wanted), "differing": differing[:SHOWN]} if differing else None

    def changes(self, delta: Delta) -> dict[str, Any]:
        """Return the removed entries."""
        known = {"acl_name": ", ".join(self.entries()), "acl_type": self.acl_type}
        old = (delta.before or {}).get("entries", {})
        return {"old": {**known, "perms": ", ".join(dict.fromkeys(old.values()))}, "new": None}


class OneName(InAcl):
    """Base of the kinds of one entry."""

    acl_name: Owner | None = None
    """The user or group, by name or number. Default: the owner or the group of the file."""

    @field_validator("acl_name", mode="before")
    @classmethod
    def _empty(cls, value: object) -> object:
        return None if value == "" else value

    def entries(self) -> tuple[str, ...]:
        """Return the name."""
        return (self.acl_name or "",)

    def declared(self, function: str, names: Sequence[str], **more: str) -> Declaration:
        """Return a state of one entry."""
        return Declaration(f"acl.{function}", {**self.known(), "acl_name": names[0], **more})


class SeveralNames(InAcl):
    """Base of the kinds of several entries."""

    acl_names: Owners = field(())
    """The users or groups, by name or number."""

    def entries(self) -> tuple[str, ...]:
        """Return the names."""
        return tuple(dict.fromkeys(self.acl_names))

    def declared(self, function: str, names: Sequence[str], **more: str) -> Declaration:
        """Return a state of several entries."""
        return Declaration(f"acl.list_{function}", {**self.known(), "acl_names": [*names], **more})


class Present(OneName, DeclaredPermissions, kind="acl.present"):
    """A user or group has these permissions in the ACL of a file or directory; other entries stay as they are.

    When the state changes an entry, it sets the mask to permit what all entries grant; the mode of the file shows the
    mask as the permissions of the group. The state compares only the entry itself. inotify reports changes.

    /srv/app/log:
      acl.present:
        - acl_type: user
        - acl_name: alice
        - perms: rX
        - recurse: true
    """


class Absent(OneName, Removes, kind="acl.absent"):
    """A user or group has no entry of its own in the ACL of a file or directory.

    /srv/app/log:
      acl.absent:
        - acl_type: user
        - acl_name: alice
    """

    ignored: ClassVar[Mapping[str, str]] = {"perms": "the entry is removed, whatever it grants"}


class ListPresent(SeveralNames, DeclaredPermissions, kind="acl.list_present"):
    """Several users or groups have these permissions in the ACL of a file or directory.

    /srv/app/log:
      acl.list_present:
        - acl_type: group
        - acl_names: [adm, staff]
        - perms: rx
    """


class ListAbsent(SeveralNames, Removes, kind="acl.list_absent"):
    """Several users or groups have no entry of their own in the ACL of a file or directory.

    /srv/app/log:
      acl.list_absent:
        - acl_type: group
        - acl_names: [adm, staff]
    """
