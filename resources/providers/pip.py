"""Python packages by pip."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Literal

from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.provider import Confine
from holdfast.resources.interfaces.results import PkgSpec
from holdfast.resources.providers.language_base import USER, LanguageProvider, Versions, Where

COMPARE = """import sys; from pip._vendor.packaging.version import Version
a, b = map(Version, sys.argv[1:]); print((a > b) - (a < b))"""
MANAGED = """import os, sys, sysconfig
mark = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
print(int(sys.prefix == sys.base_prefix and os.path.exists(mark)))"""
"""Prints 1 if the Python belongs to the package manager of the system (PEP 668)."""


QUIET = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_ROOT_USER_ACTION": "ignore"}
"""Environment in which pip asks nothing, and prints no advice."""


class Pip(LanguageProvider):
    """Python's packages. A path is that of a virtual environment, which must exist.

    An index that is an absolute path is a directory of wheels. Names are compared as pip does: case, `-`, `_` and `.`
    do not matter. The packages of a Python that the package manager of the system owns (PEP 668) are never changed.
    """

    confine = Confine(commands=("python3",))
    environment = QUIET

    async def _installed(self, where: Where) -> Versions:
        scope = ("--user",) if where.target == USER else ()
        done = await self._pip("list", "--format=json", *scope, where=where, to="list packages")
        return {entry["name"]: entry["version"] for entry in json.loads(done)}

    async def _newest(self, name: str, where: Where) -> str | None:
        done = await self._run(*_python(where), "-m", "pip", "index", "versions", *_index(where), name, where=where)
        found = re.search(r"^Available versions: ([^,\s]+)", done.stdout, re.MULTILINE)
        if found is None and "No matching distribution" not in done.stderr:
            raise Permanent(f"cannot ask pip for {name}: {self._reason(done)}")
        return found[1] if found else None

    async def _plan(self, pkgs: Sequence[PkgSpec], where: Where, *, upgrade: bool) -> Versions:
        report = ("--dry-run", "--quiet", "--report", "-")
        done = await self._pip(*_arguments(pkgs, where, upgrade=upgrade), *report, where=where, to=_title(pkgs))
        wheels = [entry["metadata"] for entry in json.loads(done)["install"]]
        return {wheel["name"]: wheel["version"] for wheel in wheels}

    async def _install(self, pkgs: Sequence[PkgSpec], where: Where, *, upgrade: bool) -> None:
        await self._pip(*_arguments(pkgs, where, upgrade=upgrade), where=where, to=_title(pkgs), shown=True)

    async def _remove(self, names: Sequence[str], where: Where) -> None:
        await self._pip("uninstall", "--yes", *names, where=where, to=f"remove {', '.join(names)}", shown=True)

    async def compare(self, a: str, b: str, target: str | None = None, runas: str | None = None) -> Literal[-1, 0, 1]:
        """Compare two versions by PEP 440, with pip's implementation."""
        where = await self._checked(Where(target, runas))
        done = await self._run(*_python(where), "-c", COMPARE, a, b, where=where, to=f"compare {a} and {b}")
        order = int(done.stdout)
        return -1 if order < 0 else 1 if order else 0

    # -- what only pip needs -------------------------------------------------------------------------------------

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
                    f"cannot use {where.target}: it is no virtual environment, because bin/python is missing; "
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


def _arguments(pkgs: Sequence[PkgSpec], where: Where, *, upgrade: bool) -> list[str]:
    """Return the arguments of pip that install packages."""
    switches = [*_index(where), *(["--user"] if where.target == USER else []), *(["--upgrade"] if upgrade else [])]
    switches += ["--force-reinstall"] if any(pkg.reinstall for pkg in pkgs) else []
    return ["install", *switches, *[pkg.source or "==".join(filter(None, (pkg.name, pkg.version))) for pkg in pkgs]]


def _title(pkgs: Sequence[PkgSpec]) -> str:
    return f"install {', '.join(pkg.name for pkg in pkgs)}"
