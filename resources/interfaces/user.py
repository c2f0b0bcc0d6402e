"""`user`: accounts of this host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.resources.context import Watch
from holdfast.resources.interfaces.base import Interface, Options, replaces, supported
from holdfast.resources.interfaces.results import ChangeSet, Secret, User
from holdfast.resources.watches import idle


class UserInterface(Interface, name="user"):
    """Query, add, change and remove accounts.

    Fields of `add` and `modify`: `uid`, `gid` (a number or the name of a group), `groups` (all supplementary ones),
    `home`, `shell`, `fullname`; and if the platform has them `roomnumber`, `workphone`, `homephone`, `other`. With
    `test` nothing is changed; the result says what would be.
    """

    @replaces("list_users")
    async def list(self) -> tuple[str, ...]:
        """Return the names of all accounts, sorted."""
        return ()

    async def info(self, names: Sequence[str]) -> dict[str, User | None]:
        """Return the accounts by name; None for one that does not exist."""
        return {}

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
        """Add an account.

        `usergroup`: add a group of the same name as well; None: the platform's default. Without `unique`, another
        account may have the uid.
        """
        return ChangeSet()

    @replaces("delete")
    async def remove(
        self, name: str, remove_home: bool = False, force: bool = False, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Remove an account; with `force`, even while it is used. Raises `Temporary` while its processes run."""
        return ChangeSet()

    async def modify(
        self, name: str, *, unique: bool = True, test: bool = False, options: Options = None, **changed: Any
    ) -> ChangeSet:
        """Change the given fields of an account."""
        return ChangeSet()

    async def rename(self, name: str, new_name: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Rename an account."""
        return ChangeSet()

    @supported(kernel=("Linux", "FreeBSD", "OpenBSD", "NetBSD", "SunOS"))
    async def set_password(self, name: str, value: Secret, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Set the hash of the password; an empty one allows login without a password.

        The result never shows the hash.
        """
        return ChangeSet()

    @supported(kernel=("Linux",))
    async def set_lock(self, name: str, value: bool, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Lock the password, so that no login with it succeeds, or unlock it.

        Raises `Permanent` if an unlocked password would be empty.
        """
        return ChangeSet()

    @supported(kernel=("Linux",))
    async def set_expiry(
        self, name: str, value: dict[str, int], *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Set the ageing of account and password.

        Keys: `expire`, `date` (days since 1970, -1: never), `mindays`, `maxdays`, `inactdays`, `warndays`.
        """
        return ChangeSet()

    @replaces("chloginclass")
    @supported(kernel=("FreeBSD", "OpenBSD", "NetBSD"))
    async def set_login_class(self, name: str, value: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Set the login class."""
        return ChangeSet()

    def watch(self) -> Watch:
        """Watch the accounts."""
        return idle()
