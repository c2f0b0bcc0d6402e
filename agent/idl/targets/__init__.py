"""Targets: what `holdfast idl compile` generates from the model of a package, one module for each.

A package of another author adds a target by an entry point of the group `GROUP`, whose object is a `PackageTarget`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from holdfast.agent.model.package import Package

GROUP: Final = "holdfast.idl.targets"
"""Group of the entry points of targets."""
BUILT_IN: Final[Mapping[str, str]] = {
    name: f"holdfast.agent.idl.targets.{name}:TARGET" for name in ("docs", "jsonschema", "python", "typescript")
}
"""Name of each target of this folder -> `module:attribute`; a module is imported when its target is used."""


class PackageTarget(Protocol):
    """Generates files from a package. It reads the model only, and returns the same for equal packages.

    The keys are paths below the output directory, with slashes; the values are texts without the header, which
    `holdfast idl compile` adds by the suffix of the path.
    """

    name: str

    def pack(self, package: Package) -> Mapping[str, str]:
        """Return the files for users of the package: path below `pack/` -> text."""
        ...

    def provider(self, package: Package) -> Mapping[str, str]:
        """Return the files for the author of the provider: path below `provider/` -> text."""
        ...
