"""Types of the model as types of TypeScript, and the imports that they need."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Mapping
from typing import ClassVar

from holdfast.agent.model.package import Module
from holdfast.agent.model.types import Type

SAFE = 2**53 - 1
"""Greatest whole number that the `number` of TypeScript represents exactly."""
PLAIN = {
    "any": "$.Json",
    "none": "null",
    "boolean": "boolean",
    "number": "number",
    "text": "string",
    "bytes": "Uint8Array",
    "moment": "$.Moment",
    "duration": "$.Duration",
    "path": "$.Path",
    "address": "$.Address",
}
"""Word of a type -> its type in TypeScript; `$` is the module of the runtime, since no declaration has such a name."""


class TypeScriptTypes:
    """The types of one module. Modules whose names it uses are imported."""

    def __init__(self, module: Module, end: str = "", *, resources: bool = False) -> None:
        self._module = module.name
        self._end = end
        """End of the names of files: `_stub`."""
        self._resources = resources
        """Whether a resource can stand for its identifier."""
        self._foreign: set[str] = set()

    def imports(self) -> list[str]:
        """Return the import statements of other modules, after all types have been made."""
        return [
            f'import type * as {_identifier(each)} from "{self.path(each)}{self._end}.js";'
            for each in sorted(self._foreign)
        ]

    def path(self, other: str) -> str:
        """Return the path from this module to another one."""
        path = posixpath.relpath(other, posixpath.dirname(self._module) or ".")
        return path if path.startswith("..") else f"./{path}"

    def word(self, type_: Type, *, aliased: bool = True) -> str:
        """Return a type."""
        if type_.alias and aliased:
            return self._named(type_.alias)
        return PLAIN.get(type_.type) or self.FORMS[type_.type](self, type_)

    def _named(self, qualified: str) -> str:
        """Return the name of a declaration: if another module declares it, that of the module before it."""
        module, _, name = qualified.partition(":")
        if module == self._module:
            return name
        self._foreign.add(module)
        return f"{_identifier(module)}.{name}"

    def _integer(self, type_: Type) -> str:
        return "number" if is_small(type_) else "bigint"

    def _choice(self, type_: Type) -> str:
        if type_.enumeration:
            return self._named(type_.enumeration)
        return " | ".join(json.dumps(each, ensure_ascii=False) for each in type_.choices)

    def _list(self, type_: Type) -> str:
        return f"readonly {self._within(self.word(type_.items or Type('any')))}[]"

    def _set(self, type_: Type) -> str:
        return f"ReadonlySet<{self.word(type_.items or Type('any'))}>"

    def _mapping(self, type_: Type) -> str:
        items = self.word(type_.items or Type("any"))
        if type_.keys and type_.keys.type == "choice":
            return f"{{ readonly [key in {self.word(type_.keys)}]?: {items} }}"
        return f"{{ readonly [key: string]: {items} }}"

    def _record(self, type_: Type) -> str:
        return self._named(type_.record)

    def _union(self, type_: Type) -> str:
        return " | ".join(dict.fromkeys(map(self.word, type_.members)))

    def _reference(self, type_: Type) -> str:
        return f"string | {self._named(type_.target.partition(':')[2])}" if self._resources else "string"

    @staticmethod
    def _within(word: str) -> str:
        return f"({word})" if " " in word and not word.startswith("{") else word

    FORMS: ClassVar[Mapping[str, Callable[[TypeScriptTypes, Type], str]]] = {
        "integer": _integer,
        "choice": _choice,
        "list": _list,
        "set": _set,
        "mapping": _mapping,
        "record": _record,
        "tagged": _union,
        "union": _union,
        "reference": _reference,
    }
    """Word of a type -> its type in TypeScript."""


def is_small(type_: Type) -> bool:
    """Return whether the limits of an integer fit into a `number`."""
    least = type_.minimum if type_.minimum is not None else type_.above
    most = type_.maximum if type_.maximum is not None else type_.below
    return all(limit is not None and abs(limit) <= SAFE for limit in (least, most))


def _identifier(module: str) -> str:
    return "$" + module.replace("/", "$")
