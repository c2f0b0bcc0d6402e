"""Salt's `user` functions that change something; templates have those that only query."""

from __future__ import annotations

from typing import Any

from holdfast.resources.errors import Permanent
from holdfast.resources.execution.table import ExecutionHost, execution
from holdfast.resources.interfaces.results import ChangeSet
from holdfast.resources.interfaces.user import UserInterface

FIELDS = ("uid", "gid", "home", "shell", "fullname", "roomnumber", "workphone", "homephone", "other")


def _names(groups: Any) -> list[str]:
    """Return the names in a list, or in a text with commas."""
    given = groups.split(",") if isinstance(groups, str) else groups or []
    return [str(each).strip() for each in given if str(each).strip()]


@execution("user.add", UserInterface, "add")
async def add(
    host: ExecutionHost, name: str, uid: Any = None, gid: Any = None, groups: Any = None, home: str | None = None,
    shell: str | None = None, unique: bool = True, system: bool = False, fullname: str = "", roomnumber: str = "",
    workphone: str = "", homephone: str = "", createhome: bool = True, other: str = "", usergroup: bool | None = None,
) -> ChangeSet:  # fmt: skip
    """Add an account."""
    values = (uid, gid, home, shell, fullname, roomnumber, workphone, homephone, other)
    fields = {field: value for field, value in zip(FIELDS, values, strict=True) if value not in (None, "")}
    if groups is not None:
        fields["groups"] = _names(groups)
    return await host.interface(UserInterface).add(
        name, system=system, createhome=createhome, usergroup=usergroup, unique=unique, **fields
    )


@execution("user.delete", UserInterface, "remove")
async def delete(host: ExecutionHost, name: str, remove: bool = False, force: bool = False) -> ChangeSet:
    """Remove an account, and with `remove` its home directory."""
    return await host.interface(UserInterface).remove(name, remove, force)


@execution("user.rename", UserInterface, "rename")
async def rename(host: ExecutionHost, name: str, new_name: str) -> ChangeSet:
    """Rename an account."""
    return await host.interface(UserInterface).rename(name, new_name)


@execution("user.chgroups", UserInterface, "info", "modify")
async def chgroups(host: ExecutionHost, name: str, groups: Any, append: bool = False) -> ChangeSet:
    """Set the supplementary groups of an account, or with `append` add some."""
    user = host.interface(UserInterface)
    known = (await user.info([name]))[name]
    if known is None:
        raise Permanent(f"cannot change the groups of {name}: there is no such user")
    return await user.modify(name, groups=sorted({*_names(groups), *(known.groups if append else ())}))


async def _set(host: ExecutionHost, name: str, **field: Any) -> ChangeSet:
    return await host.interface(UserInterface).modify(name, **field)


@execution("user.chuid", UserInterface, "modify")
async def chuid(host: ExecutionHost, name: str, uid: int) -> ChangeSet:
    """Change the number of an account."""
    return await _set(host, name, uid=uid)


@execution("user.chgid", UserInterface, "modify")
async def chgid(host: ExecutionHost, name: str, gid: int | str) -> ChangeSet:
    """Change the primary group of an account."""
    return await _set(host, name, gid=gid)


@execution("user.chhome", UserInterface, "modify")
async def chhome(host: ExecutionHost, name: str, home: str) -> ChangeSet:
    """Change the home directory of an account; its files stay where they are."""
    return await _set(host, name, home=home)


@execution("user.chshell", UserInterface, "modify")
async def chshell(host: ExecutionHost, name: str, shell: str) -> ChangeSet:
    """Change the shell of an account."""
    return await _set(host, name, shell=shell)


@execution("user.chfullname", UserInterface, "modify")
async def chfullname(host: ExecutionHost, name: str, fullname: str) -> ChangeSet:
    """Change the full name of an account."""
    return await _set(host, name, fullname=fullname)


@execution("user.chroomnumber", UserInterface, "modify")
async def chroomnumber(host: ExecutionHost, name: str, roomnumber: str) -> ChangeSet:
    """Change the room number of an account."""
    return await _set(host, name, roomnumber=str(roomnumber))


@execution("user.chworkphone", UserInterface, "modify")
async def chworkphone(host: ExecutionHost, name: str, workphone: str) -> ChangeSet:
    """Change the work phone of an account."""
    return await _set(host, name, workphone=str(workphone))


@execution("user.chhomephone", UserInterface, "modify")
async def chhomephone(host: ExecutionHost, name: str, homephone: str) -> ChangeSet:
    """Change the home phone of an account."""
    return await _set(host, name, homephone=str(homephone))


@execution("user.chother", UserInterface, "modify")
async def chother(host: ExecutionHost, name: str, other: str) -> ChangeSet:
    """Change the last field of the comment of an account."""
    return await _set(host, name, other=str(other))
