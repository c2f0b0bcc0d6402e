"""The account files of a Unix host, parsed: passwd, shadow and group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.resources.interfaces.results import Group, User

ETC = Path("/etc")
FILES = ("passwd", "shadow", "group", "gshadow")
GECOS = ("fullname", "roomnumber", "workphone", "homephone", "other")
"""Parts of the comment field, in their order."""
AGEING = ("date", "mindays", "maxdays", "warndays", "inactdays", "expire")
"""Fields of shadow that follow the password, in their order."""


@dataclass(frozen=True, slots=True)
class Accounts:
    """All users and groups of this host."""

    users: dict[str, User]
    groups: dict[str, Group]

    def group_of(self, gid: str | int) -> Group | None:
        """Return a group by its name or number."""
        if isinstance(gid, str):
            return self.groups.get(gid)
        return next((group for group in self.groups.values() if group.gid == gid), None)


def read(etc: Path = ETC) -> Accounts:
    """Read the files. If shadow may not be read, passwords and ageing are None."""
    groups = {
        name: Group(name=name, gid=int(gid), members=tuple(sorted(filter(None, members.split(",")))))
        for name, _, gid, members in _records(etc / "group", 4, numbers=(2,))
    }
    names = {group.gid: group.name for group in reversed(groups.values())}
    supplementary: dict[str, list[str]] = {}
    for group in groups.values():
        for member in group.members:
            supplementary.setdefault(member, []).append(group.name)
    shadow: dict[str, list[str]] = {name: rest for name, *rest in _records(etc / "shadow", 9)}
    users = {
        record[0]: _user(record, shadow.get(record[0], []), names, supplementary)
        for record in _records(etc / "passwd", 7, numbers=(2, 3))
    }
    return Accounts(users, groups)


def _user(
    record: list[str], secret: list[str], names: Mapping[int | None, str], supplementary: Mapping[str, list[str]]
) -> User:
    """Return the user of a record of passwd.

    `secret` is the rest of the record in shadow, empty if there is none; `names` are the groups by gid, and
    `supplementary` the names of groups by user.
    """
    name, _, uid, gid, gecos, home, shell = record
    comment = dict(zip(GECOS, gecos.split(",", 4), strict=False))
    password = secret[0] if secret else None
    ageing = dict.fromkeys(AGEING) | {
        field: int(age) for field, age in zip(AGEING, secret[1:], strict=False) if age.isdecimal()
    }
    return User(
        name=name,
        uid=int(uid),
        gid=int(gid),
        primary_group=names.get(int(gid)),
        groups=tuple(sorted(supplementary.get(name, ()))),
        home=home or None,
        shell=shell or None,
        fullname=comment.get("fullname") or None,
        locked=None if password is None else password.startswith("!"),
        password=password,
        extra={**{part: comment.get(part) or None for part in GECOS[1:]}, **ageing},
    )


def _records(path: Path, width: int, numbers: Sequence[int] = ()) -> Iterator[list[str]]:
    """Yield the records of a file, without comments, NIS entries and lines without these `numbers`.

    A file that cannot be read has none.
    """
    try:
        text = path.read_bytes().decode(errors="surrogateescape")
    except (FileNotFoundError, PermissionError):
        return
    for line in text.split("\n"):  # not splitlines: a user's comment may contain other line breaks
        record = line.split(":")
        broken = len(record) != width or not all(record[number].isdecimal() for number in numbers)
        if not broken and record[0] and record[0][0] not in "#+-":
            yield record
