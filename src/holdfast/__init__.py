"""Holdfast keeps machines converged; this is its public API for authors of kinds.

`idl` and `plugin` are for authors of packages, `pack` is for their users.

    from holdfast import Context, Delta, Resource, Watch, field
    from holdfast import idl, pack, plugin
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.agent.plugins import api as plugin
    from holdfast.agent.plugins import pack
    from holdfast.resources import idl
    from holdfast.resources.composite import Composite, Part
    from holdfast.resources.context import Context, Watch
    from holdfast.resources.contract import Resource
    from holdfast.resources.delta import Delta
    from holdfast.resources.dependencies import Dependency
    from holdfast.resources.errors import Permanent, Temporary
    from holdfast.resources.fields import AbsPath, Mode, Text, Texts, field
    from holdfast.resources.traits import (
        Backed,
        Declaration,
        Edgeable,
        Groupable,
        Member,
        Recvable,
        Refreshable,
        Reversible,
        Sendable,
    )

__version__ = "0.1.0"
__all__ = [
    "AbsPath",
    "Backed",
    "Composite",
    "Context",
    "Declaration",
    "Delta",
    "Dependency",
    "Edgeable",
    "Groupable",
    "Member",
    "Mode",
    "Part",
    "Permanent",
    "Recvable",
    "Refreshable",
    "Resource",
    "Reversible",
    "Sendable",
    "Temporary",
    "Text",
    "Texts",
    "Watch",
    "field",
    "idl",
    "pack",
    "plugin",
]

_MODULES = {
    "idl": "holdfast.resources.idl",
    "pack": "holdfast.agent.plugins.pack",
    "plugin": "holdfast.agent.plugins.api",
}
_HOME = {
    "Composite": "composite",
    "Part": "composite",
    "Context": "context",
    "Watch": "context",
    "Resource": "contract",
    "Delta": "delta",
    "Permanent": "errors",
    "Temporary": "errors",
    "AbsPath": "fields",
    "Mode": "fields",
    "Text": "fields",
    "Texts": "fields",
    "field": "fields",
    "Declaration": "traits",
    "Backed": "traits",
    "Dependency": "dependencies",
    "Edgeable": "traits",
    "Groupable": "traits",
    "Member": "traits",
    "Recvable": "traits",
    "Refreshable": "traits",
    "Reversible": "traits",
    "Sendable": "traits",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: the command line starts without pydantic."""
    if name not in _HOME and name not in _MODULES:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    import importlib  # noqa: PLC0415 - the point of this function is to import late

    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    return getattr(importlib.import_module(f"holdfast.resources.{_HOME[name]}"), name)
