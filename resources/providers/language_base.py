"""Base of the providers of packages of a programming language: all functions are derived from a core of six methods."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from holdfast.resources import paths
from holdfast.resources.context import Completed, Watch
from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.base import Options
from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.interfaces.language import LanguageInterface
from holdfast.resources.interfaces.provider import Provider
from holdfast.resources.interfaces.results import ChangeSet, Pkg, PkgSpec
from holdfast.resources.watches import either

USER = "user"
"""The target of one user's packages."""
Shape = TypeVar("Shape")
Versions = dict[str, str]
"""Name of a package -> its version; several versions are separated by commas, the newest first."""


class Where(NamedTuple):
    """The target of a call, its user, and its options."""

    target: str | None = None
    runas: str | None = None
    source: str | None = None
    """The index, if the caller names one."""
    options: Mapping[str, Any] = {}
    """Options of the tool. For all tools: `env`, the environment of its commands, and `cwd`, their directory."""
    words: Sequence[str] = ()
    """Words that direct the tool's commands to the target; `_checked` finds them once for each call."""


class LanguageProvider(Provider, ABC, abstract=True):
    """Derives the functions of `language` from a core."""

    implements = LanguageInterface

    environment: ClassVar[Mapping[str, str]] = {}
    """Environment of the tool's commands."""
    parts: ClassVar[tuple[str, ...]] = ()
    """What the tool runs, reads as settings, or writes below a target, as glob patterns."""

    def __init__(self, host: ProviderHost) -> None:
        super().__init__(host)
        self._changing = asyncio.Lock()
        """One change at a time, so that each reports its own changes."""

    # -- the core ------------------------------------------------------------------------------------------------

    @abstractmethod
    async def _installed(self, where: Where) -> Versions:
        """Return the installed packages."""

    @abstractmethod
    async def _newest(self, name: str, where: Where) -> str | None:
        """Return the newest version in the index; None if the index does not have the package."""

    @abstractmethod
    async def _plan(self, pkgs: Sequence[PkgSpec], where: Where, before: Versions, *, upgrade: bool) -> Versions:
        """Return the packages that an installation would write, dependencies included.

        `before` are the installed packages.
        """

    @abstractmethod
    async def _install(self, pkgs: Sequence[PkgSpec], where: Where, before: Versions, *, upgrade: bool) -> None:
        """Install packages; `upgrade` says whether installed ones, which `before` has, are upgraded."""

    @abstractmethod
    async def _remove(self, names: Sequence[str], where: Where) -> None:
        """Remove installed packages."""

    @abstractmethod
    async def compare(self, a: str, b: str, target: str | None = None, runas: str | None = None) -> Literal[-1, 0, 1]:
        """Compare two versions by the tool's own rules."""

    @abstractmethod
    async def _places(self, where: Where) -> Sequence[str]:
        """Return the directories of the packages, and the directories above them that may not exist yet."""

    # -- what a tool may override --------------------------------------------------------------------------------

    def _key(self, name: str) -> str:
        """Return the normal form of a name, which all names of one package share."""
        return name

    async def _demand_changeable(self, where: Where, verb: str, names: Sequence[str]) -> None:
        """Raise `Permanent` if these packages must not be changed. `verb` is install, upgrade or remove."""

    def _reason(self, done: Completed) -> str:
        """Return why a command failed, in the tool's own words."""
        errors = [line.partition(":")[2].strip() for line in done.stderr.splitlines() if line.startswith("ERROR:")]
        return "; ".join(errors) or done.stderr.strip() or done.stdout.strip()

    # -- querying ------------------------------------------------------------------------------------------------

    async def list_installed(
        self, names: Sequence[str] = (), target: str | None = None, runas: str | None = None
    ) -> dict[str, list[Pkg]]:
        """Return the installed packages by name."""
        found = await self._installed(await self._checked(Where(target, runas)))
        known = {self._key(name): [Pkg(name=name, version=v) for v in found[name].split(",")] for name in found}
        wanted = [(name, self._key(name)) for name in names or found]
        return {name: known[key] for name, key in wanted if key in known}

    async def latest(
        self, names: Sequence[str], target: str | None = None, runas: str | None = None, index: str | None = None
    ) -> dict[str, str | None]:
        """Ask the index for each name."""
        where = await self._checked(Where(target, runas, index))
        return {name: await self._newest(name, where) for name in names}

    async def unmet(
        self,
        requirements: Sequence[str],
        target: str | None = None,
        runas: str | None = None,
        directory: str | None = None,
    ) -> dict[str, str]:
        """Compare names, and after an `@` exact versions, with the list of packages."""
        if directory is not None:
            raise Permanent(f"cannot look for packages in {directory}: give the directory as `target`")
        found = await self._installed(await self._checked(Where(target, runas)))
        known = {self._key(name): version for name, version in found.items()}
        unmet = {}
        for requirement in requirements:
            name, version = split_version(requirement)
            installed = known.get(self._key(name), "")
            if not installed or (version and version not in installed.split(",")):
                unmet[requirement] = installed
        return unmet

    async def watch(self, target: str | None = None, runas: str | None = None) -> Watch:
        """Watch by inotify; the steps of a change by this agent are reported once, when it has ended."""
        where = Where(target, runas)
        while True:
            places = await self._places(where)
            async with aclosing(either(self.host.watch_path(*places, recursive=True))) as events:
                async for event in events:
                    async with self._changing:
                        pass
                    yield event
                    if target not in (None, USER) and await self._places(where) != places:
                        break  # the target was created, or has another Python now

    # -- changing ------------------------------------------------------------------------------------------------

    async def install(
        self,
        pkgs: Sequence[PkgSpec],
        target: str | None = None,
        runas: str | None = None,
        index: str | None = None,
        *,
        test: bool = False,
        options: Options = None,
    ) -> ChangeSet:
        """Install in one command."""
        where = Where(target, runas, index, options or {})
        return await self._written(pkgs, where, "install", test=test) if pkgs else ChangeSet()

    async def remove(
        self,
        names: Sequence[str],
        target: str | None = None,
        runas: str | None = None,
        *,
        test: bool = False,
        options: Options = None,
    ) -> ChangeSet:
        """Remove in one command; packages that need the removed ones stay."""
        where = Where(target, runas, options=options or {})
        wanted = {self._key(name) for name in names}
        async with self._changing:
            where = await self._checked(where)
            before = await self._installed(where)
            there = [name for name in before if self._key(name) in wanted]
            if not there:
                return ChangeSet()
            await self._demand_changeable(where, "remove", there)
            if not test:
                await self._remove(there, where)
            after = await self._installed(where) if not test else {k: v for k, v in before.items() if k not in there}
            return _changed(before, after)

    async def upgrade(
        self,
        names: Sequence[str] = (),
        target: str | None = None,
        runas: str | None = None,
        index: str | None = None,
        *,
        test: bool = False,
        options: Options = None,
    ) -> ChangeSet:
        """Upgrade the packages for which the index has a newer version, in one command."""
        where = await self._checked(Where(target, runas, index, options or {}))
        wanted = {self._key(name) for name in names}
        before = await self._installed(where)
        there = {name: old for name, old in before.items() if not names or self._key(name) in wanted}
        old = [PkgSpec(name=name) for name, version in there.items() if await self._outdated(name, version, where)]
        return await self._written(old, where, "upgrade", test=test) if old else ChangeSet()

    async def _outdated(self, name: str, installed: str, where: Where) -> bool:
        """Return whether the index has a newer version of a package."""
        newest = await self._newest(name, where)
        known, *_ = installed.split(",")
        return newest is not None and await self.compare(newest, known, where.target, where.runas) > 0

    async def _written(
        self, pkgs: Sequence[PkgSpec], where: Where, verb: Literal["install", "upgrade"], *, test: bool
    ) -> ChangeSet:
        async with self._changing:
            where = await self._checked(where)
            before = await self._installed(where)
            await self._demand_changeable(where, verb, [pkg.name for pkg in pkgs])
            upgrade = verb == "upgrade"
            if test:
                return _changed(before, {**before, **await self._plan(pkgs, where, before, upgrade=upgrade)})
            await self._install(pkgs, where, before, upgrade=upgrade)
            return _changed(before, await self._installed(where))

    # -- running -------------------------------------------------------------------------------------------------

    async def _checked(self, where: Where) -> Where:
        """Return the place of a call. Raises `Permanent` for a target that is invalid or that others could change."""
        if where.runas is None and "cwd" in where.options:
            await self.host.blocking(_demand_trusted_path, where.options["cwd"])
        if where.target is None or where.target == USER:
            return where
        if not where.target.startswith("/"):
            raise Permanent(f"cannot use {where.target!r} as a target: write `user`, or an absolute path")
        if where.runas is None:
            await self.host.blocking(_demand_trusted, where.target, self.parts)
        return where

    async def _run(
        self, *argv: str, where: Where, to: str = "", shown: bool = False, stdin: str | None = None
    ) -> Completed:
        """Run a command of the tool. With `to`, a failure raises `Permanent` with the tool's reason."""
        done = await self.host.run(
            *argv,
            env={**self.environment, **where.options.get("env", {})},
            cwd=where.options.get("cwd"),
            stdin=stdin,
            user=where.runas,
            check=False,
            limit=1 << 26,
            shown=shown,
        )
        if to and done.retcode:
            raise Permanent(f"cannot {to}: {self._reason(done)}")
        return done


def split_version(requirement: str) -> tuple[str, str]:
    """Return the name and the version of `name@version`; a name may begin with an `@`."""
    name, _, version = requirement[1:].partition("@")
    return requirement[:1] + name, version


class PrintedPackage(BaseModel):
    """A package in the JSON that a tool prints."""

    name: str
    version: str


def parsed(text: str, shape: type[Shape], to: str) -> Shape:
    """Return the JSON that a tool has printed, validated by pydantic; `to` is the purpose of the command.

    Raises `Permanent` for anything else: with `runas`, the user may have replaced the tool.
    """
    try:
        return TypeAdapter(shape).validate_json(text)
    except ValidationError:
        raise Permanent(f"cannot {to}: the tool has printed something else") from None


def refuse_reinstall(tool: str, pkgs: Sequence[PkgSpec]) -> None:
    """Raise `Permanent` if a package should be installed again, for a tool that cannot do this."""
    if again := [pkg.name for pkg in pkgs if pkg.reinstall]:
        raise Permanent(f"cannot reinstall {', '.join(again)}: {tool} cannot do this; remove the package first")


def _demand_trusted(target: str, parts: Sequence[str]) -> None:
    """Raise `Permanent` if an untrusted user can change a target or a part of it.

    The tool would run that user's code as root.
    """
    _demand_trusted_path(target)
    for part in parts:
        for path in Path(target).glob(part):
            _demand_trusted_path(str(path))


def demand_trusted_paths(those: Sequence[str]) -> None:
    """Raise `Permanent` if an untrusted user can change one of these files or directories."""
    for path in those:
        _demand_trusted_path(path)


def _demand_trusted_path(path: str) -> None:
    try:
        place = paths.at(path, follow=True)
        if (info := place.look()) is not None:
            paths.demand_trusted(place, info)
    except paths.Unsafe as error:
        raise Permanent(f"cannot use {path}: {error}; set `runas` to the user that it belongs to") from None
    except FileNotFoundError:
        return
    except OSError as error:
        raise Permanent(f"cannot use {path}: {error.strerror}") from None


def _changed(before: Versions, after: Versions) -> ChangeSet:
    names = sorted({*before, *after})
    pairs = {name: (before.get(name, ""), after.get(name, "")) for name in names}
    return ChangeSet(changes={name: {"old": old, "new": new} for name, (old, new) in pairs.items() if old != new})
