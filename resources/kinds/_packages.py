"""Base of the kinds of the family `pkg`: the packages of a state, and the steps probe, change, probe."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, BeforeValidator, model_validator

from holdfast.resources.accepts import VALUE, accepts
from holdfast.resources.assignment import announced
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Resource, Uid
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import HoldfastError, Permanent, StillDiffers
from holdfast.resources.fields import Given, Text, field, parse_text
from holdfast.resources.interfaces.pkg import PkgInterface
from holdfast.resources.interfaces.results import ChangeSet
from holdfast.resources.kinds._versions import conditions
from holdfast.resources.needs import Need, needed
from holdfast.resources.traits import together

IGNORED = {
    "ignore_epoch": "epochs are part of a version",
    "ignore_types": "only for other package managers",
    "normalize": "names must be those of the package manager",
    "pkg_verify": "verifying installed files is not part of keeping a package installed",
    "report_reboot_exit_codes": "Windows only",
    "resolve_capabilities": "virtual packages are always resolved",
    "skip_suggestions": "suggestions appear only in error messages",
    "split_arch": "names must be those of the package manager",
    "watch_flags": "Gentoo only",
    "cache_valid_time": "package lists are fetched when a package is not found in them",
}


@accepts(VALUE, str, list[str | dict[str, str | None]], numbers=True)
def parse_pkgs(value: object) -> object:
    """Return one mapping of name to version or None, from a list of names and of `{name: version}`, or a mapping."""
    if isinstance(value, str):
        return {value: None}
    if isinstance(value, Mapping):
        return {parse_text(name): version for name, version in value.items()}
    if not isinstance(value, (list, tuple)):
        return value
    found: dict[object, object] = {}
    for item in value:
        if isinstance(item, (str, int, float)) and not isinstance(item, bool):
            found[parse_text(item)] = None
        elif isinstance(item, Mapping):
            found.update({parse_text(name): version for name, version in item.items()})
        else:
            quote = ": YAML reads it as a boolean; write it in quotes" if isinstance(item, bool) else ""
            raise ValueError(  # noqa: TRY004 - pydantic collects ValueErrors
                f"{item if item is None else str(item).lower()} is neither a package name nor `name: version`{quote}"
            )
    return found


def check_version(version: str | None) -> str | None:
    """Check a version. Raises `ValueError`."""
    if version is not None:
        conditions(version)
    return version


def check_versions(pkgs: dict[str, str | None] | None) -> dict[str, str | None] | None:
    """Check the versions of packages. Raises `ValueError`."""
    for version in (pkgs or {}).values():
        check_version(version)
    return pkgs


@accepts(pattern=r"[A-Za-z0-9][A-Za-z0-9+._:~-]{0,255}(?<!-)")
def demand_package(name: str) -> str:
    """Check the name of a package.

    Raises `ValueError` for text that a package manager would take for something else: a version, a pattern, or a
    request to remove the package.
    """
    if not PACKAGE.fullmatch(name):
        hint = (
            "write the version as '- version: ...'"
            if re.match(r"[\w.+-]+[=<>]", name)
            else "it has letters, digits and +._-"
        )
        raise ValueError(f"{name!r} is not the name of a package: {hint}")
    return name


PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._:~-]{0,255}(?<!-)")
Package = Annotated[Text, AfterValidator(demand_package)]
"""The name of a package."""
Versions = Annotated[dict[Package, Text | None], BeforeValidator(parse_pkgs)]
"""Name of a package -> its version."""


class Packages(Resource):
    """Base of the kinds of this family: the packages of a state, and the steps probe, change, probe."""

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("install", "change", "remove")
    concerns: ClassVar[Mapping[str, Concern]] = {"": "operation"}
    ignored: ClassVar[Mapping[str, str]] = IGNORED
    public_results: ClassVar[bool] = True
    there: ClassVar[bool | None] = True
    """Whether the packages should be installed; None if the kind does not decide this."""

    name: Given
    """The package; with `pkgs` or `sources`, only a title."""
    pkgs: Versions | None = field(None)
    """Several packages instead of that in `name`: names, or `name: version`."""

    @model_validator(mode="after")
    def _named(self) -> Self:
        if self.pkgs is None and not getattr(self, "sources", None):
            demand_package(self.name)
        return self

    @property
    def wanted(self) -> dict[str, str | None]:
        """The packages of the state -> the declared versions."""
        return self.pkgs if self.pkgs is not None else {self.name: getattr(self, "version", None)}

    @abstractmethod
    async def wrong(self, pkg: PkgInterface, apply: bool) -> dict[str, dict[str, str]]:
        """Return the packages that differ: name -> {old, new}, as far as known without a plan."""

    @abstractmethod
    async def repair(self, ctx: Context, pkg: PkgInterface, wrong: dict[str, dict[str, str]], test: bool) -> ChangeSet:
        """Change the wrong packages in one transaction; with `test`, return what this would change."""

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Probe and, with `apply`, repair; report the changes of the whole transaction, including dependencies."""
        pkg = ctx.interface(PkgInterface)
        wrong = await self.wrong(pkg, apply)
        if not wrong:
            ctx.report.comment = await self.reason(pkg)
            return True
        if apply:
            await ctx.assignment.announce()
            ctx.report.begin(lambda: self._account(ctx, pkg, wrong))
            try:
                done: ChangeSet = await together(self, ctx, wrong, lambda: self.repair(ctx, pkg, wrong, test=False))
            except HoldfastError as error:  # another package may have failed, or apt may have been killed at its end
                if await self.wrong(pkg, apply=False):
                    raise
                ctx.log.warning("the package manager failed, but these packages are as declared", why=str(error))
                done = ChangeSet(changes={})
            ctx.report.changes = {**wrong, **done.changes}
            if left := await self.wrong(pkg, apply):
                raise StillDiffers(f"still not as declared after the package manager has run: {', '.join(left)}")
            _report(ctx, applied=True)
        else:
            await self._plan(ctx, pkg, wrong)
        return False

    async def _account(self, ctx: Context, pkg: PkgInterface, wrong: dict[str, dict[str, str]]) -> None:
        """After an error, report which of these packages have changed."""
        left = await self.wrong(pkg, apply=False)
        now = {name: left[name]["old"] if name in left else was["new"] for name, was in wrong.items()}
        ctx.report.changes = {name: {**was, "new": now[name]} for name, was in wrong.items() if now[name] != was["old"]}
        _report(ctx, applied=True)

    async def _plan(self, ctx: Context, pkg: PkgInterface, wrong: dict[str, dict[str, str]]) -> None:
        """Report what the package manager would change.

        Its refusal is only noted, because an earlier state may add the repository.
        """
        planned, doubt = {}, ""
        try:
            planned = (await self.repair(ctx, pkg, wrong, test=True)).changes
        except Permanent as error:
            doubt = f"; at present this would fail: {error}"
        ctx.report.changes = {**wrong, **planned}
        _report(ctx, applied=False, doubt=doubt)

    async def reason(self, pkg: PkgInterface) -> str:
        """Return why no change was needed."""
        found = await pkg.list_installed(list(self.wanted))
        return "; ".join(f"{name} {', '.join(p.version for p in pkgs)} is installed" for name, pkgs in found.items())

    def needs(self) -> tuple[Need, ...]:
        """Return the functions that query and watch the packages; kinds add more."""
        compares = any(self.wanted.values())
        return needed(PkgInterface, "list_installed", "watch", *(["compare"] if compares else []))

    def watch(self, ctx: Context) -> Watch:
        """Watch the database of the package manager for these packages."""
        pkg = ctx.interface(PkgInterface)
        return pkg.watch(list(self.wanted))

    def uids(self) -> tuple[Uid, ...]:
        """Return the uids of the packages."""
        return tuple(("pkg", name) for name in self.wanted)

    def contradicts(self, other: Resource) -> str | None:
        """Return the contradiction: only one of the states wants a package, or both want different versions.

        See `Resource.contradicts`.
        """
        if not isinstance(other, Packages) or self.there is None or other.there is None:
            return None
        both = [(name, version, other.wanted[name]) for name, version in self.wanted.items() if name in other.wanted]
        if self.there is other.there:
            return _different_version(both) if self.there else None
        # one state may remove a version while another wants a different version
        clash = any(mine == theirs or not (theirs if self.there else mine) for _, mine, theirs in both)
        return f"one is {self.kind}, the other {other.kind}" if clash else None


def _different_version(both: Iterable[tuple[str, str | None, str | None]]) -> str | None:
    """Return the first package for which two states want different versions, as a message."""
    for name, mine, theirs in both:
        if mine and theirs and mine != theirs:
            return f"version {mine} of {name} is not {theirs}"
    return None


def _report(ctx: Context, *, applied: bool, doubt: str = "") -> None:
    """Report the effect of the changes and one sentence that names each change."""
    effects = [_effect(name, **change) for name, change in ctx.report.changes.items()]
    if not effects:
        return
    verbs = tuple(dict.fromkeys(verb for effect in effects for verb in effect.verbs))
    if len(verbs) == 1:
        ctx.report.did(Effect(verbs, ", ".join(each.what for each in effects), detail=doubt), applied=applied)
    else:
        ctx.report.did(Effect(verbs, f"{len(effects)} packages", detail=doubt), applied=applied)
        ctx.report.comment = "; ".join(each.sentence(applied=applied) for each in effects) + doubt


def _effect(name: str, old: str, new: str) -> Effect:
    """Return the effect on one package."""
    if "hold" in (old, new):
        return Effect(("hold" if new else "release",), name)
    if not old or not new:
        version = f" {new}" if new not in ("", "installed") else ""
        return Effect(("remove" if not new else "install",), f"{name}{version}")
    return Effect(("change",), f"{name} {old} -> {new}")
