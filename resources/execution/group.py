"""Salt's `group` functions that change something; templates have those that only query."""

from __future__ import annotations

from typing import Any

from holdfast.resources.execution.table import ExecutionHost, execution
from holdfast.resources.interfaces.group import GroupInterface
from holdfast.resources.interfaces.results import ChangeSet


@execution("group.add", GroupInterface, "add")
async def add(
    host: ExecutionHost, name: str, gid: int | None = None, system: bool = False, non_unique: bool = False
) -> ChangeSet:
    """Add a group."""
    return await host.interface(GroupInterface).add(name, gid, system, unique=not non_unique)


@execution("group.delete", GroupInterface, "remove")
async def delete(host: ExecutionHost, name: str) -> ChangeSet:
    """Remove a group."""
    return await host.interface(GroupInterface).remove(name)


@execution("group.chgid", GroupInterface, "modify")
async def chgid(host: ExecutionHost, name: str, gid: int, non_unique: bool = False) -> ChangeSet:
    """Change the number of a group."""
    return await host.interface(GroupInterface).modify(name, gid, unique=not non_unique)


@execution("group.adduser", GroupInterface, "members_add")
async def adduser(host: ExecutionHost, name: str, username: str) -> ChangeSet:
    """Add a member."""
    return await host.interface(GroupInterface).members_add(name, [username])


@execution("group.deluser", GroupInterface, "members_remove")
async def deluser(host: ExecutionHost, name: str, username: str) -> ChangeSet:
    """Remove a member."""
    return await host.interface(GroupInterface).members_remove(name, [username])


@execution("group.members", GroupInterface, "members_set")
async def members(host: ExecutionHost, name: str, members_list: Any) -> ChangeSet:
    """Set the members: a list, or names with commas between them."""
    given = members_list.split(",") if isinstance(members_list, str) else members_list or ()
    return await host.interface(GroupInterface).members_set(name, [str(user).strip() for user in given if str(user)])
