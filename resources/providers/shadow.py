"""Users and groups by the shadow tools (useradd and its family).

Queries read the host's own files. Passwords go to the tools through standard input, never through an argument list.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.resources.context import Completed, Watch
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.interfaces.base import Options
from holdfast.resources.interfaces.group import GroupInterface
from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.interfaces.provider import Confine, Provider
from holdfast.resources.interfaces.results import ChangeSet, Group, User
from holdfast.resources.interfaces.user import UserInterface
from holdfast.resources.providers._etc import AGEING, ETC, FILES, GECOS, Accounts, read
from holdfast.resources.providers._homes import demand_home, demand_new
from holdfast.resources.secrets import MASK

SWITCHES = {"uid": "-u", "gid": "-g", "home": "-d", "shell": "-s"}
"""Fields of a user -> switches of useradd and usermod, whose long switches differ."""
AGES = {"date": "-d", "mindays": "-m", "maxdays": "-M", "warndays": "-W", "inactdays": "-I", "expire": "-E"}
"""Fields of ageing -> switches of chage."""
IN_USE = 8
"""Exit status of userdel and usermod if the user has processes."""
UNCHECKED_ROOT = "/."
"""The root directory, written so that usermod does not check for processes of the user.

A new home matters only for the next login.
"""
REMOVAL_WAITS = (0.1, 0.3, 0.6)
"""Seconds between attempts to remove a user whose sessions were ended."""


class ShadowUsers(Provider):
    """The accounts of /etc/passwd."""

    implements = UserInterface
    confine = Confine(grains={"kernel": ("Linux",)}, commands=("useradd", "usermod", "userdel", "chage", "chpasswd"))

    async def list(self) -> tuple[str, ...]:
        """Return all names, sorted."""
        return tuple(sorted(accounts(self.host).users))

    async def info(self, names: Sequence[str]) -> dict[str, User | None]:
        """Return the accounts; `extra` has the rest of the comment field and the ageing, in days."""
        users = accounts(self.host).users
        return {name: users.get(name) for name in names}

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
        if not test:
            if createhome:
                await self.host.blocking(
                    demand_new, self.host.system_path, f"add user {name}", name, fields.get("home")
                )
            if "gid" not in fields and usergroup is None and name in accounts(self.host).groups:
                fields["gid"] = name
            switches = ["--create-home" if createhome else "--no-create-home"]
            switches += [*(["--system"] if system else []), *([] if unique else ["--non-unique"])]
            if usergroup is not None and "gid" not in fields:
                switches.append("--user-group" if usergroup else "--no-user-group")
            await tool(self.host, f"add user {name}", "useradd", *switches, *arguments(fields, None), name)
        return ChangeSet(
            changes={field: {"old": None, "new": value} for field, value in {"name": name, **fields}.items()}
        )

    async def remove(
        self, name: str, remove_home: bool = False, force: bool = False, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Remove an account. If its sessions prevent the removal, they are ended first."""
        user = accounts(self.host).users.get(name)
        if user is None:
            return ChangeSet()
        if not test:
            if remove_home:
                await self.host.blocking(demand_home, self.host.system_path, f"remove user {name}", user.home)
            switches = [*(["--remove"] if remove_home else []), *(["--force"] if force else [])]
            await self._delete(name, switches)
        return ChangeSet(changes={name: {"old": "present", "new": None}})

    async def _delete(self, name: str, switches: Sequence[str]) -> None:
        done = await self.host.run("userdel", *switches, name, check=False)
        if done.retcode == IN_USE:
            await self.host.run("loginctl", "terminate-user", name, check=False, timeout=10.0)
        for wait in REMOVAL_WAITS:
            if done.retcode != IN_USE:
                break
            await asyncio.sleep(wait)  # the kernel does not report the end of a user's last process
            done = await self.host.run("userdel", *switches, name, check=False)
        raise_on_failure(done, f"remove user {name}")

    async def modify(
        self, name: str, *, unique: bool = True, test: bool = False, options: Options = None, **changed: Any
    ) -> ChangeSet:
        """Change fields; the content of the home directory stays where it is."""
        user = accounts(self.host).users.get(name)
        if user is None:
            raise Permanent(f"cannot change user {name}: there is no such user")
        if not test and changed:
            if "uid" in changed:  # usermod changes the owner of the home's content
                await self.host.blocking(
                    demand_home, self.host.system_path, f"change user {name}", changed.get("home", user.home)
                )
            switches = ["--non-unique"] if not unique and "uid" in changed else []
            argv = (*switches, *arguments(changed, user), name)
            done = await self.host.run("usermod", *argv, check=False)
            if done.retcode == IN_USE and "uid" not in changed:
                done = await self.host.run("usermod", "--prefix", UNCHECKED_ROOT, *argv, check=False)
            raise_on_failure(done, f"change user {name}")
        return ChangeSet(changes={field: {"old": known(user, field), "new": value} for field, value in changed.items()})

    async def rename(self, name: str, new_name: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Change the login name."""
        if not test:
            await tool(self.host, f"rename user {name}", "usermod", "--login", new_name, name)
        return ChangeSet(changes={"name": {"old": name, "new": new_name}})

    async def set_password(self, name: str, value: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Set the hash as given."""
        if "\n" in value or ":" in value:
            raise Permanent(f"cannot set the password of {name}: a hash has neither a colon nor a line break")
        if not test and value:
            await tool(self.host, f"set the password of {name}", "chpasswd", "--encrypted", stdin=f"{name}:{value}\n")
        elif not test:
            await tool(self.host, f"empty the password of {name}", "passwd", "--quiet", "--delete", name)
        return ChangeSet(changes={"password": {"old": MASK, "new": MASK}})

    async def set_lock(self, name: str, value: bool, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Lock or unlock the password by passwd."""
        user = accounts(self.host).users.get(name)
        if user is not None and user.locked is value:
            return ChangeSet()
        if not test:
            verb = "lock" if value else "unlock"
            await tool(self.host, f"{verb} the password of {name}", "passwd", "--quiet", f"--{verb}", name)
        return ChangeSet(changes={"locked": {"old": user and user.locked, "new": value}})

    async def set_expiry(
        self, name: str, value: dict[str, int], *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Set ageing by chage."""
        user = accounts(self.host).users.get(name)
        if value and not test:
            switches = [part for field in AGEING if field in value for part in (AGES[field], str(value[field]))]
            await tool(self.host, f"set the ageing of {name}", "chage", *switches, name)
        return ChangeSet(
            changes={field: {"old": user and user.extra[field], "new": days} for field, days in value.items()}
        )

    def watch(self) -> Watch:
        """Watch the account files."""
        return self.host.watch_path(*(str(ETC / file) for file in FILES))


class ShadowGroups(Provider):
    """The groups of /etc/group."""

    implements = GroupInterface
    confine = Confine(grains={"kernel": ("Linux",)}, commands=("groupadd", "groupmod", "groupdel", "gpasswd"))

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
        if not test:
            switches = [] if gid is None else ["--gid", str(gid)]
            switches += [*(["--system"] if system else []), *([] if unique else ["--non-unique"])]
            await tool(self.host, f"add group {name}", "groupadd", *switches, name)
        return ChangeSet(
            changes={"name": {"old": None, "new": name}, **({} if gid is None else {"gid": {"old": None, "new": gid}})}
        )

    async def remove(self, name: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Remove a group."""
        if name not in accounts(self.host).groups:
            return ChangeSet()
        if not test:
            await tool(self.host, f"remove group {name}", "groupdel", name)
        return ChangeSet(changes={name: {"old": "present", "new": None}})

    async def modify(
        self, name: str, gid: int, *, unique: bool = True, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Change the number; files of the group keep the old one."""
        old = self._group(name).gid
        if old == gid:
            return ChangeSet()
        if not test:
            await tool(
                self.host,
                f"change group {name}",
                "groupmod",
                "--gid",
                str(gid),
                *([] if unique else ["--non-unique"]),
                name,
            )
        return ChangeSet(changes={"gid": {"old": old, "new": gid}})

    async def members_set(
        self, name: str, users: Sequence[str], *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Set the list of members."""
        return await self._members(name, set(users), test=test)

    async def members_add(
        self, name: str, users: Sequence[str], *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Add to the list of members."""
        return await self._members(name, {*self._group(name).members, *users}, test=test)

    async def members_remove(
        self, name: str, users: Sequence[str], *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Remove from the list of members."""
        return await self._members(name, set(self._group(name).members) - set(users), test=test)

    async def _members(self, name: str, users: set[str], *, test: bool) -> ChangeSet:
        before = set(self._group(name).members)
        if users == before:
            return ChangeSet()
        if unknown := sorted(users - before - accounts(self.host).users.keys()):
            raise Permanent(f"cannot make {', '.join(unknown)} a member of group {name}: there is no such user")
        if not test:
            await tool(
                self.host, f"set the members of group {name}", "gpasswd", "--members", ",".join(sorted(users)), name
            )
        return ChangeSet(changes={"members": {"old": sorted(before), "new": sorted(users)}})

    def _group(self, name: str) -> Group:
        group = accounts(self.host).groups.get(name)
        if group is None:
            raise Permanent(f"cannot change group {name}: there is no such group")
        return group

    def watch(self) -> Watch:
        """Watch the account files."""
        return self.host.watch_path(*(str(ETC / file) for file in FILES))


def accounts(host: ProviderHost) -> Accounts:
    """Return all users and groups of a host."""
    return read(host.system_path(ETC))


def known(user: User, field: str) -> Any:
    """Return the present value of a field."""
    return user.extra.get(field) if field in GECOS[1:] else getattr(user, field)


def arguments(fields: Mapping[str, Any], user: User | None) -> list[str]:
    """Return the switches of useradd or usermod for these fields.

    Parts of the comment field that are not given stay as they are.
    """
    switches = [part for field, switch in SWITCHES.items() if field in fields for part in (switch, str(fields[field]))]
    if "groups" in fields:
        switches += ["--groups", ",".join(fields["groups"])]
    if fields.keys() & set(GECOS):
        parts = [str(fields.get(part, known(user, part) if user else None) or "") for part in GECOS]
        switches += ["--comment", ",".join(parts).rstrip(",")]
    return switches


async def tool(host: ProviderHost, what: str, *argv: str, stdin: str | None = None) -> None:
    """Run one of the tools.

    Raises `Temporary` if another program has locked the files, else `Permanent` with the tool's reason.
    """
    raise_on_failure(await host.run(*argv, check=False, stdin=stdin), what)


def raise_on_failure(done: Completed, what: str) -> None:
    """Raise `Temporary` or `Permanent` if a tool failed, with the tool's reason; warnings are ignored."""
    if not done.retcode:
        return
    said = [
        line.removeprefix(f"{done.argv[0]}: ")
        for line in done.stderr.splitlines()
        if line.startswith(f"{done.argv[0]}: ")
    ]
    if os.geteuid() != 0 and any(sign in done.stderr for sign in ("Permission denied", "try again later")):
        raise Permanent(f"cannot {what}: only root may; run holdfast as root")
    why = said[-1] if said else f"{done.argv[0]} ended with status {done.retcode}"
    in_use = done.retcode == IN_USE and done.argv[0] in ("userdel", "usermod")
    if in_use or "try again later" in done.stderr:
        raise Temporary(f"cannot {what}: {why}", delay=1.0)
    raise Permanent(f"cannot {what}: {why}")
