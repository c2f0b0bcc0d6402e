"""The primary group of an account: the gid of the account and its files needs a group.

Another program may have removed only the group, or removed it just before the account was created with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from holdfast.resources.context import Context
from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.group import GroupInterface
from holdfast.resources.interfaces.results import User


def seen(user: User) -> Literal["exists", "missing"]:
    """Return whether there is a group with the gid of the user."""
    return "missing" if user.primary_group is None else "exists"


async def among(ctx: Context, names: Sequence[str], gid: str | int | None, user: User | None) -> set[str]:
    """Return which of these groups is the primary group of a user: that in `gid` or, without `gid`, the present one.

    The group need not list the user as a member.
    """
    if isinstance(gid, int):
        groups = await ctx.interface(GroupInterface).info(names)
        return {name for name, group in groups.items() if group and group.gid == gid}
    return {*names} & {gid or (user.primary_group if user else None)}


async def restore(ctx: Context, user: User) -> None:
    """Add a group with the user's name and gid. Raises `Permanent` if a group of this name has another gid."""
    group = ctx.interface(GroupInterface)
    other = (await group.info([user.name]))[user.name]
    if other is not None:
        raise Permanent(
            f"cannot add the primary group of {user.name}, gid {user.gid}: group {user.name} has gid {other.gid}; "
            f"set gid: {user.name} and allow_gid_change: true to give the user this group"
        )
    await group.add(user.name, user.gid)
