"""Bases of the kinds of pip: the environment, the user and the requirements."""

from __future__ import annotations

import posixpath
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, BeforeValidator, field_validator, model_validator

from holdfast.resources.accepts import accepts
from holdfast.resources.assignment import announced
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Concern, Resource
from holdfast.resources.dependencies import Dependency, owned_by
from holdfast.resources.effects import Effect
from holdfast.resources.errors import Permanent, StillDiffers
from holdfast.resources.fields import AbsPath, Text, Texts, field, parse_list
from holdfast.resources.interfaces.language import LanguageInterface
from holdfast.resources.interfaces.results import ChangeSet, Pkg, PkgSpec
from holdfast.resources.kinds._commands import parse_env
from holdfast.resources.needs import Need, needed
from holdfast.resources.traits import Edgeable
from holdfast.resources.watches import either

SYSTEM = frozenset({"/", "/usr", "/usr/local"})
"""Prefixes of Pythons that are not virtual environments."""
Versions = Mapping[str, Mapping[str, Any]]
"""Name of a package -> {old, new}."""
TOOL = re.compile(r"(pip|python)[0-9.]*")
REQUIREMENT = re.compile(r"(?![- @]|editable )[^\x00-\x1f\x7f]{1,4096}")
OLD = "current pip does not have this option"
HERE = "the agent runs pip without it"
FILES = "pip cannot read salt:// URLs: put the file in place with file.managed, and write its path"
FOREIGN: dict[str, str] = {
    "use_vt": "the output of pip is always shown while it runs",
    "log": "the agent's own log has the output of pip",
    "reload_modules": "the agent does not load packages of others",
}


def environment_of(bin_env: str) -> str | None:
    """Return the virtual environment of a directory, or of a pip or Python in it; None for the Python of the system.

    Raises `ValueError` for a relative path.
    """
    path = PurePosixPath(posixpath.normpath(bin_env))
    if TOOL.fullmatch(bin_env):
        return None
    if not path.is_absolute():
        raise ValueError("it must be the absolute path of a virtual environment, or of pip in one")
    if TOOL.fullmatch(path.name) and path.parent.name == "bin":
        path = path.parent.parent
    return None if str(path) in SYSTEM else str(path)


@accepts(pattern=REQUIREMENT.pattern)
def demand_requirement(requirement: str) -> str:
    """Check a requirement.

    Raises `ValueError` for an option, and for a password, which all users of the host could see.
    """
    if not REQUIREMENT.fullmatch(requirement):
        raise ValueError(
            f"{requirement[:200]!r} is not a requirement of pip: write a name, possibly with versions "
            "(`django>=4.2,<5`), or a URL or path"
        )
    if re.search(r"://[^/@\s]*:[^/@\s]*@", requirement):
        raise ValueError(
            "a URL must not contain a password, because others could see it: use index_url, or ~/.netrc of the user"
        )
    return requirement


Requirement = Annotated[Text, AfterValidator(demand_requirement)]
"""A requirement as in the command line of pip."""
Requirements = Annotated[tuple[Requirement, ...], BeforeValidator(parse_list)]


def demand_file(path: str) -> str:
    """Check the path of a requirements file. Raises `ValueError` for a URL."""
    if "://" in path:
        raise ValueError(FILES)
    return demand_requirement(path)


RequirementFiles = Annotated[tuple[Annotated[Text, AfterValidator(demand_file)], ...], BeforeValidator(parse_list)]


class PipBase(Edgeable, Resource):
    """Base of the kinds of pip."""

    concerns: ClassVar[Mapping[str, Concern]] = {"": "operation"}
    ignored: ClassVar[Mapping[str, str]] = FOREIGN
    uses: ClassVar[tuple[str, ...]] = ()
    """Functions of pip that the kind needs, in addition to its watch."""

    user: Text | None = field(None)
    """User who runs pip. Default: the agent's user; then no other user may be able to change the environment."""
    cwd: AbsPath | None = field(None)
    """Working directory of pip, for paths in requirements files. Default: the home directory of the user."""

    @property
    @abstractmethod
    def place(self) -> str | None:
        """The target of the interface."""

    @model_validator(mode="after")
    def _relative(self) -> Self:
        named = (*getattr(self, "requirements", ()), *(e for e in getattr(self, "editable", ()) if e[0] == "."))
        if self.cwd is None and (relative := [path for path in named if not path.startswith("/")]):
            raise ValueError(f"{relative[0]} is a relative path: set `cwd`, too, or write an absolute path")
        return self

    @property
    def runas(self) -> str | None:
        """The user, unless it is the agent's own."""
        return None if self.user in (None, "root") else self.user

    def pip(self, ctx: Context) -> LanguageInterface:
        """Return the functions of pip."""
        return ctx.interface(LanguageInterface, "pip")

    def needs(self) -> tuple[Need, ...]:
        """Return the functions of pip that the kind uses."""
        return needed(LanguageInterface, "watch", *self.uses, tool="pip")

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the user."""
        return owned_by(self.user, None)

    @abstractmethod
    async def wrong(self, pip: LanguageInterface) -> dict[str, str]:
        """Return the differences: requirement or package -> its installed version, or an empty text."""

    @abstractmethod
    async def repair(self, pip: LanguageInterface, wrong: Mapping[str, str], *, test: bool) -> ChangeSet:
        """Repair the differences; with `test`, return what this would change."""

    def said(self, changes: Versions) -> dict[str, Any]:
        """Return changes as Salt reports them. Default: name -> {old, new}."""
        return dict(changes)

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Compare with what pip reports; with `apply`, run pip to repair the differences."""
        pip = self.pip(ctx)
        wrong = await self.wrong(pip)
        if not wrong:
            return True
        if not apply:
            await self._plan(ctx, pip, wrong)
            return False
        before = await pip.list_installed((), self.place, self.runas)
        await ctx.assignment.announce()
        ctx.report.begin(lambda: self._account(ctx, pip, before))
        self._report(ctx, (await self.repair(pip, wrong, test=False)).changes, applied=True)
        if left := await self.wrong(pip):
            raise StillDiffers(f"still not as declared after pip has run: {', '.join(left)}")
        return False

    async def _plan(self, ctx: Context, pip: LanguageInterface, wrong: Mapping[str, str]) -> None:
        """Report what pip would change. Add its refusal as a note, because an earlier state may remove the cause."""
        doubt, planned = "", {name: {"old": old, "new": ""} for name, old in wrong.items()}
        try:
            planned = dict((await self.repair(pip, wrong, test=True)).changes) or planned
        except Permanent as error:
            doubt = f"; at present this would fail: {error}"
        self._report(ctx, planned, applied=False, doubt=doubt)

    async def _account(self, ctx: Context, pip: LanguageInterface, before: Mapping[str, list[Pkg]]) -> None:
        """After an error, report which packages have changed."""
        after = await pip.list_installed((), self.place, self.runas)
        old, new = ({name: pkgs[0].version for name, pkgs in known.items()} for known in (before, after))
        changed = {name for name in {*old, *new} if old.get(name) != new.get(name)}
        self._report(
            ctx, {name: {"old": old.get(name, ""), "new": new.get(name, "")} for name in sorted(changed)}, applied=True
        )

    def _report(self, ctx: Context, changes: Versions, *, applied: bool, doubt: str = "") -> None:
        """Report the changes, and their effect."""
        ctx.report.changes = self.said(changes)
        if changes:
            what = ", ".join(f"{name} {change['new']}".strip() for name, change in changes.items())
            where = f" in {self.place}" if self.place and self.place != "user" else ""
            ctx.report.did(Effect(self.effect_verbs[:1], what, detail=f"{where}{doubt}"), applied=applied)

    def watch(self, ctx: Context) -> Watch:
        """Watch the directories of packages by inotify."""
        return self.pip(ctx).watch(self.place, self.runas)


class Located(PipBase):
    """Base of the kinds that work on an existing environment."""

    bin_env: Text | None = field(None)
    """Virtual environment to work on, or the pip in it.

    Default: the Python of the system or, with `user`, the packages of that user. `pip.installed` refuses to change a
    Python that belongs to the package manager (PEP 668).
    """

    @field_validator("bin_env")
    @classmethod
    def _bin_env(cls, value: str | None) -> str | None:
        if value is not None:
            environment_of(value)
        return value

    @property
    def place(self) -> str | None:
        """The environment, or the packages of the user."""
        found = environment_of(self.bin_env) if self.bin_env else None
        return "user" if found is None and self.runas else found

    def dependencies(self) -> tuple[Dependency, ...]:
        """Add the environment."""
        found = environment_of(self.bin_env) if self.bin_env else None
        return (*([Dependency("path", found, above=True)] if found else []), *super().dependencies())


class Choosing(PipBase):
    """Base of the kinds that install packages: their sources and options."""

    index_url: Text | None = field(None, secret=True)
    """URL of the index of packages. pip gets it as an environment variable, so other users see no password in it."""
    extra_index_url: Texts = field((), secret=True)
    """URLs of further indexes. pip uses the newest version in any of them, so each index can replace any package."""
    no_deps: bool = field(False)
    """Do not install dependencies."""
    pre_releases: bool = field(False)
    """Accept pre-releases."""
    proxy: Text | None = field(None, secret=True)
    """Proxy for HTTP: `user:password@host:port`."""
    no_binary: Texts = field(())
    """Packages to build from source instead of using wheels; `:all:` for all. A build runs code of the package."""
    env_vars: Annotated[dict[str, str], BeforeValidator(parse_env)] = field({}, secret=True)
    """Variables added to the environment of pip."""

    def variables(self) -> dict[str, str]:
        """Return the options as environment variables of pip."""
        given: dict[str, Any] = {
            "INDEX_URL": self.index_url,
            "EXTRA_INDEX_URL": " ".join(self.extra_index_url),
            "NO_DEPS": "1" if self.no_deps else "",
            "PRE": "1" if self.pre_releases else "",
            "PROXY": self.proxy,
            "NO_BINARY": ",".join(self.no_binary),
        }
        return {f"PIP_{name}": value for name, value in given.items() if value} | self.env_vars

    def files(self, named: Sequence[str]) -> list[str]:
        """Return paths with those relative to `cwd` made absolute."""
        return [path if path.startswith("/") else posixpath.join(self.cwd or "/", path) for path in named]

    def watch(self, ctx: Context) -> Watch:
        """Also watch the requirements files."""
        files = self.files(getattr(self, "requirements", ()))
        return either(super().watch(ctx), ctx.watch_path(*files)) if files else super().watch(ctx)

    def options(self) -> dict[str, Any]:
        """Return the options of the provider."""
        return {"env": self.variables(), **({"cwd": self.cwd} if self.cwd else {})}


def spec(requirement: str) -> PkgSpec:
    """Return the package of a requirement; its name is for messages."""
    found = None if requirement.startswith("editable ") else re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", requirement)
    name = found[0] if found and "/" not in requirement.partition("[")[0] else requirement.removeprefix("editable ")
    return PkgSpec(name=name, source=requirement)
