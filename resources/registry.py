"""Which kinds exist, and where they come from.

A kind is found by its name `family.function`. Its family is, first, a module of `resources/kinds/` of that name, loaded when
it is first asked for, so that a run pays only for what it uses; then a `*.py` file of the operator's own directory; then
an installed distribution's entry point in the group `holdfast.kinds`, named after the family.
"""

from __future__ import annotations

import difflib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.resources.errors import DeclarationError

if TYPE_CHECKING:
    from holdfast.resources.contract import Resource

_kinds: dict[str, type[Resource]] = {}
_loaded: set[str] = set()
BUILTIN = "holdfast.resources.kinds"
GROUP = "holdfast.kinds"


def register(kind: str, cls: type[Resource]) -> None:
    """Add a kind. Raises `DeclarationError` when the name is malformed or belongs to another class."""
    family, dot, function = kind.partition(".")
    if not dot or not family.isidentifier() or not function.isidentifier():
        raise DeclarationError(f"cannot declare {kind!r}: a kind is named 'family.function'")
    known = _kinds.setdefault(kind, cls)
    if known is not cls and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise DeclarationError(f"cannot declare {kind} in {cls.__module__}: {known.__module__} has declared it already")
    _kinds[kind] = cls


def find(kind: str) -> type[Resource] | None:
    """The class of a kind, its family loaded if need be; None when there is none."""
    if kind not in _kinds:
        load_family(kind.partition(".")[0])
    return _kinds.get(kind)


def functions(family: str) -> list[str]:
    """Names of a family's functions, sorted; empty when there is no such family."""
    load_family(family)
    return sorted(kind.partition(".")[2] for kind in _kinds if kind.startswith(f"{family}."))


def families() -> list[str]:
    """Names of all families there are, sorted."""
    here = importlib.import_module(BUILTIN)
    builtin = {module.name for module in pkgutil.iter_modules(here.__path__) if not module.name.startswith("_")}
    foreign = {point.name for point in metadata.entry_points(group=GROUP)}
    return sorted(builtin | foreign | {kind.partition(".")[0] for kind in _kinds})


def kinds() -> Iterator[type[Resource]]:
    """Every kind there is, sorted by name."""
    for family in families():
        load_family(family)
    for kind in sorted(_kinds):
        yield _kinds[kind]


def load_family(family: str) -> None:
    """Import what declares a family, once."""
    if family in _loaded or not family.isidentifier():
        return
    if importlib.util.find_spec(f"{BUILTIN}.{family}") is not None:
        importlib.import_module(f"{BUILTIN}.{family}")
    elif not any(kind.startswith(f"{family}.") for kind in _kinds):
        for point in metadata.entry_points(group=GROUP, name=family):
            point.load()
    _loaded.add(family)


def load_file(path: Path, text: str) -> None:
    """Import an operator's own kinds from the text of one Python file, which is not opened again.

    The caller has checked who may write it. Whatever its code raises is passed on.
    """
    name = f"holdfast_kinds_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise DeclarationError(f"cannot load {path}: it is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        exec(compile(text, str(path), "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - that is what kinds are for
    except BaseException:
        del sys.modules[name]
        raise


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The known word that a mistyped one was probably meant to be."""
    return next(iter(difflib.get_close_matches(word, list(words), n=1, cutoff=0.6)), None)
