"""resources/builtin.py: the names of the built-in kinds, interfaces and providers, by their modules.

`python -m holdfast.agent.generators.builtin_names resources/builtin.py` writes it; `scripts/reference` calls it.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from holdfast.resources import builtin, interfaces, kinds, providers
from holdfast.resources.contract import Resource
from holdfast.resources.interfaces.base import Interface
from holdfast.resources.interfaces.provider import Provider

WIDTH = 120
HEAD = '''"""The built-in kinds, interfaces and providers, and the modules that declare them.

A module is imported when a state names one of its kinds, or when its interface is first used. Reading all modules to
find the names would slow down each start. `scripts/reference` writes this file from the modules.
"""

from __future__ import annotations

from collections.abc import Mapping

PACKAGE = "holdfast.resources.kinds"
MODULES: Mapping[str, str] = {
'''
KINDS = '''}
"""Module -> the functions that it declares. The first part of the module's name is their family."""
KIND_MODULES: Mapping[str, str] = {
    f"{module.partition('.')[0]}.{function}": f"{PACKAGE}.{module}"
    for module, functions in MODULES.items()
    for function in functions.split()
}
"""Kind -> module that declares it."""

INTERFACES: Mapping[str, str] = {
'''
PROVIDERS = '''}
"""Virtual module -> module in `resources/interfaces/` that declares its interface."""
PROVIDERS: Mapping[str, tuple[str, ...]] = {
'''
TAIL = '''}
"""Virtual module -> modules in `resources/providers/` with providers of it, imported when it is first bound."""
'''


def written() -> str:
    """Return the text of resources/builtin.py."""
    functions: dict[str, set[str]] = {}
    for kind in _declared(kinds, Resource):
        if kind.kind:
            functions.setdefault(_module(kind, kinds), set()).add(kind.kind.partition(".")[2])
    modules = {
        interface.module: _module(interface, interfaces)
        for interface in _declared(interfaces, Interface)
        if interface.module
    }
    tools: dict[str, set[str]] = {}
    for provider in _declared(providers, Provider):
        if not provider.abstract:
            tools.setdefault(provider.implements.module, set()).add(_module(provider, providers))
    return "".join([
        HEAD, *_lines({module: " ".join(sorted(names)) for module, names in functions.items()}),
        KINDS, *_lines(modules),
        PROVIDERS, *(f"    {_text(name)}: ({', '.join(map(_text, sorted(modules)))}{',' * (len(modules) == 1)}),\n"
                     for name, modules in sorted(tools.items())),
        TAIL,
    ])  # fmt: skip


def _declared(package: ModuleType, base: type[Any]) -> list[Any]:
    """Return the subclasses that the modules of a package declare, after importing all of these."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    return [cls for cls in _below(base) if cls.__module__.startswith(f"{package.__name__}.")]


def _below(base: type[Any]) -> Iterator[type[Any]]:
    for cls in base.__subclasses__():
        yield cls
        yield from _below(cls)


def _module(cls: type[Any], package: ModuleType) -> str:
    return cls.__module__.removeprefix(f"{package.__name__}.")


def _text(text: str) -> str:
    return f'"{text}"'


def _lines(table: Mapping[str, str]) -> Iterator[str]:
    """Yield the items of a mapping as ruff formats them; a long value is several texts."""
    for name, value in sorted(table.items()):
        start = f"    {_text(name)}: "
        room = WIDTH - len(start) - len('"",')
        first, *rest = textwrap.wrap(value, room)
        parts = [first, *textwrap.wrap(" ".join(rest), WIDTH - len('    " ",'))] if rest else [first]
        yield start + "\n    ".join([*(_text(f"{part} ") for part in parts[:-1]), _text(parts[-1])]) + ",\n"


if __name__ == "__main__":
    cast("dict[str, str]", builtin.KIND_MODULES).clear()  # names that have moved to another module are no error here
    Path(sys.argv[1]).write_text(written(), encoding="utf-8")
