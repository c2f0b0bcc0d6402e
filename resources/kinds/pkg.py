"""Packages: installed, at their newest version, removed, purged, held.

nginx:
  pkg.installed: []
tools:
  pkg.installed:
    - pkgs: [jq, curl: '>=7.88']
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, field_validator

from holdfast.resources import paths
from holdfast.resources.context import Context, Watch, announced
from holdfast.resources.contract import Resource, Uid
from holdfast.resources.errors import HoldfastError, Permanent, passing_or_not
from holdfast.resources.fields import Text, field
from holdfast.resources.interfaces.pkg import PkgInterface
from holdfast.resources.interfaces.results import ChangeSet, PkgSpec
from holdfast.resources.kinds._versions import choose, conditions, exact, satisfied
from holdfast.resources.needs import Need
from holdfast.resources.paths.handle import acl_of
from holdfast.resources.traits import Edgeable, Groupable, Member, together

IGNORED = {
    "ignore_epoch": "epochs are part of a version",
    "ignore_types": "it belongs to other package managers",
    "normalize": "names are taken as the package manager writes them",
    "pkg_verify": "verifying installed files is not part of keeping a package installed",
    "report_reboot_exit_codes": "it belongs to Windows",
    "resolve_capabilities": "virtual packages are always resolved",
    "skip_suggestions": "suggestions are only made in error messages",
    "split_arch": "names are taken as the package manager writes them",
    "watch_flags": "it belongs to Gentoo",
    "cache_valid_time": "lists of packages are fetched when something is not found in them",
}


def parse_pkgs(value: object) -> object:
    """A list of names and of `{name: version}`, or a mapping, as one mapping of name to version or None."""
    if isinstance(value, str):
        return {value: None}
    if not isinstance(value, (list, tuple)):
        return value
    found: dict[object, object] = {}
    for item in value:
        if isinstance(item, (str, int, float)) and not isinstance(item, bool):
            found[str(item)] = None
        elif isinstance(item, Mapping):
            found.update(item)
        else:
            raise ValueError(f"{item!r} is neither a package's name nor `name: version`")  # noqa: TRY004 - pydantic collects ValueErrors
    return found


def check_version(version: str | None) -> str | None:
    """Refuse what is not a version, early."""
    if version is not None:
        conditions(version)
    return version


def check_versions(pkgs: dict[str, str | None] | None) -> dict[str, str | None] | None:
    """Refuse packages with what is not a version, early."""
    for version in (pkgs or {}).values():
        check_version(version)
    return pkgs


Versions = Annotated[dict[str, Text | None], BeforeValidator(parse_pkgs)]
"""Packages by name, each with what its version must be."""


class Packages(Resource):
    """What the kinds of this family share: which packages, and looking, changing, looking again."""

    ignored: ClassVar[Mapping[str, str]] = IGNORED

    pkgs: Versions | None = field(None)
    """Several packages instead of the one that `name` says: names, or `name: version`."""

    @property
    def wanted(self) -> dict[str, str | None]:
        """The packages it is about, with what is said of their versions."""
        return self.pkgs if self.pkgs is not None else {self.name: getattr(self, "version", None)}

    async def wrong(self, pkg: PkgInterface, apply: bool) -> dict[str, dict[str, str]]:
        """The packages that are not as they should be: name -> {old, new} as far as is known without a plan."""
        raise NotImplementedError

    async def put_right(self, ctx: Context, pkg: PkgInterface, wrong: dict[str, dict[str, str]], test: bool) -> ChangeSet:
        """Change the packages that are wrong, in one transaction, or with `test` say what that would change."""
        raise NotImplementedError

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Look, and with `apply` put right; the changes are those of the whole transaction, dependencies included."""
        pkg: PkgInterface = ctx.interface("pkg")
        wrong = await self.wrong(pkg, apply)
        if not wrong:
            ctx.report.comment = await self.reason(pkg)
            return True
        if apply:
            await ctx.report.announce()
            ctx.report.touched = True
            try:
                done: ChangeSet = await together(self, ctx, wrong, lambda: self.put_right(ctx, pkg, wrong, test=False))
            except HoldfastError as error:
                await self._account(ctx, pkg, wrong, error)
                return False
            ctx.report.changes = {**wrong, **done.changes}
            if left := await self.wrong(pkg, apply):
                raise Permanent(f"still not right after the package manager has run: {', '.join(left)}")
            ctx.report.comment = sentence(ctx.report.changes, done=True)
        else:
            await self._plan(ctx, pkg, wrong)
        return False

    async def _account(self, ctx: Context, pkg: PkgInterface, wrong: dict[str, dict[str, str]], error: HoldfastError) -> None:
        """Report what a run of the package manager that failed has changed all the same; raise its error unless that was everything.

        It fails for the sake of other packages, too, and may be killed when its work is done.
        """
        left = await self.wrong(pkg, apply=False)
        changed = {name: {**was, "new": left[name]["old"] if name in left else was["new"]} for name, was in wrong.items()}
        ctx.report.changes = {name: change for name, change in changed.items() if left.get(name) != wrong[name]}
        ctx.report.comment = sentence(ctx.report.changes, done=True)
        if left:
            raise error
        ctx.log.warning("the package manager failed, but this is right", why=str(error))

    async def _plan(self, ctx: Context, pkg: PkgInterface, wrong: dict[str, dict[str, str]]) -> None:
        """Report what the package manager would change. It may not know yet, for want of a repository that another state adds."""
        planned, doubt = {}, ""
        try:
            planned = (await self.put_right(ctx, pkg, wrong, test=True)).changes
        except Permanent as error:
            doubt = f"; as things are now this would fail: {error}"
        ctx.report.changes = {**wrong, **planned}
        ctx.report.comment = sentence(ctx.report.changes, done=False) + doubt

    async def reason(self, pkg: PkgInterface) -> str:
        """Why nothing had to be done."""
        found = await pkg.list_installed(list(self.wanted))
        return "; ".join(f"{name} {', '.join(p.version for p in pkgs)} is installed" for name, pkgs in found.items())

    def watch(self, ctx: Context) -> Watch:
        """What the package manager's database knows of them."""
        pkg: PkgInterface = ctx.interface("pkg")
        return pkg.watch(list(self.wanted))

    def uids(self) -> tuple[Uid, ...]:
        """The packages."""
        return tuple(("pkg", name) for name in self.wanted)

    def contradicts(self, other: Resource) -> str | None:
        """One wants a package that the other wants gone, or both want it at different versions."""
        if not isinstance(other, Packages) or isinstance(self, Held) or isinstance(other, Held):
            return None
        both = [(name, version, other.wanted[name]) for name, version in self.wanted.items() if name in other.wanted]
        if isinstance(self, Removed) or isinstance(other, Removed):
            gone = isinstance(self, Removed) is not isinstance(other, Removed)
            # where one version of it is not to be there, another may
            clash = gone and any(mine == theirs or not (mine if isinstance(self, Removed) else theirs) for _, mine, theirs in both)
            return f"one is {self.kind}, the other {other.kind}" if clash else None
        different = (f"version {mine} of {name} is not {theirs}" for name, mine, theirs in both if mine and theirs and mine != theirs)
        return next(different, None)


class Installing(Edgeable, Groupable, Packages):
    """What the kinds that install share: where from and how. Several that want the same of the package manager are one transaction."""

    refresh: bool | None = field(None)
    """Fetch the lists of packages before installing; by default when something is not found in them."""
    fromrepo: str | None = field(None)
    """Release or repository to prefer."""
    skip_verify: bool = field(False)
    """Accept packages that are not signed."""
    install_recommends: bool | None = field(None)
    """Install recommended packages too; by default as the package manager is configured."""
    only_upgrade: bool = field(False)
    """Install nothing that is not installed already."""
    update_holds: bool = field(False)
    """Change packages although they are on hold."""
    hold: bool | None = field(None)
    """Keep them at their version afterwards; false lets them go."""

    def offers(self) -> tuple[Uid, ...]:
        """The packages, whatever their architecture."""
        return tuple([("pkg", name.partition(":")[0]) for name in self.wanted])

    @property
    def options(self) -> dict[str, Any]:
        """What the provider is told besides names and versions."""
        return {name: getattr(self, name) for name in ("fromrepo", "skip_verify", "install_recommends", "only_upgrade", "update_holds")}

    def group(self) -> Hashable:
        """Those that are installed in the same way."""
        return (self.refresh, self.hold, *self.options.items())

    async def specs(self, ctx: Context, pkg: PkgInterface, wrong: dict[str, dict[str, str]]) -> list[PkgSpec]:
        """What to ask the package manager for."""
        raise NotImplementedError

    async def put_right(self, ctx: Context, pkg: PkgInterface, wrong: dict[str, dict[str, str]], test: bool) -> ChangeSet:
        """Install or upgrade those that are wrong."""
        return await self.install(pkg, await self.specs(ctx, pkg, wrong), list(self.wanted), test)

    @classmethod
    async def apply_together(cls, members: Sequence[Member]) -> list[ChangeSet]:
        """Install what all of them miss in one transaction."""
        first, pkg = members[0].resource, members[0].ctx.interface("pkg")
        asked = [spec for member in members for spec in await member.resource.specs(member.ctx, pkg, member.work)]
        specs = list({spec.name: spec for spec in sorted(asked, key=lambda spec: (spec.version or "", spec.source or ""))}.values())
        names = list(dict.fromkeys(name for member in members for name in member.resource.wanted))
        return divided(await first.install(pkg, specs, names, test=False), [member.resource.wanted for member in members])

    async def wrong_holds(self, pkg: PkgInterface) -> dict[str, dict[str, str]]:
        """Packages that are on hold and should not be, or the other way round."""
        if self.hold is None:
            return {}
        held = await pkg.holds()
        words = ("", "hold") if self.hold else ("hold", "")
        return {name: {"old": words[0], "new": words[1]} for name in self.wanted if (name in held) is not self.hold}

    async def install(self, pkg: PkgInterface, specs: list[PkgSpec], names: list[str], test: bool) -> ChangeSet:
        """Install, then hold or let go of all these names."""
        changes: dict[str, dict[str, Any]] = {}
        if specs:
            changes |= (await pkg.install(specs, self.refresh, test=test, options=self.options)).changes
        if self.hold is not None:
            mark = pkg.hold if self.hold else pkg.unhold
            changes = {**(await mark(names, test=test)).changes, **changes}
        return ChangeSet(changes=changes)


class Installed(Installing, kind="pkg.installed"):
    """Packages are installed, at the version that is asked for if any."""

    version: Text | None = field(None)
    """Exactly this version, a pattern (`1.2*`) or conditions (`>=1.2,<2`); `latest` follows the candidate."""
    sources: Annotated[dict[str, str], BeforeValidator(parse_pkgs)] | None = field(None)
    """Package files instead of repositories: `name: path or URL`."""
    allow_updates: bool = field(False)
    """A newer version than the one asked for is right, too."""
    reinstall: bool = field(False)
    """When it is installed at another version than asked for, install it again even if the files would stay."""

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
        """The packages, from whichever argument names them."""
        return dict.fromkeys(self.sources) if self.sources else super().wanted

    def needs(self) -> tuple[Need, ...]:
        """Package files on this host."""
        return tuple([Need("path", source) for source in (self.sources or {}).values() if source.startswith("/")])

    async def wrong(self, pkg: PkgInterface, apply: bool) -> dict[str, dict[str, str]]:
        """Packages that are missing or at a version that is not wanted."""
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
        """Those that are wrong, each at a version that is wanted."""
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
    """Packages are installed at the newest version that the repositories offer."""

    async def wrong(self, pkg: PkgInterface, apply: bool) -> dict[str, dict[str, str]]:
        """Packages that are missing or older than the candidate. Unless only looking, the lists are fetched when they are old."""
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
        """Those that are wrong."""
        holds = (await self.wrong_holds(pkg)).items()
        return [PkgSpec(name=name) for name, change in wrong.items() if (name, change) not in holds]

    def watch(self, ctx: Context) -> Watch:
        """The package manager's database, and the lists of the repositories."""
        pkg: PkgInterface = ctx.interface("pkg")
        return pkg.watch(list(self.wanted), catalogue=True)


class Removed(Groupable, Packages, kind="pkg.removed"):
    """Packages are not installed; their configuration files may stay."""

    purge: ClassVar[bool] = False

    version: Text | None = field(None)
    """Only if it is installed at this version, one of a pattern (`1.2*`) or one under conditions (`>=1.2,<2`)."""

    @field_validator("version")
    @classmethod
    def _version(cls, version: str | None) -> str | None:
        return check_version(version)

    @field_validator("pkgs")
    @classmethod
    def _pkgs(cls, pkgs: dict[str, str | None] | None) -> dict[str, str | None] | None:
        return check_versions(pkgs)

    def group(self) -> Hashable:
        """All of them."""
        return self.purge

    @classmethod
    async def apply_together(cls, members: Sequence[Member]) -> list[ChangeSet]:
        """Remove all in one transaction."""
        pkg: PkgInterface = members[0].ctx.interface("pkg")
        names = list(dict.fromkeys(name for member in members for name in member.work))
        return divided(await pkg.remove(names, cls.purge, test=False), [member.work for member in members])

    async def wrong(self, pkg: PkgInterface, apply: bool) -> dict[str, dict[str, str]]:
        """Packages that are installed under this very name, at a version that is meant: one that another provides does not count."""
        installed = await pkg.list_installed(list(self.wanted))
        return {
            name: {"old": ",".join(p.version for p in found), "new": ""}
            for name, found in installed.items()
            if any([p.name == name.partition(":")[0] and await self._meant(pkg, name, p.version) for p in found])
        }

    async def _meant(self, pkg: PkgInterface, name: str, version: str) -> bool:
        wanted = self.wanted[name]
        return wanted is None or await satisfied(pkg, version, wanted)

    async def put_right(self, ctx: Context, pkg: PkgInterface, wrong: dict[str, dict[str, str]], test: bool) -> ChangeSet:
        """Remove those that are there."""
        return await pkg.remove(list(wrong), self.purge, test=test)

    async def reason(self, pkg: PkgInterface) -> str:
        """Why nothing had to be done."""
        names = [f"{name} {version}" if version else name for name, version in self.wanted.items()]
        return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not installed"


class Purged(Removed, kind="pkg.purged"):
    """Packages are not installed, and left no configuration files behind."""

    purge: ClassVar[bool] = True

    async def wrong(self, pkg: PkgInterface, apply: bool) -> dict[str, dict[str, str]]:
        """Packages that are installed or left something behind."""
        left = await pkg.residual(list(self.wanted))
        return {**{name: {"old": "configuration", "new": ""} for name in left}, **await super().wrong(pkg, apply)}


class Held(Packages, kind="pkg.held"):
    """Packages stay at the version they have."""

    ignored: ClassVar[Mapping[str, str]] = {**IGNORED, "version": "a package is held at the version that it has"}

    replace: bool = field(False)
    """Let go of all other packages: only these are on hold."""

    async def wrong(self, pkg: PkgInterface, apply: bool) -> dict[str, dict[str, str]]:
        """Packages that are not on hold, and those that should not be."""
        held = await pkg.holds()
        others = [name for name in held if name not in self.wanted] if self.replace else []
        missing = {name: {"old": "", "new": "hold"} for name in self.wanted if name not in held}
        return {**missing, **{name: {"old": "hold", "new": ""} for name in others}}

    def watch(self, ctx: Context) -> Watch:
        """What the database knows of them; with `replace`, of all."""
        pkg: PkgInterface = ctx.interface("pkg")
        return pkg.watch() if self.replace else super().watch(ctx)

    async def put_right(self, ctx: Context, pkg: PkgInterface, wrong: dict[str, dict[str, str]], test: bool) -> ChangeSet:
        """Put them on hold, and let go of the others."""
        held = await pkg.hold([name for name, change in wrong.items() if change["new"]], test=test)
        freed = await pkg.unhold([name for name, change in wrong.items() if not change["new"]], test=test)
        return ChangeSet(changes={**held.changes, **freed.changes})

    async def reason(self, pkg: PkgInterface) -> str:
        """Why nothing had to be done."""
        return f"{', '.join(self.wanted)} on hold already"


async def fetch(ctx: Context, name: str, url: str) -> str:
    """The path of a package file: as it is, or kept in the resource's own directory when it has to be fetched.

    Its scripts run as root. Raises `Permanent` for a file that another user could write.
    """
    if url.startswith("/"):
        await ctx.blocking(demand_trusted_file, url)
        return url
    path = ctx.var_dir / f"{name}.deb"
    data = await ctx.source(url, trusted=True)
    await ctx.write_file(str(path), data, mode=0o600)
    return str(path)


def demand_trusted_file(path: str) -> None:
    """Raise `Permanent` unless only root could have written what is at a path. Blocks."""
    try:
        place = paths.at(path, follow=True)
        handle, info = place.open()
    except OSError as error:
        raise passing_or_not(f"cannot install {path}: {(error.strerror or str(error)).lower()}", error) from None
    paths.demand_trusted(place, info, acl_of(handle))


def sentence(changes: Mapping[str, Mapping[str, str]], *, done: bool) -> str:
    """What was changed, or would be, in words."""
    words = []
    for name, change in changes.items():
        old, new = change["old"], change["new"]
        verb = "hold" if "hold" in (old, new) else "install" if not old else "remove" if not new else "change"
        verb = "let go" if verb == "hold" and not new else verb
        past = {"hold": "held", "install": "installed", "remove": "removed", "change": "changed", "let go": "let go"}[verb]
        versions = f" {old} -> {new}" if verb == "change" else f" {new}" if verb == "install" and new != "installed" else ""
        words.append(f"{past if done else f'would {verb}'} {name}{versions}")
    return "; ".join(words)


def divided(done: ChangeSet, names: Sequence[Iterable[str]]) -> list[ChangeSet]:
    """What one transaction changed, for each of those whose names these are; what came along with it counts as the first one's."""
    left = dict(done.changes)
    own = [{name: left.pop(name) for name in each if name in left} for each in names]
    own[0] |= left
    return [ChangeSet(changes=changes) for changes in own]
