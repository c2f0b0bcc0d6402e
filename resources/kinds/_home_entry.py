"""Base of the kinds of entries in a file that may be in the home directory of a user."""

from __future__ import annotations

import os.path
import re
from abc import abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import ClassVar, NamedTuple

from holdfast.resources import accounts
from holdfast.resources.context import Context, Watch
from holdfast.resources.dependencies import Dependency, owned_by
from holdfast.resources.errors import HoldfastError, Permanent
from holdfast.resources.fields import Account
from holdfast.resources.kinds._config_file import ConfigEntry
from holdfast.resources.kinds.file.base import Ownership, found
from holdfast.resources.watch_items import WatchItem
from holdfast.resources.watches import either

PRIVATE = 0o600


class HomeFile(NamedTuple):
    """The file of a user."""

    path: str
    home: str
    uid: int
    gid: int

    @property
    def inside(self) -> bool:
        """Whether the file is in the home directory."""
        return self.path.startswith(f"{self.home.rstrip('/')}/")


class HomeEntry(ConfigEntry):
    """Base of these kinds. New files in the home directory belong to the user, other new files to the agent's user."""

    makes_parents: ClassVar[bool] = True

    user: Account | None = None

    @abstractmethod
    def pattern(self) -> str:
        """Return the path of the file, possibly relative to the home directory; `%h` and `%u` are replaced later."""

    def file(self) -> str:
        """Return the path of the file, assuming the usual home directory."""
        return self._expanded("/root" if self.user == "root" else f"/home/{self.user}")

    def _expanded(self, home: str) -> str:
        tokens = {"%h": home, "%u": self.user or "", "%%": "%"}
        path = re.sub("%[hu%]", lambda token: tokens[token[0]], self.pattern())
        return os.path.normpath(os.path.join(home, path))  # noqa: PTH118 - Path objects are slow

    async def home_file(self, ctx: Context) -> HomeFile | None:
        """Return the file of the user; None without a user. Raises `Permanent` if the user does not exist."""
        if self.user is None:
            return None
        user = await ctx.blocking(accounts.account, self.user)
        if user is None:
            raise Permanent(
                f"cannot find the files of {self.user}: the user does not exist; declare the user, or correct the name"
            )
        return HomeFile(self._expanded(user.home), user.home, user.uid, user.gid)

    async def located(self, ctx: Context) -> str:
        """Return the path of the file."""
        file = await self.home_file(ctx)
        return self.file() if file is None else file.path

    async def located_or_none(self, ctx: Context) -> str | None:
        """Return the path of the file; None if the user does not exist."""
        try:
            return await self.located(ctx)
        except HoldfastError:
            return None

    async def owner_of_new(self, ctx: Context) -> Ownership:
        """Return the user for a file in the home directory, otherwise the agent's user."""
        file = await self.home_file(ctx)
        if file is None or not file.inside:
            return Ownership(None, None, -1, -1, None)
        if found(file.home, follow=True)[1] is None:
            raise Permanent(f"cannot make {file.path}: the home directory {file.home} does not exist; declare it")
        return Ownership(self.user, None, file.uid, file.gid, PRIVATE)

    def watch(self, ctx: Context) -> Watch:
        """Watch the file and the accounts, because a change of the home directory changes the path."""
        return super().watch(ctx) if self.user is None else self._followed(ctx)

    async def _followed(self, ctx: Context) -> AsyncGenerator[WatchItem, None]:
        while True:
            path = await self.located_or_none(ctx)
            watches = [self._moves(ctx, path), *([ctx.watch_path(path)] if path else [])]
            async with aclosing(either(*watches)) as events:
                async for event in events:
                    yield event
                    if await self.located_or_none(ctx) != path:
                        break

    async def _moves(self, ctx: Context, path: str | None) -> Watch:
        """Report changes of the accounts after which the file is no longer at `path`."""
        armed = False
        async for event in ctx.watch_path(accounts.PASSWD):
            if not armed or event is not None or await self.located_or_none(ctx) != path:
                armed = True
                yield event

    def dependencies(self) -> tuple[Dependency, ...]:
        """Also return the user."""
        return (*owned_by(self.user, None), *super().dependencies())
