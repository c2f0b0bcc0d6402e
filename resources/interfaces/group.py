"""`group`: groups of users of this host."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.resources.context import Watch
from holdfast.resources.interfaces.base import Interface, Options, replaces
from holdfast.resources.interfaces.results import ChangeSet, Group
from holdfast.resources.watches import idle


class GroupInterface(Interface, name="group"):
    """Query, add, change and remove groups. With `test` nothing is changed; the result says what would be."""

    async def list(self) -> tuple[str, ...]:
        """Return the names of all groups, sorted."""
        return ()

    async def info(self, names: Sequence[str]) -> dict[str, Group | None]:
        """Return the groups by name; None for one that does not exist."""
        return {}

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
        """Add a group. Without `unique`, another group may have the gid."""
        return ChangeSet()

    @replaces("delete")
    async def remove(self, name: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Remove a group. Raises `Permanent` if it is a user's primary group."""
        return ChangeSet()

    @replaces("chgid")
    async def modify(
        self, name: str, gid: int, *, unique: bool = True, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Change the number of a group."""
        return ChangeSet()

    async def members_set(
        self, name: str, users: Sequence[str], *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Set the members."""
        return ChangeSet()

    async def members_add(
        self, name: str, users: Sequence[str], *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Add members."""
        return ChangeSet()

    async def members_remove(
        self, name: str, users: Sequence[str], *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Remove members."""
        return ChangeSet()

    def watch(self) -> Watch:
        """Watch the groups."""
        return idle()
