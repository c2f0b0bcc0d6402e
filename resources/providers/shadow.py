"""Users and groups by the shadow tools (useradd and its family).

Passwords go to the tools through standard input, never through an argument list.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from holdfast.resources.context import Completed
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.interfaces.base import Options
from holdfast.resources.interfaces.errors import ArgumentError
from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.interfaces.provider import Confine
from holdfast.resources.interfaces.results import ChangeSet, Group, User
from holdfast.resources.providers import _homes
from holdfast.resources.providers._account_fields import comment
from holdfast.resources.providers._etc import AGEING, GECOS
from holdfast.resources.providers.account_base import GroupProvider, NewUser, UserProvider

SWITCHES = {"name": "--login", "uid": "-u", "gid": "-g", "home": "-d", "shell": "-s"}
"""Fields of a user -> switches of useradd and usermod, whose long switches differ."""
AGES = {"date": "-d", "mindays": "-m", "maxdays": "-M", "warndays": "-W", "inactdays": "-I", "expire": "-E"}
"""Fields of ageing -> switches of chage."""
IN_USE = 8
"""Exit status of userdel and usermod if the user has processes."""
UNCHECKED_ROOT = "/."
"""The root directory in a form for which usermod does not check for processes of the user.

A new home matters only for the next login.
"""
REMOVAL_WAITS = (0.1, 0.3, 0.6)
"""Seconds between attempts to remove a user whose sessions were ended."""


class ShadowUsers(UserProvider):
    """The accounts of /etc/passwd."""

    confine = Confine(grains={"kernel": ("Linux",)}, commands=("useradd", "usermod", "userdel", "chage", "chpasswd"))

    async def _add(self, new: NewUser) -> None:
        """Add by useradd."""
        switches = ["--create-home" if new.createhome else "--no-create-home"]
        switches += [*(["--system"] if new.system else []), *([] if new.unique else ["--non-unique"])]
        if new.usergroup is not None and "gid" not in new.fields:
            switches.append("--user-group" if new.usergroup else "--no-user-group")
        await tool(self.host, f"add user {new.name}", "useradd", *switches, *arguments(new.fields), new.name)

    async def _delete(self, user: User, *, remove_home: bool, force: bool) -> None:
        """Remove by userdel. If the user's sessions prevent the removal, they are ended first."""
        argv = ("userdel", *(["--remove"] if remove_home else []), *(["--force"] if force else []), user.name)
        done = await self.host.run(*argv, check=False)
        if done.retcode == IN_USE:
            await self.host.run("loginctl", "terminate-user", user.name, check=False, timeout=10.0)
        for wait in REMOVAL_WAITS:
            if done.retcode != IN_USE:
                break
            await asyncio.sleep(wait)  # the kernel does not report the end of a user's last process
            done = await self.host.run(*argv, check=False)
        raise_on_failure(done, f"remove user {user.name}")

    async def _change(self, user: User, changed: Mapping[str, Any], *, unique: bool) -> None:
        """Change by usermod, also while the user is logged in if neither name nor uid changes."""
        what = f"{'rename' if 'name' in changed else 'change'} user {user.name}"
        argv = (*([] if unique else ["--non-unique"]), *arguments(changed, user), user.name)
        done = await self.host.run("usermod", *argv, check=False)
        if done.retcode == IN_USE and not changed.keys() & {"name", "uid"}:
            done = await self.host.run("usermod", "--prefix", UNCHECKED_ROOT, *argv, check=False)
        raise_on_failure(done, what)

    async def _set_hash(self, name: str, value: str) -> None:
        """Set by chpasswd, or empty by passwd."""
        if value:
            await tool(self.host, f"set the password of {name}", "chpasswd", "--encrypted", stdin=f"{name}:{value}\n")
        else:
            await tool(self.host, f"empty the password of {name}", "passwd", "--quiet", "--delete", name)

    # -- what shadow can do besides ------------------------------------------------------------------------------

    async def _lock(self, user: User, locked: bool) -> None:
        """Lock or unlock by passwd."""
        verb = "lock" if locked else "unlock"
        await tool(self.host, f"{verb} the password of {user.name}", "passwd", "--quiet", f"--{verb}", user.name)

    def _new_home(self, name: str, home: str | None) -> tuple[str, str]:
        """Return what useradd would use, by its configuration."""
        locate = self.host.system_path
        home = home or f"{_homes.default(locate, 'HOME', _homes.HOME)}/{name}"
        return home, _homes.default(locate, "SKEL", _homes.SKELETON)

    async def set_expiry(
        self, name: str, value: dict[str, int], *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Set ageing by chage."""
        what = f"set the ageing of {name}"
        user = await self._user(what, name, test=test)
        if unknown := sorted(value.keys() - set(AGEING)):
            raise ArgumentError(f"cannot {what}: there is no field {', '.join(unknown)}")
        present = {field: -1 if user.extra[field] is None else user.extra[field] for field in AGEING}
        wrong = {field: days for field, days in value.items() if days != present[field]}
        if wrong and not test:
            switches = [part for field in AGEING if field in wrong for part in (AGES[field], str(wrong[field]))]
            await tool(self.host, what, "chage", *switches, name)
        return ChangeSet(changes={field: {"old": user.extra[field], "new": days} for field, days in wrong.items()})


class ShadowGroups(GroupProvider):
    """The groups of /etc/group."""

    confine = Confine(grains={"kernel": ("Linux",)}, commands=("groupadd", "groupmod", "groupdel", "gpasswd"))

    async def _add(self, name: str, gid: int | None, *, system: bool, unique: bool) -> None:
        """Add by groupadd."""
        switches = [] if gid is None else ["--gid", str(gid)]
        switches += [*(["--system"] if system else []), *([] if unique else ["--non-unique"])]
        await tool(self.host, f"add group {name}", "groupadd", *switches, name)

    async def _delete(self, name: str) -> None:
        """Remove by groupdel."""
        await tool(self.host, f"remove group {name}", "groupdel", name)

    async def _renumber(self, name: str, gid: int, *, unique: bool) -> None:
        """Change by groupmod."""
        switches = [] if unique else ["--non-unique"]
        await tool(self.host, f"change group {name}", "groupmod", "--gid", str(gid), *switches, name)

    async def _set_members(self, group: Group, users: set[str]) -> None:
        """Set all at once, by gpasswd."""
        members = ",".join(sorted(users))
        await tool(self.host, f"set the members of group {group.name}", "gpasswd", "--members", members, group.name)


def arguments(fields: Mapping[str, Any], user: User | None = None) -> list[str]:
    """Return the switches of useradd or usermod for these fields of an account."""
    switches = [part for field, switch in SWITCHES.items() if field in fields for part in (switch, str(fields[field]))]
    if "groups" in fields:
        switches += ["--groups", ",".join(fields["groups"])]
    if fields.keys() & set(GECOS):
        switches += ["--comment", comment(fields, user)]
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
