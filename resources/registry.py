"""The registry of kinds.

A kind is found by its name `family.function`. `builtin` lists the built-in kinds and their modules; a module is
imported when one of its kinds is first requested, so that a run loads only the kinds that it uses. Other kinds come
from a `*.py` file in the operator's directory, or from an installed distribution: from the entry point of the group
`holdfast.kinds` that has the name of the family. Remote kinds come from the schemas of packages (`agent/remote`).
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from holdfast.resources.builtin import KIND_MODULES
from holdfast.resources.contract import DECLARED, Resource
from holdfast.resources.errors import DeclarationError

_asked: set[str] = set()
"""Families whose entry points have been loaded."""
GROUP = "holdfast.kinds"
REMOTE = "holdfast_plugins."
"""Beginning of the modules that the classes of remote kinds name."""


def find(kind: str) -> type[Resource] | None:
    """Return the class of a kind, after loading its module if necessary; None if there is no such kind."""
    if kind not in DECLARED:
        if kind in KIND_MODULES:
            importlib.import_module(KIND_MODULES[kind])
        else:
            _load_foreign(kind.partition(".")[0])
    return DECLARED.get(kind)


def names() -> list[str]:
    """Return the names of all kinds, sorted, without loading the built-in kinds."""
    for family in _foreign_families():
        _load_foreign(family)
    return sorted({*KIND_MODULES, *DECLARED})


def functions(family: str) -> list[str]:
    """Return the names of a family's functions, sorted; empty if there is no such family."""
    _load_foreign(family)
    return sorted(kind.partition(".")[2] for kind in {*KIND_MODULES, *DECLARED} if kind.startswith(f"{family}."))


def families() -> list[str]:
    """Return the names of all families, sorted."""
    return sorted({kind.partition(".")[0] for kind in (*KIND_MODULES, *DECLARED)} | _foreign_families())


def has_family(word: str) -> bool:
    """Return whether there is a family of this name. Other distributions are only searched if it is not known."""
    return any(kind.startswith(f"{word}.") for kind in (*KIND_MODULES, *DECLARED)) or word in _foreign_families()


def kinds() -> Iterator[type[Resource]]:
    """Yield every kind, sorted by name, after loading all of them."""
    return filter(None, map(find, names()))


def remote() -> list[str]:
    """Return the names of the declared kinds that plugins provide, sorted."""
    return sorted(kind for kind, cls in DECLARED.items() if cls.__module__.startswith(REMOTE))


def forget(kind: str) -> None:
    """Remove a remote kind. Resources of its class stay as they are."""
    del DECLARED[kind]


def _foreign_families() -> set[str]:
    """Return the families of other distributions."""
    return {point.name for point in metadata.entry_points(group=GROUP)}


def _load_foreign(family: str) -> None:
    """Import the entry points of a family of another distribution, once, unless the family is already known."""
    if family in _asked or not family.isidentifier():
        return
    if not any(kind.startswith(f"{family}.") for kind in (*KIND_MODULES, *DECLARED)):
        for point in metadata.entry_points(group=GROUP, name=family):
            point.load()
    _asked.add(family)


def load_file(path: Path, text: str) -> None:
    """Import an operator's kinds and providers from the text of one Python file, which is not opened again.

    The caller has checked who may write the file. Raises `DeclarationError`, and any exception of the file's code.
    """
    name = f"holdfast_kinds.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise DeclarationError(f"cannot load {path}: it is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        exec(compile(text, str(path), "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - kinds are code
    except BaseException:
        del sys.modules[name]
        raise
    if hasattr(module, "__interface__") or hasattr(module, "__virtualname__"):
        from holdfast.resources.interfaces.provider import register_module  # noqa: PLC0415 - few files need it
        from holdfast.resources.interfaces.registry import find as find_interface  # noqa: PLC0415 - the same

        register_module(module, find_interface)
