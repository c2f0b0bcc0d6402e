"""Names of users and groups by number, and numbers by name; fast enough to be looked up for every file.

`/etc/passwd` and `/etc/group` are read whole and cached until they change. A name service may know further names. A
query of a name service may block for seconds, so it is a separate function.
"""

from __future__ import annotations

import grp
import os
import pwd
from dataclasses import dataclass, field
from typing import NamedTuple

PASSWD, GROUP = "/etc/passwd", "/etc/group"


@dataclass(slots=True, eq=False, repr=False)
class AccountTable:
    """One of the two files, as last read."""

    path: str
    stamp: tuple[int, ...] = ()
    ids: dict[str, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    def fresh(self) -> AccountTable:
        """Return the table, read again if the file has changed; empty if the file cannot be read."""
        try:
            s = os.stat(self.path)  # noqa: PTH116 - Path objects are slow
            stamp = (s.st_mtime_ns, s.st_ino, s.st_size)
            if stamp != self.stamp:
                with open(self.path, encoding="utf-8", errors="surrogateescape", newline="\n") as lines:  # noqa: PTH123
                    self._read(lines.read())
                self.stamp = stamp
        except OSError:
            self.stamp, self.ids, self.names = (), {}, {}
        return self

    def _read(self, text: str) -> None:
        self.ids, self.names = {}, {}
        for line in text.split("\n"):
            name, _, number = line.split(":", 3)[:3] if line.count(":") >= 3 else ("", "", "")
            if number.isdigit() and not name.startswith(("#", "+", "-")):
                self.ids.setdefault(name, int(number))
                self.names.setdefault(int(number), name)


_users, _groups = AccountTable(PASSWD), AccountTable(GROUP)


def local_uid(user: str) -> int | None:
    """Return the uid of a user in this host's files, or of a number as text; None if a name service must be asked."""
    return int(user) if user.isdigit() else _users.fresh().ids.get(user)


def local_gid(group: str) -> int | None:
    """Return the gid of a group in this host's files, or of a number as text; None if a name service must be asked."""
    return int(group) if group.isdigit() else _groups.fresh().ids.get(group)


def service_uid(user: str) -> int | None:
    """Return the uid of a user from a name service; None if it knows no such user. May block."""
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def service_gid(group: str) -> int | None:
    """Return the gid of a group from a name service; None if it knows no such group. May block."""
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        return None


def service_group(gid: int) -> str | None:
    """Return the name of a group from a name service; None if it knows no such group. May block."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return None


def user_name(uid: int) -> str:
    """Return a user's name for display; the number as text if this host's files have no such user."""
    return _users.fresh().names.get(uid, str(uid))


def group_name(gid: int) -> str:
    """Return a group's name for display; the number as text if this host's files have no such group."""
    return _groups.fresh().names.get(gid, str(gid))


class Account(NamedTuple):
    """What a process needs to run as a user."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str


def account(user: str) -> Account | None:
    """Return the account of a user, by name or number; None if there is none. May block."""
    try:
        entry = pwd.getpwuid(int(user)) if user.isdigit() else pwd.getpwnam(user)
    except KeyError:
        return None
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir, entry.pw_shell)
