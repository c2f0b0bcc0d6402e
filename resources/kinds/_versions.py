"""What state files may say of a package's version: exactly this one, a pattern, or conditions."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable

from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.pkg import PkgInterface

CONDITION = re.compile(r"(<=|>=|==|!=|<|>|=)?\s*([A-Za-z0-9.+:~*?\[\]!^-]+)$")
HOLDS = {
    "<": (-1,), "<=": (-1, 0), "=": (0,), "==": (0,), "": (0,), ">=": (0, 1), ">": (1,), "!=": (-1, 1),
}  # fmt: skip
"""Operator -> what a comparison may give."""


def conditions(text: str) -> list[tuple[str, str]]:
    """Operator and version of each condition in `>=1.2,<2`. Raises `ValueError` for what cannot be read."""
    found = [CONDITION.match(part.strip()) for part in text.split(",")]
    if not all(found):
        raise ValueError(f"{text!r} is not a version: write 1.2, 1.2* or conditions like '>=1.2,<2'")
    return [(match[1] or "", match[2]) for match in found if match]


def exact(text: str | None) -> bool:
    """Whether it names one version literally."""
    return bool(text) and not re.search(r"[<>=!,*?\[]", text or "")


async def satisfied(pkg: PkgInterface, version: str, wanted: str) -> bool:
    """Whether a version is one that is wanted."""
    for operator, other in conditions(wanted):
        if re.search(r"[*?\[]", other):
            same = fnmatch.fnmatchcase(version, other)
            if same is (operator == "!="):
                return False
        elif await pkg.compare(version, other) not in HOLDS[operator]:
            return False
    return True


async def choose(pkg: PkgInterface, name: str, wanted: str, available: Iterable[str]) -> str:
    """The newest available version that is wanted. Raises `Permanent` that says which there are."""
    known = list(available)
    for version in known:
        if await satisfied(pkg, version, wanted):
            return version
    there = f"there is {', '.join(known)}" if known else "no repository has this package"
    raise Permanent(f"cannot install {name} {wanted}: {there}")
