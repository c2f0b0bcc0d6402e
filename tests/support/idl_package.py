"""Small packages for tests of the compiler."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

from holdfast.agent.idl.compiler import compiled
from holdfast.agent.model.package import Package
from holdfast.states.errors import CompileError, Problem

HEAD = "from typing import Annotated, Final\nfrom holdfast import idl\n"
"""The first two lines of each source."""


def write_package(folder: Path, version: str = "1.0.0", **sources: str) -> Path:
    """Write a package with these sources below a folder; `a__b` is the source `a/b.py`. Return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.yaml").write_text(f"name: demo\nversion: {version}\ndescription: A demonstration.\n")
    for name, text in sources.items():
        path = folder / (name if name == "__init__" else name.replace("__", "/"))
        path = path.with_name(f"{path.name}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(HEAD + textwrap.dedent(text).lstrip("\n"))
    return folder


def package_of(folder: Path, **sources: str) -> Package:
    """Compile a package of these sources."""
    return compiled(write_package(folder, **sources)).package


def problems_of(folder: Path) -> list[Problem]:
    """Return the problems of a package."""
    try:
        compiled(folder)
    except CompileError as error:
        return list(error.problems)
    return []


def places_of(folder: Path) -> list[str]:
    """Return the places of the problems of a package."""
    return places(problems_of(folder))


def places(problems: Iterable[Problem]) -> list[str]:
    """Return `file:line:column code` of each problem; lines count from the one after `HEAD`."""
    found = []
    for each in problems:
        file, line, column = each.location
        found.append(f"{Path(file).stem}:{line - 2}:{column} {each.code}")
    return found
