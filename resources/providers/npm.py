"""Node.js packages by npm."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel

from holdfast.resources.context import Completed
from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.provider import Confine
from holdfast.resources.interfaces.results import PkgSpec
from holdfast.resources.providers.language_base import (
    USER,
    LanguageProvider,
    PrintedPackage,
    Versions,
    Where,
    parsed,
    refuse_reinstall,
)

QUIET = {f"NPM_CONFIG_{name}": "false" for name in ("AUDIT", "FUND", "UPDATE_NOTIFIER")} | {
    "NPM_CONFIG_LOGLEVEL": "error"
}
"""Environment in which npm asks no other service, and prints no advice."""
SEMVER = re.compile(r"[v=]?([0-9]+)\.([0-9]+)\.([0-9]+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")

NAME = re.compile(r"(@[\w.~-]+/)?[\w.~-]+")
"""Name of a package in a registry. npm also takes URLs of git repositories, which it prepares with their scripts."""
UNPREPARED = "unknown until installed: npm must fetch and prepare it"
"""Version in a plan, if npm would have to run code of the package to find it out."""


class NpmPackage(BaseModel):
    """A package in a tree."""

    version: str | None = None
    """None: it is missing."""


class NpmTree(BaseModel):
    """The installed packages."""

    error: Any = None
    dependencies: dict[str, NpmPackage] = {}


class Npm(LanguageProvider):
    """Node.js's packages. A path is that of a project: npm writes the installed packages into its `package.json`.

    `user` is `~/.local` of the user. npm installs the dependencies of a package as parts of it, so that they are not
    listed. Scripts of packages do not run, except with `options: {scripts: true}`. An index is the URL of a registry.
    A plan does not know the version of a package in a git repository, which npm would have to prepare.
    """

    confine = Confine(commands=("npm",))
    environment = QUIET
    parts = ("package.json", "package-lock.json", ".npmrc", "node_modules")

    async def _installed(self, where: Where) -> Versions:
        done = await self._npm("ls", "--depth=0", where=where)  # the status is 1 if a package lacks a dependency
        found = parsed(done.stdout or "{}", NpmTree, "list packages")
        if found.error is not None and "code ENOENT" not in done.stderr:  # npm 9: the directory does not exist
            raise Permanent(f"cannot list packages: {self._reason(done)}")
        return {name: package.version for name, package in found.dependencies.items() if package.version is not None}

    async def _newest(self, name: str, where: Where) -> str | None:
        done = await self._npm("view", name, "version", where=where)
        if done.retcode and "code E404" not in done.stderr:
            raise Permanent(f"cannot ask npm for {name}: {self._reason(done)}")
        return parsed(done.stdout, str, f"ask npm for {name}") if done.stdout and not done.retcode else None

    async def _plan(self, pkgs: Sequence[PkgSpec], where: Where, before: Versions, *, upgrade: bool) -> Versions:
        packed = [pkg for pkg in pkgs if NAME.fullmatch(pkg.name) and (pkg.source or "/").startswith("/")]
        planned = {pkg.name: UNPREPARED for pkg in pkgs if pkg not in packed}
        if not (words := _words(packed, {} if upgrade else before)):
            return planned
        done = await self._npm("pack", "--dry-run", "--ignore-scripts", *words, where=where, to=_title(pkgs))
        packages = parsed(done.stdout, list[PrintedPackage], _title(pkgs))
        return planned | {package.name: package.version for package in packages}

    async def _install(self, pkgs: Sequence[PkgSpec], where: Where, before: Versions, *, upgrade: bool) -> None:
        if words := _words(pkgs, {} if upgrade else before):
            await self._npm("install", *_scripts(where), *words, where=where, to=_title(pkgs), shown=True)

    async def _remove(self, names: Sequence[str], where: Where) -> None:
        to = f"remove {', '.join(names)}"
        await self._npm("uninstall", *_scripts(where), *names, where=where, to=to, shown=True)

    async def compare(self, a: str, b: str, target: str | None = None, runas: str | None = None) -> Literal[-1, 0, 1]:
        """Compare two versions by Semantic Versioning; what follows `+` does not matter."""
        first, second = _order(a), _order(b)
        return -1 if first < second else 1 if first > second else 0

    async def _places(self, where: Where) -> Sequence[str]:
        if where.target not in (None, USER):
            return [f"{where.target}/node_modules"]
        done = await self._run("npm", "root", *await self._scope(where), where=where, to="find npm's packages")
        return [done.stdout.strip()]

    # -- what only npm needs -------------------------------------------------------------------------------------

    async def _checked(self, where: Where) -> Where:
        if where.source is not None and where.source.startswith("/"):
            raise Permanent(
                f"cannot use {where.source} as an index: npm reads no directories of packages; give the URL of a "
                "registry as `index`, or the path of a package file as `source` of a package"
            )
        await super()._checked(where)
        return where._replace(words=await self._scope(where))

    async def _npm(self, *arguments: str, where: Where, to: str = "", shown: bool = False) -> Completed:
        registry = ["--registry", where.source] if where.source else []
        return await self._run("npm", *arguments, "--json", *where.words, *registry, where=where, to=to, shown=shown)

    async def _scope(self, where: Where) -> list[str]:
        """Return the switches of a target. They name the host's settings, as npm looks for these below the prefix."""
        if where.target is None:
            return ["--global"]
        found = await self._run("npm", "config", "get", "globalconfig", where=where, to="read npm's settings")
        prefix = ["--global", "--prefix", "~/.local"] if where.target == USER else ["--prefix", where.target]
        return [*prefix, "--globalconfig", found.stdout.strip()]

    def _reason(self, done: Completed) -> str:
        found = re.search(r'^ *"summary": (".*")', done.stdout, re.MULTILINE)
        return parsed(found[1], str, "read npm's error") if found else super()._reason(done)


def _words(pkgs: Sequence[PkgSpec], before: Versions) -> list[str]:
    """Return the packages to install, as npm's arguments, without those of `before`, which npm would upgrade."""
    refuse_reinstall("npm", pkgs)
    wanted = [pkg for pkg in pkgs if pkg.source or pkg.version or pkg.name not in before]
    return [pkg.source or f"{pkg.name}@{pkg.version or 'latest'}" for pkg in wanted]


def _scripts(where: Where) -> tuple[str, ...]:
    return () if where.options.get("scripts") else ("--ignore-scripts",)


def _order(version: str) -> tuple[list[int], list[tuple[int, int, str]]]:
    """Return a key in the order of versions: a pre-release precedes its release, numbers precede words."""
    found = SEMVER.fullmatch(version.strip())
    if found is None:
        raise Permanent(f"cannot compare {version!r}: npm's versions have three numbers, as 1.2.3 or 1.2.3-rc.1")
    *release, before = found.groups()
    parts = before.split(".") if before else []
    return [*map(int, release)], [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in parts] or [(2, 0, "")]


def _title(pkgs: Sequence[PkgSpec]) -> str:
    return f"install {', '.join(pkg.name for pkg in pkgs)}"
