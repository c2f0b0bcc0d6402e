"""Types of the model as annotations of Python, and the imports that they need."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar

from holdfast.agent.model.package import Module
from holdfast.agent.model.types import Type

CLASSES = {
    "moment": ("datetime", "datetime"),
    "duration": ("datetime", "timedelta"),
    "path": ("pathlib", "PurePosixPath"),
}
"""Word of a type -> the module and the name of its class."""
BUILTINS = {
    "boolean": "bool",
    "integer": "int",
    "number": "float",
    "text": "str",
    "bytes": "bytes",
    "reference": "str",
}
"""Word of a type -> its class."""


class PythonTypes(ABC):
    """The annotations of one generated module, which collect the imports that they need.

    A field hides an outer name that equals its own, for type checkers and for the defaults of the fields below it. So a
    module or class of Python whose name equals that of a field is imported under another name.
    """

    library: ClassVar[str]
    """The module of holdfast that generated modules of this sort import."""

    def __init__(self, module: Module) -> None:
        self.home = module.name
        fields = [*(each.fields for each in module.records), *(each.fields for each in module.resources)]
        fields += [parts for each in module.functions for parts in (each.parameters, each.results)]
        self.taken = {each.name for several in fields for each in several}
        self._standard: set[str] = set()
        self._foreign: set[str] = set()
        self._expanding = False

    def imports(self) -> list[str]:
        """Return the import statements at the top. Call this after the rest of the module has been made."""
        renamed = "" if self.free(self.library) == self.library else f" as {self.free(self.library)}"
        parts = (sorted(self._standard), [f"from holdfast import {self.library}{renamed}"])
        return ["from __future__ import annotations", *(line for part in parts if part for line in ("", *part))]

    def foreign_imports(self) -> list[str]:
        """Return the statements that import other modules of the package; they stand below all classes.

        Modules may refer to each other in a circle, so each has its classes before it imports another one.
        """
        return sorted(self._foreign)

    def free(self, name: str) -> str:
        """Return a name that no field has."""
        return f"_{name}" if name in self.taken else name

    def module(self, name: str) -> str:
        """Return the name of a module of Python, which will be imported."""
        local = self.free(name)
        self._standard.add(f"import {name}" + (f" as {local}" if local != name else ""))
        return local

    def of_library(self, name: str) -> str:
        """Return a name of the library."""
        return f"{self.free(self.library)}.{name}"

    def builtin(self, name: str) -> str:
        """Return the name of a class of Python itself."""
        return f"{self.module('builtins')}.{name}" if name in self.taken else name

    def word(self, type_: Type) -> str:
        """Return the annotation of a type."""
        if type_.alias and not self._expanding:
            return self.named(type_.alias)
        return self.FORMS[type_.type](self, type_)

    def expanded(self, type_: Type) -> str:
        """Return the annotation of a type without aliases, which another module may not have yet."""
        self._expanding = True
        try:
            return self.FORMS[type_.type](self, type_)
        finally:
            self._expanding = False

    def named(self, qualified: str) -> str:
        """Return the name of a declaration: if another module declares it, that of the module before it."""
        module, _, name = qualified.partition(":")
        if module == self.home:
            return name
        statement, local = self.foreign(module)
        self._foreign.add(statement)
        return f"{local}.{name}"

    @abstractmethod
    def foreign(self, module: str) -> tuple[str, str]:
        """Return the statement that imports another module of the package, and the name of the module after it."""

    def _any(self, _: Type) -> str:
        return f"{self.module('typing')}.Any"

    def _none(self, _: Type) -> str:
        return "None"

    def _builtin(self, type_: Type) -> str:
        return self.builtin(BUILTINS[type_.type])

    def _class(self, type_: Type) -> str:
        module, name = CLASSES[type_.type]
        return f"{self.module(module)}.{name}"

    def _address(self, _: Type) -> str:
        module = self.module("ipaddress")
        return f"{module}.IPv4Address | {module}.IPv6Address"

    def _choice(self, type_: Type) -> str:
        if type_.enumeration:
            return self.named(type_.enumeration)
        return f"{self.module('typing')}.Literal[{', '.join(map(repr, type_.choices))}]"

    def _list(self, type_: Type) -> str:
        return f"{self.builtin('list')}[{self.word(type_.items or Type('any'))}]"

    def _mapping(self, type_: Type) -> str:
        keys, items = self.word(type_.keys or Type("text")), self.word(type_.items or Type("any"))
        return f"{self.builtin('dict')}[{keys}, {items}]"

    def _record(self, type_: Type) -> str:
        return self.named(type_.record)

    def _reference(self, type_: Type) -> str:
        return self.reference(type_)

    def reference(self, type_: Type) -> str:
        """Return the annotation of a reference: an identifier."""
        return self._builtin(type_)

    def _union(self, type_: Type) -> str:
        return " | ".join(dict.fromkeys(map(self.word, type_.members)))

    FORMS: ClassVar[Mapping[str, Callable[[PythonTypes, Type], str]]] = {
        "any": _any,
        "none": _none,
        "address": _address,
        **dict.fromkeys(BUILTINS, _builtin),
        **dict.fromkeys(CLASSES, _class),
        "choice": _choice,
        "list": _list,
        "set": _list,
        "mapping": _mapping,
        "record": _record,
        "reference": _reference,
        "tagged": _union,
        "union": _union,
    }
    """Word of a type -> its annotation."""
