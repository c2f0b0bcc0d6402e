"""Types of the model as annotations of Python, and the imports that they need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from holdfast.agent.model.package import Module
from holdfast.agent.model.types import Type

ALWAYS = ("dataclasses", "enum", "typing")
MODULES = {
    "moment": "datetime",
    "duration": "datetime",
    "path": "pathlib",
    "address": "ipaddress",
}
"""Word of a type -> the module of its class."""
PLAIN = {
    "any": "typing.Any",
    "none": "None",
    "boolean": "bool",
    "integer": "int",
    "number": "float",
    "text": "str",
    "bytes": "bytes",
    "reference": "str",
}
"""Word of a type -> its class."""


class PythonTypes:
    """The annotations of one module. Names of other modules are imported when they have been used."""

    def __init__(self, module: Module) -> None:
        self._module = module.name
        self._modules: set[str] = set(ALWAYS)
        self._foreign: set[str] = set()

    def imports(self) -> list[str]:
        """Return the import statements, after all annotations have been made."""
        foreign = [f"import {name}" for name in sorted(self._foreign)]
        standard = [f"import {name}" for name in sorted(self._modules)]
        return [
            "from __future__ import annotations",
            "",
            *standard,
            "",
            "from holdfast import plugin",
            *([""] if foreign else []),
            *foreign,
        ]

    def word(self, type_: Type, *, aliased: bool = True) -> str:
        """Return the annotation of a type."""
        if type_.alias and aliased:
            return self._named(type_.alias)
        return self.FORMS[type_.type](self, type_)

    def _named(self, qualified: str) -> str:
        """Return the name of a declaration: if another module declares it, that of the module before it.

        Modules may refer to each other in a circle, so no name is imported from them.
        """
        module, _, name = qualified.partition(":")
        if module == self._module:
            return name
        stub = f"{module.replace('/', '.')}_stub"
        self._foreign.add(stub)
        return f"{stub}.{name}"

    def _plain(self, type_: Type) -> str:
        return PLAIN[type_.type]

    def _standard(self, type_: Type) -> str:
        self._modules.add(MODULES[type_.type])
        return {
            "moment": "datetime.datetime",
            "duration": "datetime.timedelta",
            "path": "pathlib.PurePosixPath",
            "address": "ipaddress.IPv4Address | ipaddress.IPv6Address",
        }[type_.type]

    def _choice(self, type_: Type) -> str:
        if type_.enumeration:
            return self._named(type_.enumeration)
        return f"typing.Literal[{', '.join(map(repr, type_.choices))}]"

    def _list(self, type_: Type) -> str:
        return f"list[{self.word(type_.items or Type('any'))}]"

    def _mapping(self, type_: Type) -> str:
        return f"dict[{self.word(type_.keys or Type('text'))}, {self.word(type_.items or Type('any'))}]"

    def _record(self, type_: Type) -> str:
        return self._named(type_.record)

    def _union(self, type_: Type) -> str:
        return " | ".join(dict.fromkeys(map(self.word, type_.members)))

    FORMS: ClassVar[Mapping[str, Callable[[PythonTypes, Type], str]]] = {
        **dict.fromkeys(PLAIN, _plain),
        **dict.fromkeys(MODULES, _standard),
        "choice": _choice,
        "list": _list,
        "set": _list,
        "mapping": _mapping,
        "record": _record,
        "tagged": _union,
        "union": _union,
    }
    """Word of a type -> its annotation."""
