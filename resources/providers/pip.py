"""Python packages by pip."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from holdfast.resources.context import Completed
from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.provider import Confine
from holdfast.resources.interfaces.results import PkgSpec
from holdfast.resources.providers._pip_requirements import LIST, PLACES, UNMET, Answered
from holdfast.resources.providers.language_base import (
    USER,
    LanguageProvider,
    PrintedPackage,
    Versions,
    Where,
    demand_trusted_paths,
    parsed,
)

COMPARE = """import sys; from pip._vendor.packaging.version import Version
a, b = map(Version, sys.argv[1:]); print((a > b) - (a < b))"""
MANAGED = """import os, sys, sysconfig
mark = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
print(int(sys.prefix == sys.base_prefix and os.path.exists(mark)))"""
"""Prints 1 if the Python belongs to the package manager of the system (PEP 668)."""


PACKAGES = "lib/python3*/site-packages"
"""The packages of a virtual environment, below its directory."""
QUIET = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_ROOT_USER_ACTION": "ignore"}
"""Environment in which pip asks nothing, and prints no advice."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._, -]*\])?")
"""Name of a package in an index, with extras. pip also takes paths and URLs, which may need a build."""
RANGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._, -]*\])?( *,? *(===?|~=|[<>!]=?) *[A-Za-z0-9.*+!_-]+)+")
"""Name of a package with conditions on its version."""
EDITABLE = "editable "
"""Comes before a requirement that is installed as editable."""
UNBUILT = "unknown until installed: a source distribution must be built"
"""Version in a plan, if only a build, which runs code of the package, would show version and dependencies."""


class PipWheel(BaseModel):
    """A package in a report."""

    metadata: PrintedPackage


class PipReport(BaseModel):
    """The result of a dry run."""

    install: list[PipWheel]


class Pip(LanguageProvider):
    """Python's packages. A path is that of a virtual environment, which must exist.

    An index that is an absolute path is a directory of wheels. Names are compared as pip does: case, `-`, `_` and `.`
    do not matter. The packages of a Python that the package manager of the system owns (PEP 668) are never changed. If
    a source distribution must be built, which runs code of the package, a plan does not know the version.

    The source of a package may be a requirement as pip has it (`django>=4,<5`), with the word `editable` before it for
    one that is editable, or a file of requirements, with an `@` before its path. The options are those of all tools,
    such as `env: {PIP_PRE: 1}`.
    """

    confine = Confine(commands=("python3",))
    environment = QUIET
    parts = (
        *("pyvenv.cfg", "pip.conf", "bin", "bin/python", "lib", PACKAGES),
        *(f"{PACKAGES}/{name}" for name in ("*.pth", "*customize.py", "pip")),
    )

    async def _installed(self, where: Where) -> Versions:
        user = ["user"] if where.target == USER else []
        done = await self._run(*_python(where), "-c", LIST, *user, where=where, to="list packages")
        return parsed(done.stdout, Versions, "list packages")

    async def _newest(self, name: str, where: Where) -> str | None:
        return next(iter(await self._offered(name, where)), None)

    async def _plan(self, pkgs: Sequence[PkgSpec], where: Where, before: Versions, *, upgrade: bool) -> Versions:
        safe = [pkg for pkg in pkgs if _is_safe(pkg)]
        planned = {pkg.name: UNBUILT for pkg in pkgs if pkg not in safe}
        if not safe:
            return planned
        done = await self._dry_run(safe, where, *(["--upgrade"] if upgrade else []))
        if done.retcode:
            return planned | await self._unbuilt(safe, where, {} if upgrade else before, failed=done)
        wheels = [entry.metadata for entry in parsed(done.stdout, PipReport, _title(pkgs)).install]
        found = {wheel.name: wheel.version for wheel in wheels}
        free = {self._key(pkg.name) for pkg in safe if not pkg.version and not pkg.source}
        chosen = [name for name in found if self._key(name) in free]
        unknown = [name for name in chosen if await self._may_be_built(name, found[name], where)]
        return planned | found | dict.fromkeys(unknown, UNBUILT)

    async def _install(self, pkgs: Sequence[PkgSpec], where: Where, before: Versions, *, upgrade: bool) -> None:
        await self._pip(
            *_arguments(pkgs, where), *(["--upgrade"] if upgrade else []), where=where, to=_title(pkgs), shown=True
        )

    async def _remove(self, names: Sequence[str], where: Where) -> None:
        await self._pip("uninstall", "--yes", *names, where=where, to=f"remove {', '.join(names)}", shown=True)

    async def _places(self, where: Where) -> Sequence[str]:
        if where.target not in (None, USER):
            found = await self.host.blocking(lambda: [*map(str, Path(str(where.target)).glob(PACKAGES))])
            return [f"{where.target}/bin/python", *(found or [f"{where.target}/lib"])]
        to = "find the packages of Python"
        user = ["user"] if where.target == USER else []
        return parsed((await self._run("python3", "-c", PLACES, *user, where=where, to=to)).stdout, list[str], to)

    async def compare(self, a: str, b: str, target: str | None = None, runas: str | None = None) -> Literal[-1, 0, 1]:
        """Compare two versions by PEP 440, with pip's implementation."""
        where = await self._checked(Where(target, runas))
        to = f"compare {a} and {b}"
        done = await self._run(*_python(where), "-c", COMPARE, a, b, where=where, to=to)
        order = parsed(done.stdout, int, to)
        return -1 if order < 0 else 1 if order else 0

    async def unmet(
        self,
        requirements: Sequence[str],
        target: str | None = None,
        runas: str | None = None,
        directory: str | None = None,
    ) -> dict[str, str]:
        """Have the Python of the target compare the requirements with the metadata of its packages."""
        where, to = await self._checked(Where(target, runas)), "read the requirements"
        if runas is None:
            files = [line[1:] for line in requirements if line.startswith("@")]
            await self.host.blocking(demand_trusted_paths, [*files, *([directory] if directory else [])])
        asked = {"requirements": list(requirements), "directory": directory, "user": target == USER}
        done = await self._run(*_python(where), "-c", UNMET, where=where, stdin=json.dumps(asked))
        if done.retcode:
            last = self._reason(done).rpartition("\n")[2]
            hint = "; install python3-pip, or use a virtual environment" if "No module named 'pip'" in last else ""
            raise Permanent(f"cannot {to}: {last}{hint}")
        answer = parsed(done.stdout, Answered, to)
        if answer.wrong:
            raise Permanent(f"cannot {to}: {'; '.join(f'{line}: {why}' for line, why in answer.wrong.items())}")
        return answer.unmet

    # -- what only pip needs -------------------------------------------------------------------------------------

    async def _may_be_built(self, name: str, planned: str, where: Where) -> bool:
        """Return whether an installation may choose a newer version than the planned wheel, which has no wheel."""
        newest = await self._newest(name, where)
        if newest in (None, planned):
            return False
        done = await self._dry_run([PkgSpec(name=name, version=newest)], where, "--no-deps")
        return done.retcode != 0

    async def _dry_run(self, pkgs: Sequence[PkgSpec], where: Where, *switches: str) -> Completed:
        """Have pip choose among wheels, whose metadata needs no build."""
        words = (*_arguments(pkgs, where), *switches, "--only-binary", ":all:", "--dry-run", "--quiet", "--report", "-")
        return await self._run(*_python(where), "-m", "pip", *words, where=where)

    async def _offered(self, name: str, where: Where) -> list[str]:
        """Return the versions in the index, the newest first, source distributions included."""
        done = await self._run(*_python(where), "-m", "pip", "index", "versions", *_index(where), name, where=where)
        found = re.search(r"^Available versions: (.+)", done.stdout, re.MULTILINE)
        if found is None and "No matching distribution" not in done.stderr:
            raise Permanent(f"cannot ask pip for {name}: {self._reason(done)}")
        return found[1].split(", ") if found else []

    async def _unbuilt(self, pkgs: Sequence[PkgSpec], where: Where, before: Versions, failed: Completed) -> Versions:
        """Return the plan after a dry run without source distributions has failed. Packages of `before` may stay.

        Raises `Permanent` with pip's reason if source distributions would not help.
        """
        helps = "No matching distribution" in failed.stderr
        for pkg in [pkg for pkg in pkgs if helps and not pkg.source]:
            offered = await self._offered(pkg.name.partition("[")[0], where)
            helps = pkg.version in offered if pkg.version else bool(offered)
        if not helps:
            raise Permanent(f"cannot {_title(pkgs)}: {self._reason(failed)}")
        installed = {self._key(name) for name in before}
        stays = [pkg for pkg in pkgs if not (pkg.version or pkg.source or pkg.reinstall)]
        return {pkg.name: UNBUILT for pkg in pkgs if pkg not in stays or self._key(pkg.name) not in installed}

    def _key(self, name: str) -> str:
        return re.sub(r"[-_.]+", "-", name).lower()

    async def _demand_changeable(self, where: Where, verb: str, names: Sequence[str]) -> None:
        what = f"{verb} {', '.join(names)}"
        done = await self._run(*_python(where), "-c", MANAGED, where=where, to=what)
        if done.stdout.strip() == "1":
            raise Permanent(
                f"cannot {what}: this Python belongs to the package manager of the system, and packages of pip could "
                "break it (PEP 668); install into a virtual environment and give its path as `target` (`python3 -m "
                "venv PATH` makes one), or install the package of the system"
            )

    async def _checked(self, where: Where) -> Where:
        await super()._checked(where)
        if where.target not in (None, USER):
            found = await self._run("test", "-x", f"{where.target}/bin/python", where=where)
            if found.retcode:
                raise Permanent(
                    f"cannot use {where.target}: it is not a virtual environment, because bin/python is missing; "
                    f"`python3 -m venv {where.target}` makes one"
                )
        return where

    async def _pip(self, *arguments: str, where: Where, to: str, shown: bool = False) -> str:
        done = await self._run(*_python(where), "-m", "pip", *arguments, where=where, to=to, shown=shown)
        return done.stdout


def _python(where: Where) -> tuple[str, ...]:
    """Return the command of a target's Python."""
    return ("python3",) if where.target in (None, USER) else (f"{where.target}/bin/python",)


def _index(where: Where) -> tuple[str, ...]:
    if where.source is None:
        return ()
    return ("--no-index", "--find-links", where.source) if where.source[0] == "/" else ("--index-url", where.source)


def _arguments(pkgs: Sequence[PkgSpec], where: Where) -> list[str]:
    """Return the arguments of pip that install packages."""
    switches = [*_index(where), *(["--user"] if where.target == USER else [])]
    switches += ["--force-reinstall"] if any(pkg.reinstall for pkg in pkgs) else []
    return ["install", *switches, *[word for pkg in pkgs for word in _words(pkg)]]


def _words(pkg: PkgSpec) -> list[str]:
    """Return the arguments for one package."""
    text = pkg.source or "==".join(filter(None, (pkg.name, pkg.version)))
    if text.startswith("@"):
        return ["--requirement", text[1:]]
    return ["--editable", text.removeprefix(EDITABLE)] if text.startswith(EDITABLE) else [text]


def _is_safe(pkg: PkgSpec) -> bool:
    """Return whether pip can plan a package without running its code."""
    text = pkg.source or pkg.name
    return bool(NAME.fullmatch(text) or (pkg.source and (text.endswith(".whl") or RANGE.fullmatch(text))))


def _title(pkgs: Sequence[PkgSpec]) -> str:
    return f"install {', '.join(pkg.name for pkg in pkgs)}"
