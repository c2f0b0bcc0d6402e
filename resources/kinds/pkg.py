"""Packages: installed, at their newest version, removed, purged or held."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, field_validator

from holdfast.resources import paths
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Uid
from holdfast.resources.dependencies import REPOSITORIES, Dependency
from holdfast.resources.effects import EffectVerb
from holdfast.resources.fields import Text, field
from holdfast.resources.interfaces.pkg import PkgInterface
from holdfast.resources.interfaces.results import ChangeSet, PkgSpec
from holdfast.resources.kinds._packages import IGNORED, Packages, check_version, check_versions, parse_pkgs
from holdfast.resources.kinds._versions import choose, exact, satisfied
from holdfast.resources.kinds.file.base import os_errors
from holdfast.resources.needs import Need, needed
from holdfast.resources.traits import Edgeable, Groupable, Member

FROM_REPOSITORIES = Dependency(REPOSITORIES, "", vital=False, every=True)


class Installing(Edgeable, Groupable, Packages):
    """Base of the kinds that install packages, with the options of an installation.

    States with equal options are installed in one transaction.
    """

    refresh: bool | None = field(None)
    """Fetch the package lists before installing. Default: only if a package is not found in them."""
    fromrepo: str | None = field(None)
    """Release or repository to prefer."""
    skip_verify: bool = field(False)
    """Accept unsigned packages."""
    install_recommends: bool | None = field(None)
    """Install recommended packages, too. Default: according to the configuration of the package manager."""
    only_upgrade: bool = field(False)
    """Only upgrade installed packages."""
    update_holds: bool = field(False)
    """Change packages even if they are on hold."""
    hold: bool | None = field(None)
    """Put the packages on hold afterwards; false releases them."""

    def offers(self) -> tuple[Uid, ...]:
        """Return the packages, without their architecture."""
        return tuple([("pkg", name.partition(":")[0]) for name in self.wanted])

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the repositories, which all come first, and the answers to questions of the packages."""
        answers = [Dependency("debconf", name.partition(":")[0], vital=False, every=True) for name in self.wanted]
        return (FROM_REPOSITORIES, *answers)

    def needs(self) -> tuple[Need, ...]:
        """Add the installation, and what `hold` needs."""
        holding = () if self.hold is None else ("holds", "hold" if self.hold else "unhold")
        return super().needs() + needed(PkgInterface, "latest", "install", *holding)

    @property
    def options(self) -> dict[str, Any]:
        """Options for the provider, in addition to names and versions."""
        return {
            name: getattr(self, name)
            for name in ("fromrepo", "skip_verify", "install_recommends", "only_upgrade", "update_holds")
        }

    def group(self) -> Hashable:
        """Return the options: packages with equal options are installed together."""
        return (self.refresh, self.hold, *self.options.items())

    @abstractmethod
    async def specs(self, ctx: Context, pkg: PkgInterface, wrong: dict[str, dict[str, str]]) -> list[PkgSpec]:
        """Return the packages and versions to request from the package manager."""

    async def repair(self, ctx: Context, pkg: PkgInterface, wrong: dict[str, dict[str, str]], test: bool) -> ChangeSet:
        """Install or upgrade the wrong packages."""
        return await self.install(pkg, await self.specs(ctx, pkg, wrong), list(self.wanted), test)

    @classmethod
    async def apply_together(cls, members: Sequence[Member]) -> list[ChangeSet]:
        """Install the missing packages of all members in one transaction."""
        first, pkg = members[0].resource, members[0].ctx.interface(PkgInterface)
        asked = [spec for member in members for spec in await member.resource.specs(member.ctx, pkg, member.work)]
        specs = list(
            {
                spec.name: spec for spec in sorted(asked, key=lambda spec: (spec.version or "", spec.source or ""))
            }.values()
        )
        names = list(dict.fromkeys(name for member in members for name in member.resource.wanted))
        return divide(
            await first.install(pkg, specs, names, test=False), [member.resource.wanted for member in members]
        )

    async def wrong_holds(self, pkg: PkgInterface) -> dict[str, dict[str, str]]:
        """Return the packages that should not be on hold but are, and those that should be but are not."""
        if self.hold is None:
            return {}
        held = await pkg.holds()
        words = ("", "hold") if self.hold else ("hold", "")
        return {name: {"old": words[0], "new": words[1]} for name in self.wanted if (name in held) is not self.hold}

    async def install(self, pkg: PkgInterface, specs: list[PkgSpec], names: list[str], test: bool) -> ChangeSet:
        """Install, then hold or release all these names."""
        changes: dict[str, dict[str, Any]] = {}
        if specs:
            changes |= (await pkg.install(specs, self.refresh, test=test, options=self.options)).changes
        if self.hold is not None:
            mark = pkg.hold if self.hold else pkg.unhold
            changes = {**(await mark(names, test=test)).changes, **changes}
        return ChangeSet(changes=changes)


class Installed(Installing, kind="pkg.installed"):
    """Packages are installed, at the declared version if there is one.

    nginx:
      pkg.installed

    web tools:
      pkg.installed:
        - pkgs:
            - curl
            - jq: '>=1.6'
    """

    version: Text | None = field(None)
    """Exactly this version, a pattern (`1.2*`) or conditions (`>=1.2,<2`); `latest` follows the candidate."""
    sources: Annotated[dict[str, str], BeforeValidator(parse_pkgs)] | None = field(None)
    """Package files instead of repositories: `name: path or URL`."""
    allow_updates: bool = field(False)
    """Accept a newer version than the declared one."""
    reinstall: bool = field(False)
    """If another version is installed, reinstall the package even if its files would not change."""

    @field_validator("version")
    @classmethod
    def _version(cls, version: str | None) -> str | None:
        return check_version(version)

    @field_validator("pkgs")
    @classmethod
    def _pkgs(cls, pkgs: dict[str, str | None] | None) -> dict[str, str | None] | None:
        return check_versions(pkgs)

    @property
    def wanted(self) -> dict[str, str | None]:
        """The packages, from the argument that lists them."""
        return dict.fromkeys(self.sources) if self.sources else super().wanted

    def needs(self) -> tuple[Need, ...]:
        """Add the search for versions that fit a condition."""
        conditions = [version for version in self.wanted.values() if version not in (None, "latest")]
        search = needed(PkgInterface, "available") if any(not exact(version) for version in conditions) else ()
        return super().needs() + search

    def dependencies(self) -> tuple[Dependency, ...]:
        """Also return the package files on this host."""
        files = [Dependency("path", source) for source in (self.sources or {}).values() if source.startswith("/")]
        return (*super().dependencies(), *files)

    async def wrong(self, pkg: PkgInterface, apply: bool) -> dict[str, dict[str, str]]:
        """Return the packages that are missing or have another version."""
        installed = await pkg.list_installed(list(self.wanted))
        newest = await pkg.latest([name for name, version in self.wanted.items() if version == "latest"])
        found = {}
        for name, version in self.wanted.items():
            have = [p.version for p in installed.get(name, ())]
            want = newest.get(name) if version == "latest" else version
            if not have or (want and not await self._right(pkg, have, want)):
                found[name] = {"old": ",".join(have), "new": want or "installed"}
        return {**await self.wrong_holds(pkg), **found}

    async def _right(self, pkg: PkgInterface, have: list[str], want: str) -> bool:
        if self.allow_updates and exact(want):
            want = f">={want}"
        return all([await satisfied(pkg, version, want) for version in have])

    async def specs(self, ctx: Context, pkg: PkgInterface, wrong: dict[str, dict[str, str]]) -> list[PkgSpec]:
        """Return the wrong packages, each with a matching version."""
        holds = (await self.wrong_holds(pkg)).items()
        return [await self._spec(ctx, pkg, name) for name, change in wrong.items() if (name, change) not in holds]

    async def _spec(self, ctx: Context, pkg: PkgInterface, name: str) -> PkgSpec:
        version = self.wanted[name]
        if self.sources:
            return PkgSpec(name=name, source=await fetch(ctx, name, self.sources[name]))
        if version is not None and version != "latest" and not exact(version):
            version = await choose(pkg, name, version, (await pkg.available([name]))[name])
        return PkgSpec(name=name, version=None if version == "latest" else version, reinstall=self.reinstall)


class Latest(Installing, kind="pkg.latest"):
    """Packages are installed at the newest version that the repositories offer.

    openssl:
      pkg.latest
    """

    def needs(self) -> tuple[Need, ...]:
        """Add the comparison with the candidates."""
        return super().needs() + needed(PkgInterface, "compare")

    async def wrong(self, pkg: PkgInterface, apply: bool) -> dict[str, dict[str, str]]:
        """Return the packages that are missing or older than the candidate.

        With `apply`, old package lists are fetched again first.
        """
        names = list(self.wanted)
        newest = await pkg.latest(names, refresh=apply and self.refresh is not False)
        installed = await pkg.list_installed(names)
        found = {}
        for name in names:
            have, candidate = [p.version for p in installed.get(name, ())], newest.get(name)
            if not have or (candidate and not all([await pkg.compare(version, candidate) >= 0 for version in have])):
                found[name] = {"old": ",".join(have), "new": candidate or "installed"}
        return {**await self.wrong_holds(pkg), **found}

    async def specs(self, ctx: Context, pkg: PkgInterface, wrong: dict[str, dict[str, str]]) -> list[PkgSpec]:
        """Return the wrong packages."""
        holds = (await self.wrong_holds(pkg)).items()
        return [PkgSpec(name=name) for name, change in wrong.items() if (name, change) not in holds]

    def watch(self, ctx: Context) -> Watch:
        """Watch the database of the package manager and the package lists."""
        pkg = ctx.interface(PkgInterface)
        return pkg.watch(list(self.wanted), catalogue=True)


class Removed(Groupable, Packages, kind="pkg.removed"):
    """Packages are not installed; their configuration files may stay.

    telnet:
      pkg.removed
    """

    there: ClassVar[bool | None] = False
    purge: ClassVar[bool] = False

    version: Text | None = field(None)
    """Remove only this version, or versions that match a pattern (`1.2*`) or meet conditions (`>=1.2,<2`)."""

    @field_validator("version")
    @classmethod
    def _version(cls, version: str | None) -> str | None:
        return check_version(version)

    @field_validator("pkgs")
    @classmethod
    def _pkgs(cls, pkgs: dict[str, str | None] | None) -> dict[str, str | None] | None:
        return check_versions(pkgs)

    def needs(self) -> tuple[Need, ...]:
        """Add the removal."""
        return super().needs() + needed(PkgInterface, "remove")

    def group(self) -> Hashable:
        """Return the key of the batch: all removals are one batch."""
        return self.purge

    @classmethod
    async def apply_together(cls, members: Sequence[Member]) -> list[ChangeSet]:
        """Remove the packages of all members in one transaction."""
        pkg = members[0].ctx.interface(PkgInterface)
        names = list(dict.fromkeys(name for member in members for name in member.work))
        return divide(await pkg.remove(names, cls.purge, test=False), [member.work for member in members])

    async def wrong(self, pkg: PkgInterface, apply: bool) -> dict[str, dict[str, str]]:
        """Return the packages that are installed under this name, at a version to remove.

        A package that another package provides does not count.
        """
        installed = await pkg.list_installed(list(self.wanted))
        return {
            name: {"old": ",".join(p.version for p in found), "new": ""}
            for name, found in installed.items()
            if any([p.name == name.partition(":")[0] and await self._meant(pkg, name, p.version) for p in found])
        }

    async def _meant(self, pkg: PkgInterface, name: str, version: str) -> bool:
        wanted = self.wanted[name]
        return wanted is None or await satisfied(pkg, version, wanted)

    async def repair(self, ctx: Context, pkg: PkgInterface, wrong: dict[str, dict[str, str]], test: bool) -> ChangeSet:
        """Remove the installed packages."""
        return await pkg.remove(list(wrong), self.purge, test=test)

    async def reason(self, pkg: PkgInterface) -> str:
        """Return why no change was needed."""
        names = [f"{name} {version}" if version else name for name, version in self.wanted.items()]
        return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not installed"


class Purged(Removed, kind="pkg.purged"):
    """Packages are not installed, and none of their configuration files is left.

    If the package manager keeps no record of such files, this is the same as `pkg.removed`.

    exim4-base:
      pkg.purged
    """

    purge: ClassVar[bool] = True

    async def wrong(self, pkg: PkgInterface, apply: bool) -> dict[str, dict[str, str]]:
        """Return the packages that are installed or have configuration files left."""
        left = await pkg.residual(list(self.wanted)) if pkg.has("residual") else []
        return {**{name: {"old": "configuration", "new": ""} for name in left}, **await super().wrong(pkg, apply)}


class Held(Packages, kind="pkg.held"):
    """Packages are on hold: they keep their version.

    database:
      pkg.held:
        - pkgs: [postgresql, postgresql-client]
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("hold", "release")
    there: ClassVar[bool | None] = None
    ignored: ClassVar[Mapping[str, str]] = {**IGNORED, "version": "a package is held at its present version"}

    replace: bool = field(False)
    """Release all other packages from hold."""

    def needs(self) -> tuple[Need, ...]:
        """Add the functions for holds."""
        return super().needs() + needed(PkgInterface, "holds", "hold", "unhold")

    async def wrong(self, pkg: PkgInterface, apply: bool) -> dict[str, dict[str, str]]:
        """Return the packages that are not on hold but should be and, with `replace`, the reverse."""
        held = await pkg.holds()
        others = [name for name in held if name not in self.wanted] if self.replace else []
        missing = {name: {"old": "", "new": "hold"} for name in self.wanted if name not in held}
        return {**missing, **{name: {"old": "hold", "new": ""} for name in others}}

    def watch(self, ctx: Context) -> Watch:
        """Watch the database for these packages; with `replace`, for all packages."""
        pkg = ctx.interface(PkgInterface)
        return pkg.watch() if self.replace else super().watch(ctx)

    async def repair(self, ctx: Context, pkg: PkgInterface, wrong: dict[str, dict[str, str]], test: bool) -> ChangeSet:
        """Put the packages on hold, and release the others."""
        held = await pkg.hold([name for name, change in wrong.items() if change["new"]], test=test)
        freed = await pkg.unhold([name for name, change in wrong.items() if not change["new"]], test=test)
        return ChangeSet(changes={**held.changes, **freed.changes})

    async def reason(self, pkg: PkgInterface) -> str:
        """Return why no change was needed."""
        return f"{', '.join(self.wanted)} {'is' if len(self.wanted) == 1 else 'are'} already on hold"


ENDINGS = (".rpm", ".apk", ".zst", ".xz")
"""Suffixes that a fetched package file keeps, because its package manager distinguishes files from names by them."""


async def fetch(ctx: Context, name: str, url: str) -> str:
    """Return the path of a package file; fetch a remote file into the resource's own directory.

    Raises `Permanent` for a file that another user could write, because the scripts of a package run as root.
    """
    if url.startswith("/"):
        await ctx.blocking(demand_trusted_file, url)
        return url
    ending = next((ending for ending in ENDINGS if url.partition("?")[0].endswith(ending)), ".deb")
    path = ctx.var_dir / f"{name}{ending}"
    data = await ctx.source(url, trusted=True)
    await ctx.write_file(str(path), data, mode=0o600, touches=False)
    return str(path)


def demand_trusted_file(path: str) -> None:
    """Raise `Permanent` unless only root could have written the file. Blocks."""
    with os_errors("install", path):
        place = paths.at(path, follow=True)
        _, info = place.open()
    paths.demand_trusted(place, info)


def divide(done: ChangeSet, names: Sequence[Iterable[str]]) -> list[ChangeSet]:
    """Divide the changes of one transaction by the names of each member.

    Other packages count for the first member.
    """
    left = dict(done.changes)
    own = [{name: left.pop(name) for name in each if name in left} for each in names]
    own[0] |= left
    return [ChangeSet(changes=changes) for changes in own]
