"""Base of the providers of packages: a provider has a core of six methods, and all other functions are derived from it.

A core is `_query`, `_offered`, `_plan`, `_transact`, `_fetch_lists` and `compare`. It parses the output of the tool's
commands, and says which command makes a change. The base runs one transaction at a time, compares the database before
and after, refreshes the lists of packages, and watches the database. `SharedTool` waits for other programs that use the
tool.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from holdfast.resources.context import Watch
from holdfast.resources.errors import HoldfastError, Permanent, Temporary
from holdfast.resources.interfaces.base import Options
from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.interfaces.pkg import PkgInterface
from holdfast.resources.interfaces.provider import Provider
from holdfast.resources.interfaces.results import ChangeSet, Pkg, PkgSpec
from holdfast.resources.providers._pkg_database import Cache, Changes, PackageDatabase, differences
from holdfast.resources.providers._shared_tool import SharedTool

FRESH = 3600.0
"""Seconds for which the lists of packages count as new."""
Outcome = Literal["updated", "unchanged", "failed"]
"""Result of a refresh of one repository."""


class Fetched(NamedTuple):
    """Result of a refresh of the lists of packages."""

    repositories: Mapping[str, Outcome]
    why: str = ""
    """The tool's reason, if something failed."""


class Transaction(NamedTuple):
    """One change of the installed packages."""

    verb: Literal["install", "remove", "upgrade"]
    pkgs: tuple[PkgSpec, ...] = ()
    """The packages; none with `upgrade` means all."""
    purge: bool = False
    """Whether `remove` also removes configuration files."""
    options: Mapping[str, Any] = {}
    """Options of the caller; each provider documents its own."""

    @property
    def names(self) -> list[str]:
        """Return the names of the packages."""
        return [pkg.name for pkg in self.pkgs]

    @property
    def title(self) -> str:
        """Return what the transaction does, for messages: `install tiny=1.0, other`."""
        named = [
            Path(pkg.source).name if pkg.source else f"{pkg.name}={pkg.version}" if pkg.version else pkg.name
            for pkg in self.pkgs
        ]
        return f"{'purge' if self.purge else self.verb} {', '.join(named) or 'all packages'}"


class PkgProvider(SharedTool, Provider, ABC, abstract=True):
    """Derives the functions of `pkg` from a core.

    A provider sets `database`, and where the tool has them `lists`, `missing` and the attributes of `SharedTool`.
    """

    implements = PkgInterface

    database: ClassVar[tuple[Path, ...]]
    """Paths that `watch` watches. At least one changes whenever packages change; the first one always exists."""
    intermediate: ClassVar[tuple[Path, ...]] = ()
    """Paths that change while a transaction runs, before `database` does. They are not watched."""
    lists: ClassVar[tuple[Path, ...]] = ()
    """Paths of the lists of packages, which `watch` watches with `catalogue`."""
    fetched: ClassVar[tuple[Path, ...]] = ()
    """Paths whose time of change is that of the last refresh. Default: `lists`."""
    sources: ClassVar[tuple[Path, ...]] = ()
    """Paths of the lists of repositories: lists of packages that are older than a change of them are not fresh."""
    missing: ClassVar[tuple[str, ...]] = ()
    """Messages of the tool if it cannot find a package because its lists are outdated."""
    full_upgrade: ClassVar[Transaction] = Transaction("upgrade")
    """The upgrade that `upgrades` plans: the one that holds nothing back."""

    def __init__(self, host: ProviderHost) -> None:
        super().__init__(host)
        self._cache = Cache([host.system_path(path) for path in (*self.database, *self.intermediate)], self._query)
        self._refreshed = 0.0
        """Unix time of the agent's last refresh: one that finds nothing new may leave no trace on disk."""
        self._transacting = asyncio.Lock()
        """One transaction at a time, so that each reports its own changes."""
        self._editing = asyncio.Lock()
        """One change of the files of repositories at a time."""

    # -- the core ------------------------------------------------------------------------------------------------

    @abstractmethod
    async def _query(self) -> PackageDatabase:
        """Read the database of the tool."""

    @abstractmethod
    async def _offered(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Return the versions that can be installed, the newest first; a name without any may be left out.

        If the tool would not install the newest one by default, the provider overrides `latest`.
        """

    @abstractmethod
    async def _plan(self, transaction: Transaction) -> Changes:
        """Return the changes of a transaction, dependencies included, by the tool's own simulation."""

    @abstractmethod
    async def _transact(self, transaction: Transaction) -> None:
        """Make a transaction, by `_run`. Without a version, `install` installs or upgrades to the candidate."""

    @abstractmethod
    async def _fetch_lists(self) -> Fetched:
        """Fetch the lists of packages, by `_run`."""

    # -- what a tool may override --------------------------------------------------------------------------------

    async def _recover(self, database: PackageDatabase, *, failed: bool = False) -> str:
        """Finish an interrupted transaction. Called before each transaction, and after one has `failed`.

        Returns why that was not possible, in the tool's words, or an empty text. Does nothing by default, because most
        tools recover by themselves.
        """
        return ""

    def _notice(self) -> None:
        """Note that the database may have changed, before it is read. Does nothing by default."""

    # -- querying ------------------------------------------------------------------------------------------------

    async def list_installed(self, names: Sequence[str] = ()) -> dict[str, list[Pkg]]:
        """Return the installed packages; a name that packages provide gives these packages."""
        database = await self._cache.read()
        if not names:
            return dict(database.installed)
        return {name: found for name in names if (found := database.find(name))}

    async def latest(self, names: Sequence[str], refresh: bool = False) -> dict[str, str | None]:
        """Return the newest offered versions, from the present lists or after a refresh."""
        if refresh:
            await self.refresh()
        return {name: next(iter(versions), None) for name, versions in (await self.available(names)).items()}

    async def available(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Return the versions in the lists."""
        found = await self._offered(names) if names else {}
        return {name: found.get(name, []) for name in names}

    async def upgrades(self, refresh: bool = True) -> dict[str, dict[str, str]]:
        """Return the packages that an upgrade of all packages would change to a newer version."""
        if refresh:
            await self.refresh()
        plan = await self._plan(self.full_upgrade)
        return {
            name: {"current": change["old"], "candidate": change["new"]}
            for name, change in plan.items()
            if all(change.values())
        }

    @abstractmethod
    async def compare(self, a: str, b: str) -> Literal[-1, 0, 1]:
        """Compare two versions by the tool's own rules."""

    async def watch(self, names: Sequence[str] = (), catalogue: bool = False) -> Watch:
        """Watch the files of the database, and of the lists, by inotify, and report changes for these packages."""
        known: object = None
        paths = (*self.database, *(self.lists if catalogue else ()))
        async for event in self.host.watch_path(*map(str, paths)):
            arming = known is None
            if not arming:
                await self._idle.wait()
            self._notice()
            try:
                now: object = ((await self._cache.read()).known(names), self._fetched() if catalogue else 0.0)
            except HoldfastError:
                now = object()  # an error counts as a change: the next probe reports why the database cannot be read
            if arming or now != known:
                known = now
                yield event

    # -- changing ------------------------------------------------------------------------------------------------

    async def install(
        self, pkgs: Sequence[PkgSpec], refresh: bool | None = None, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Install in one transaction; a declared version or file may be older than the installed one."""
        if refresh and not test:
            await self.refresh(force=True)
        return await self._change(
            Transaction("install", tuple(pkgs), options=options or {}), test=test, again=refresh is None
        )

    async def remove(
        self, names: Sequence[str], purge: bool = False, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Remove in one transaction; names that are not installed are left out."""
        database = await self._cache.read()
        left = [name for name in names if name in database.residual] if purge else []
        there = [name for name in names if database.named(name) or name in database.unfinished.union(left)]
        if not there:
            return ChangeSet()
        pkgs = tuple([PkgSpec(name=name) for name in there])
        done = await self._change(Transaction("remove", pkgs, purge, options or {}), test=test)
        return ChangeSet(changes={**{name: {"old": "configuration", "new": ""} for name in left}, **done.changes})

    async def upgrade(
        self, names: Sequence[str] = (), refresh: bool = True, *, test: bool = False, options: Options = None
    ) -> ChangeSet:
        """Upgrade these packages, or all, in one transaction; names that are not installed are left out."""
        if refresh and not test:
            await self.refresh()
        if names:
            database = await self._cache.read()
            names = [name for name in names if database.named(name)]
            if not names:
                return ChangeSet()
        pkgs = tuple([PkgSpec(name=name) for name in names])
        return await self._change(Transaction("upgrade", pkgs, options=options or {}), test=test)

    async def refresh(self, force: bool = False) -> dict[str, Outcome]:
        """Fetch the lists. Raises `Temporary` if no repository could be reached."""
        if not force and time.time() - self._fetched() < FRESH:
            return {}
        repositories, why = await self._fetch_lists()
        failed = [repository for repository, outcome in repositories.items() if outcome == "failed"]
        if why and len(failed) == len(repositories):
            raise Temporary(f"cannot refresh the lists of packages: {why}", delay=30.0)
        if why or failed:
            self.host.log.warning("some repositories cannot be reached", repositories=failed, why=why)
        self._refreshed = time.time()
        return dict(repositories)

    def _fetched(self) -> float:
        """Return the Unix time of the last refresh; 0 for never, or if repositories have changed since."""
        paths = self.fetched or self.lists
        times = self._times(paths)
        last = max([*times, self._refreshed]) if times or not paths else 0.0
        return last if last >= max(self._times(self.sources), default=0.0) else 0.0

    def _times(self, files: Sequence[Path]) -> list[float]:
        """Return the times of change of those files that exist."""
        times = []
        for file in files:
            with suppress(OSError):
                times.append(self.host.system_path(file).stat().st_mtime)
        return times

    async def _change(self, transaction: Transaction, *, test: bool, again: bool = False) -> ChangeSet:
        """Make a transaction and return what it changed; an error has the changes that were made before it.

        `again`: refresh and try once more if the tool cannot find something.
        """
        if test:
            return ChangeSet(changes=await self._plan(transaction))
        async with self._transacting:
            await self._wait()
            before = await self._cache.read()
            why = await self._recover(before)
            try:
                await self._transact_twice(transaction) if again else await self._transact(transaction)
            except HoldfastError as error:
                # Finish it now: if the packages are as declared, no later run would do so.
                why = await self._recover(await self._cache.read(), failed=True) or why
                if why and why not in str(error):
                    error.args = (f"{error}; cannot finish what was interrupted before: {why}", *error.args[1:])
                error.changes = differences(before, await self._cache.read())
                raise
            return ChangeSet(changes=differences(before, await self._cache.read()))

    async def _transact_twice(self, transaction: Transaction) -> None:
        try:
            await self._transact(transaction)
        except Permanent as error:
            if not any(words in str(error) for words in self.missing):
                raise
            self.host.log.info(
                f"{self.tool} cannot find a package: fetching the lists of packages again",  # noqa: G004
                why=str(error),
            )
            await self.refresh(force=True)
            await self._transact(transaction)


class HoldingProvider(PkgProvider, abstract=True):
    """Adds `hold`, `unhold` and `holds`, for a tool that keeps a list of held packages."""

    @abstractmethod
    async def _set_held(self, names: Sequence[str], held: bool) -> None:
        """Hold or release these packages, by `_run`."""

    async def _held(self) -> frozenset[str]:
        """Return the names of the held packages. Default: those of the database."""
        return (await self._cache.read()).held

    async def holds(self) -> dict[str, str | None]:
        """Return the held packages."""
        versions = (await self._cache.read()).versions()
        return {name: versions.get(name) for name in sorted(await self._held())}

    async def hold(self, names: Sequence[str], *, test: bool = False, options: Options = None) -> ChangeSet:
        """Hold packages, except those that are held already."""
        held = await self._held()
        wrong = [name for name in names if name not in held]
        if wrong and not test:
            await self._set_held(wrong, held=True)
        return ChangeSet(changes={name: {"old": "", "new": "hold"} for name in wrong})

    async def unhold(self, names: Sequence[str], *, test: bool = False, options: Options = None) -> ChangeSet:
        """Release packages, except those that are not held."""
        held = await self._held()
        wrong = [name for name in names if name in held]
        if wrong and not test:
            await self._set_held(wrong, held=False)
        return ChangeSet(changes={name: {"old": "hold", "new": ""} for name in wrong})


class UnneededProvider(PkgProvider, abstract=True):
    """Adds `autoremove`, for a tool that knows which packages were installed only for others."""

    @abstractmethod
    async def _unneeded(self) -> list[str]:
        """Return the packages that were installed only for others, and that no package needs any more."""

    async def autoremove(self, names: Sequence[str] = (), *, test: bool = False, options: Options = None) -> ChangeSet:
        """Remove these packages in one transaction."""
        unneeded = [name for name in await self._unneeded() if not names or name in names]
        return await self.remove(unneeded, test=test, options=options)
