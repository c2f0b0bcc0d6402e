"""Base classes of the providers of `user` and `group`: they derive all functions from a few methods for the tool.

Queries read the account files of the host. A call that changes something waits until no other program is changing them,
and compares the wanted values with them first. If nothing differs, no tool runs. A change that is impossible is
refused, also with `test`.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from holdfast.resources.accounts import service_group
from holdfast.resources.context import Watch
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.interfaces.base import Options
from holdfast.resources.interfaces.group import GroupInterface
from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.interfaces.provider import Provider
from holdfast.resources.interfaces.results import ChangeSet, Group, User
from holdfast.resources.interfaces.user import UserInterface
from holdfast.resources.providers import _homes
from holdfast.resources.providers._account_fields import FIELDS, demand_fields, demand_name, known, plain
from holdfast.resources.providers._account_locks import released
from holdfast.resources.providers._etc import ETC, FILES, Accounts, read
from holdfast.resources.providers._processes import process_of
from holdfast.resources.secrets import MASK


@dataclass(frozen=True, slots=True)
class NewUser:
    """An account to be added; the fields are those of `UserInterface.add`."""

    name: str
    fields: Mapping[str, Any]
    system: bool
    createhome: bool
    usergroup: bool | None
    unique: bool


class UserProvider(Provider, abstract=True):
    """Derives `user`, except `set_expiry`, from four methods: `_add`, `_delete`, `_change` and `_set_hash`."""

    implements = UserInterface
    changeable: ClassVar[frozenset[str]] = FIELDS | {"name"}
    """Fields that `_change` can change; `name` is for `rename`. Changes of other fields are refused."""
    shares_numbers: ClassVar[bool] = True
    """Whether the tool can give one number to several accounts."""

    # -- what a tool has to do ---------------------------------------------------------------------------------------

    @abstractmethod
    async def _add(self, new: NewUser) -> None:
        """Add an account that does not exist. If a home is to be made, its place is safe."""

    @abstractmethod
    async def _delete(self, user: User, *, remove_home: bool, force: bool) -> None:
        """Remove an account, also from its groups. Raises `Temporary` while it is used, unless `force`."""

    @abstractmethod
    async def _change(self, user: User, changed: Mapping[str, Any], *, unique: bool) -> None:
        """Set fields, which are `changeable` and differ from the present ones; `groups` are all supplementary ones."""

    @abstractmethod
    async def _set_hash(self, name: str, value: str) -> None:
        """Set the hash of a password, which must not be in an argument list; an empty one removes the password."""

    # -- what a tool may do otherwise --------------------------------------------------------------------------------

    def _demand_possible(self, what: str, fields: Mapping[str, Any], new: NewUser | None = None) -> None:
        """Raise `Permanent` for values of fields that the tool cannot set; `new` is an account that is to be added."""

    async def _lock(self, user: User, locked: bool) -> None:
        """Lock or unlock a password that is not empty without its lock. Default: by an exclamation mark in the hash."""
        value = (user.password or "").lstrip("!")
        await self._set_hash(user.name, f"!{value}" if locked else value)

    def _new_home(self, name: str, home: str | None) -> tuple[str, str]:
        """Return where the tool creates a home, and the directory that it copies. Default: in /home, of /etc/skel."""
        return home or f"{_homes.HOME}/{name}", _homes.SKELETON

    # -- what follows ------------------------------------------------------------------------------------------------

    async def list(self) -> tuple[str, ...]:
        """Return all names, sorted."""
        return tuple(sorted(accounts(self.host).users))

    async def info(self, names: Sequence[str]) -> dict[str, User | None]:
        """Return the accounts; `extra` has the rest of the comment field and the ageing, in days."""
        users = accounts(self.host).users
        return {name: await self._named(user) if (user := users.get(name)) else None for name in names}

    async def add(
        self,
        name: str,
        *,
        system: bool = False,
        createhome: bool = True,
        usergroup: bool | None = None,
        unique: bool = True,
        test: bool = False,
        options: Options = None,
        **fields: Any,
    ) -> ChangeSet:
        """Add an account. Without `gid`, an existing group with the account's name becomes its primary group."""
        what = f"add user {name}"
        demand_name(what, "user", name)
        demand_fields(what, fields)
        known = await settled(self.host, what, test=test)
        if name in known.users:
            raise Permanent(f"cannot {what}: there is such a user already")
        self._demand_unique(what, unique)
        if "gid" not in fields and usergroup is None and name in known.groups:
            fields["gid"] = name
        new = NewUser(name, fields, system, createhome, usergroup, unique)
        self._demand_possible(what, fields, new)
        if createhome:
            await self.host.blocking(self._demand_new_home, what, name, fields.get("home"))
        if not test:
            await self._add(new)
        return ChangeSet(
            changes={field: {"old": None, "new": value} for field, value in {"name": name, **fields}.items()}
        )

    async def remove(
        self, name: str, remove_home: bool = False, force: bool = False, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Remove an account."""
        what = f"remove user {name}"
        user = (await settled(self.host, what, test=test)).users.get(name)
        if user is None:
            return ChangeSet()
        if remove_home:
            await self.host.blocking(_homes.demand_home, self.host.system_path, what, user.home)
        if not test:
            await self._delete(user, remove_home=remove_home, force=force)
        return ChangeSet(changes={name: {"old": "present", "new": None}})

    async def modify(
        self, name: str, *, unique: bool = True, test: bool = False, options: Options = None, **changed: Any
    ) -> ChangeSet:
        """Change the fields that differ; the content of the home directory stays where it is."""
        what = f"change user {name}"
        user = await self._user(what, name, test=test)
        demand_fields(what, changed)
        wrong = {field: value for field, value in changed.items() if known(user, field, value) != plain(value)}
        if lacking := sorted(wrong.keys() - self.changeable):
            raise Permanent(f"cannot change the {', '.join(lacking)} of user {name}: {self.tool} has no tool for it")
        self._demand_possible(what, wrong)
        if "uid" in wrong:  # the tool changes the owner of the home's content
            self._demand_unique(what, unique)
            home = wrong.get("home", user.home)
            await self.host.blocking(_homes.demand_home, self.host.system_path, what, home)
        if wrong and not test:
            await self._change(user, wrong, unique=unique)
        return ChangeSet(
            changes={field: {"old": known(user, field, value), "new": value} for field, value in wrong.items()}
        )

    async def rename(self, name: str, new_name: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Change the login name."""
        what = f"rename user {name}"
        user = await self._user(what, name, test=test)
        demand_name(what, "user", new_name)
        if "name" not in self.changeable:
            raise Permanent(f"cannot {what}: {self.tool} has no tool for it")
        if name == new_name:
            return ChangeSet()
        if new_name in accounts(self.host).users:
            raise Permanent(f"cannot {what} to {new_name}: there is such a user already")
        if not test:
            await self._change(user, {"name": new_name}, unique=True)
        return ChangeSet(changes={"name": {"old": name, "new": new_name}})

    async def set_password(self, name: str, value: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Set the hash as given."""
        what = f"set the password of {name}"
        user = await self._user(what, name, test=test)
        if re.search("[:\n]", value):
            raise Permanent(f"cannot {what}: a hash has neither a colon nor a line break")
        if user.password == value:
            return ChangeSet()
        if not test:
            await self._set_hash(name, value)
        return ChangeSet(changes={"password": {"old": MASK, "new": MASK}})

    async def set_lock(self, name: str, value: bool, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Lock or unlock the password."""
        what = f"{'lock' if value else 'unlock'} the password of {name}"
        user = await self._user(what, name, test=test)
        if user.locked is value:
            return ChangeSet()
        if user.password is None:
            raise Permanent(f"cannot {what}: /etc/shadow has no record of the user, or cannot be read")
        if not value and not user.password.lstrip("!"):
            raise Permanent(f"cannot {what}: it would be empty, which allows login without a password")
        if not test:
            await self._lock(user, value)
        return ChangeSet(changes={"locked": {"old": user.locked, "new": value}})

    def watch(self) -> Watch:
        """Watch passwd, shadow, group and gshadow in /etc by inotify."""
        return self.host.watch_path(*(str(ETC / file) for file in FILES))

    async def _named(self, user: User) -> User:
        """Return an account with the name of its primary group, which a name service may know."""
        if user.primary_group is not None or user.gid is None:
            return user
        return user.model_copy(update={"primary_group": await self.host.blocking(service_group, user.gid)})

    async def _user(self, what: str, name: str, *, test: bool) -> User:
        """Return an account that is to be changed. Raises `Permanent` if there is none."""
        user = (await settled(self.host, what, test=test)).users.get(name)
        if user is None:
            raise Permanent(f"cannot {what}: there is no such user")
        return user

    def _demand_new_home(self, what: str, name: str, home: str | None) -> None:
        _homes.demand_new(self.host.system_path, what, *self._new_home(name, home))

    def _demand_unique(self, what: str, unique: bool) -> None:
        if not unique and not self.shares_numbers:
            raise Permanent(f"cannot {what}: {self.tool} gives no number to several users")

    async def _demand_unused(self, user: User) -> None:
        """Raise `Temporary` if a process of the user runs, for tools that do not look for processes."""
        process = await self.host.blocking(process_of, self.host.system_path(Path("/proc")), user.uid)
        if process is not None:
            raise Temporary(
                f"cannot remove user {user.name}: user {user.name} is currently used by process {process}", delay=1.0
            )


class GroupProvider(Provider, abstract=True):
    """Derives `group` from five methods: `_add`, `_delete`, `_renumber`, `_join` and `_leave`."""

    implements = GroupInterface
    renumbers: ClassVar[bool] = True
    """Whether the tool can change the number of a group."""
    shares_numbers: ClassVar[bool] = True
    """Whether the tool can give one number to several groups."""

    # -- what a tool has to do ---------------------------------------------------------------------------------------

    @abstractmethod
    async def _add(self, name: str, gid: int | None, *, system: bool, unique: bool) -> None:
        """Add a group that does not exist."""

    @abstractmethod
    async def _delete(self, name: str) -> None:
        """Remove a group that is no user's primary group."""

    async def _renumber(self, name: str, gid: int, *, unique: bool) -> None:
        """Change the number of a group; MUST be overridden by a tool that `renumbers`."""
        raise NotImplementedError

    async def _join(self, name: str, user: str) -> None:
        """Make an existing user a member; MUST be overridden unless `_set_members` is."""
        raise NotImplementedError

    async def _leave(self, name: str, user: str) -> None:
        """Remove a member, who may not exist any more; MUST be overridden unless `_set_members` is."""
        raise NotImplementedError

    # -- what a tool may do otherwise --------------------------------------------------------------------------------

    async def _set_members(self, group: Group, users: set[str]) -> None:
        """Set the members. Default: one after the other."""
        for user in sorted(users.difference(group.members)):
            await self._join(group.name, user)
        for user in sorted(set(group.members) - users):
            await self._leave(group.name, user)

    # -- what follows ------------------------------------------------------------------------------------------------

    async def list(self) -> tuple[str, ...]:
        """Return all names, sorted."""
        return tuple(sorted(accounts(self.host).groups))

    async def info(self, names: Sequence[str]) -> dict[str, Group | None]:
        """Return the groups."""
        groups = accounts(self.host).groups
        return {name: groups.get(name) for name in names}

    async def add(
        self,
        name: str,
        gid: int | None = None,
        system: bool = False,
        *,
        unique: bool = True,
        test: bool = False,
        options: Options = None,
    ) -> ChangeSet:
        """Add a group."""
        what = f"add group {name}"
        demand_name(what, "group", name)
        if name in (await settled(self.host, what, test=test)).groups:
            raise Permanent(f"cannot {what}: there is such a group already")
        self._demand_unique(what, unique)
        if not test:
            await self._add(name, gid, system=system, unique=unique)
        return ChangeSet(
            changes={"name": {"old": None, "new": name}, **({} if gid is None else {"gid": {"old": None, "new": gid}})}
        )

    async def remove(self, name: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Remove a group."""
        known = await settled(self.host, f"remove group {name}", test=test)
        group = known.groups.get(name)
        if group is None:
            return ChangeSet()
        if user := next((user.name for user in known.users.values() if user.gid == group.gid), None):
            raise Permanent(f"cannot remove group {name}: cannot remove the primary group of user '{user}'")
        if not test:
            await self._delete(name)
        return ChangeSet(changes={name: {"old": "present", "new": None}})

    async def modify(
        self, name: str, gid: int, *, unique: bool = True, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Change the number; files of the group keep the old one."""
        what = f"change group {name}"
        old = (await self._group(name, test=test)).gid
        if old == gid:
            return ChangeSet()
        if not self.renumbers:
            raise Permanent(f"cannot change the gid of group {name}: {self.tool} has no tool for it")
        self._demand_unique(what, unique)
        if not test:
            await self._renumber(name, gid, unique=unique)
        return ChangeSet(changes={"gid": {"old": old, "new": gid}})

    async def members_set(
        self, name: str, users: Sequence[str], *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Set the list of members."""
        return await self._members(await self._group(name, test=test), set(users), test=test)

    async def members_add(
        self, name: str, users: Sequence[str], *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Add to the list of members."""
        group = await self._group(name, test=test)
        return await self._members(group, {*group.members, *users}, test=test)

    async def members_remove(
        self, name: str, users: Sequence[str], *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Remove from the list of members."""
        group = await self._group(name, test=test)
        return await self._members(group, set(group.members) - set(users), test=test)

    async def _members(self, group: Group, users: set[str], *, test: bool) -> ChangeSet:
        if users == set(group.members):
            return ChangeSet()
        if unknown := sorted(users - {*group.members} - accounts(self.host).users.keys()):
            raise Permanent(f"cannot make {', '.join(unknown)} a member of group {group.name}: there is no such user")
        if not test:
            await self._set_members(group, users)
        return ChangeSet(changes={"members": {"old": sorted(group.members), "new": sorted(users)}})

    def watch(self) -> Watch:
        """Watch passwd, shadow, group and gshadow in /etc by inotify."""
        return self.host.watch_path(*(str(ETC / file) for file in FILES))

    async def _group(self, name: str, *, test: bool) -> Group:
        """Return a group that is to be changed. Raises `Permanent` if there is none."""
        what = f"change group {name}"
        group = (await settled(self.host, what, test=test)).groups.get(name)
        if group is None:
            raise Permanent(f"cannot {what}: there is no such group")
        return group

    def _demand_unique(self, what: str, unique: bool) -> None:
        if not unique and not self.shares_numbers:
            raise Permanent(f"cannot {what}: {self.tool} gives no number to several groups")


def accounts(host: ProviderHost) -> Accounts:
    """Return all users and groups of a host."""
    return read(host.system_path(ETC))


async def settled(host: ProviderHost, what: str, *, test: bool) -> Accounts:
    """Return all users and groups, when no other program changes them any more; with `test`, as they are now."""
    if not test:
        await released(host, what)
    return accounts(host)
