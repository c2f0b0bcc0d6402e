"""Versions of packages in state files: exactly one version, a pattern, or conditions."""

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
"""Operator -> accepted results of a comparison."""


def conditions(text: str) -> list[tuple[str, str]]:
    """Return the operator and version of each condition in `>=1.2,<2`. Raises `ValueError` for malformed text."""
    found = [CONDITION.match(part.strip()) for part in text.split(",")]
    if not all(found):
        raise ValueError(f"{text!r} is not a version; write 1.2, 1.2* or conditions such as '>=1.2,<2'")
    return [(match[1] or "", match[2]) for match in found if match]


def exact(text: str | None) -> bool:
    """Return whether the text names exactly one version."""
    return bool(text) and not re.search(r"[<>=!,*?\[]", text or "")


async def satisfied(pkg: PkgInterface, version: str, wanted: str) -> bool:
    """Return whether a version meets the conditions in `wanted`."""
    for operator, other in conditions(wanted):
        if re.search(r"[*?\[]", other):
            same = fnmatch.fnmatchcase(version, other)
            if same is (operator == "!="):
                return False
        elif await pkg.compare(version, other) not in HOLDS[operator]:
            return False
    return True


async def choose(pkg: PkgInterface, name: str, wanted: str, available: Iterable[str]) -> str:
    """Return the newest available version that meets the conditions.

    Raises `Permanent` with the available versions if none meets them.
    """
    known = list(available)
    for version in known:
        if await satisfied(pkg, version, wanted):
            return version
    there = f"available: {', '.join(known)}" if known else "no repository has this package"
    raise Permanent(f"cannot install {name} {wanted}: {there}")
