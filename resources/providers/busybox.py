"""Users and groups by the applets of busybox.

The applets add and remove accounts, and set passwords and members. They cannot change other fields of an account.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.resources import paths
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.interfaces.provider import Confine
from holdfast.resources.interfaces.results import User
from holdfast.resources.providers._account_fields import comment
from holdfast.resources.providers.account_base import GroupProvider, NewUser, UserProvider, accounts

APPLETS = ("adduser", "addgroup", "deluser", "delgroup", "passwd", "chpasswd")
HOSTS = Confine(grains={"kernel": ("Linux",)}, commands=("busybox", *APPLETS))


class BusyboxUsers(UserProvider):
    """The accounts of /etc/passwd."""

    confine = HOSTS
    priority = -1  # the shadow tools can do more, where they are installed
    changeable = frozenset({"groups"})
    shares_numbers = False

    async def _add(self, new: NewUser) -> None:
        """Add by adduser, always with a shell and a comment.

        By default, adduser takes the shell of its own environment, and sets a comment of its own.
        """
        what, fields = f"add user {new.name}", new.fields
        group = accounts(self.host).group_of(fields["gid"]) if "gid" in fields else None
        primary = group.name if group else None
        if new.system and new.usergroup and not primary:
            await applet(self.host, what, "addgroup", "-S", primary := new.name)
        settings = {
            "-G": primary,
            "-u": fields.get("uid"),
            "-h": self._new_home(new.name, fields.get("home"))[0],
            "-g": comment(fields),
            "-s": fields.get("shell") or ("/bin/false" if new.system else "/bin/sh"),
        }
        switches = [*(["-S"] if new.system else []), *([] if new.createhome else ["-H"])]
        for switch, value in settings.items():
            switches += [] if value is None else [switch, str(value)]
        await applet(self.host, what, "adduser", "-D", *switches, new.name)
        user = accounts(self.host).users.get(new.name)
        if user is None:
            raise Permanent(f"cannot {what}: adduser has ended without an error, and there is no such user")
        await self._change(user, {"groups": fields.get("groups", ())}, unique=True)  # -G also makes a member

    async def _delete(self, user: User, *, remove_home: bool, force: bool) -> None:
        """Remove by deluser."""
        if not force:
            await self._demand_unused(user)
        switches = ["--remove-home"] if remove_home else []
        await applet(self.host, f"remove user {user.name}", "deluser", *switches, user.name)

    async def _change(self, user: User, changed: Mapping[str, Any], *, unique: bool) -> None:
        """Change the groups."""
        what, wanted = f"change user {user.name}", set(changed["groups"])
        for group in sorted(wanted.difference(user.groups)):
            await applet(self.host, what, "addgroup", user.name, group)
        for group in sorted(set(user.groups) - wanted):
            await applet(self.host, what, "delgroup", user.name, group)

    async def _set_hash(self, name: str, value: str) -> None:
        """Set by chpasswd, or empty by passwd."""
        if value:
            await applet(self.host, f"set the password of {name}", "chpasswd", "-e", stdin=f"{name}:{value}\n")
        else:
            await applet(self.host, f"empty the password of {name}", "passwd", "-d", name)

    # -- what busybox cannot do ----------------------------------------------------------------------------------

    def _demand_possible(self, what: str, fields: Mapping[str, Any], new: NewUser | None = None) -> None:
        """Raise `Permanent` for a group that does not exist: otherwise addgroup would fail after adduser has run."""
        known = accounts(self.host)
        missing = [name for name in fields.get("groups", ()) if name not in known.groups]
        if "gid" in fields and known.group_of(fields["gid"]) is None:
            missing.append(fields["gid"])
        if missing:
            raise Permanent(f"cannot {what}: group '{missing[0]}' does not exist")
        if new:
            self._demand_complete(what, new)

    def _demand_complete(self, what: str, new: NewUser) -> None:
        """Raise `Permanent` for an account that adduser would add with another group, or without its home."""
        if new.usergroup is False and "gid" not in new.fields:
            raise Permanent(f"cannot {what}: busybox adds a group of the same name unless a gid is given")
        home, _ = self._new_home(new.name, new.fields.get("home"))
        above = Path(home).parent
        if new.createhome and not paths.exists(str(self.host.system_path(above))):
            raise Permanent(f"cannot {what}: there is no directory {above} for its home")


class BusyboxGroups(GroupProvider):
    """The groups of /etc/group."""

    confine = HOSTS
    priority = -1
    renumbers = False
    shares_numbers = False

    async def _add(self, name: str, gid: int | None, *, system: bool, unique: bool) -> None:
        """Add by addgroup."""
        switches = [*(["-S"] if system else []), *([] if gid is None else ["-g", str(gid)])]
        await applet(self.host, f"add group {name}", "addgroup", *switches, name)

    async def _delete(self, name: str) -> None:
        """Remove by delgroup."""
        await applet(self.host, f"remove group {name}", "delgroup", name)

    async def _join(self, name: str, user: str) -> None:
        """Add a member by addgroup."""
        await applet(self.host, f"set the members of group {name}", "addgroup", user, name)

    async def _leave(self, name: str, user: str) -> None:
        """Remove a member by delgroup."""
        await applet(self.host, f"set the members of group {name}", "delgroup", user, name)


async def applet(host: ProviderHost, what: str, name: str, *arguments: str, stdin: str | None = None) -> None:
    """Run an applet. Raises `Permanent` with its reason, `Temporary` while another program changes the files."""
    done = await host.run("busybox", name, *arguments, check=False, stdin=stdin)
    if not done.retcode:
        return
    lines = done.stderr.splitlines() or [f"{name} ended with status {done.retcode}"]
    why = lines[-1].removeprefix(f"{name}: ")
    raise (Temporary if why.endswith("+': File exists") else Permanent)(f"cannot {what}: {why}")
