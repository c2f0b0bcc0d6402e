"""The primary group of an account: a group is needed for the number that the account and its files have.

Another program may have removed the group alone, or just before the account was created with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from holdfast.resources.context import Context
from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.group import GroupInterface
from holdfast.resources.interfaces.results import User


def seen(user: User) -> Literal["exists", "missing"]:
    """Return whether there is a group with the number."""
    return "missing" if user.primary_group is None else "exists"


async def among(ctx: Context, names: Sequence[str], gid: str | int | None, user: User | None) -> set[str]:
    """Return which of these groups is the primary one of a user: the declared one, or the present one without `gid`.

    No member needs to be listed in it.
    """
    if isinstance(gid, int):
        groups = await ctx.interface(GroupInterface).info(names)
        return {name for name, group in groups.items() if group and group.gid == gid}
    return {*names} & {gid or (user.primary_group if user else None)}


async def restore(ctx: Context, user: User) -> None:
    """Add a group with the user's name and the number. Raises `Permanent` if the name has another number."""
    group = ctx.interface(GroupInterface)
    other = (await group.info([user.name]))[user.name]
    if other is not None:
        raise Permanent(
            f"cannot add the primary group of {user.name}, gid {user.gid}: group {user.name} has gid {other.gid}; "
            f"set gid: {user.name} and allow_gid_change: true to give the user this group"
        )
    await group.add(user.name, user.gid)
