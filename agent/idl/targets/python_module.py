"""A generated module of Python: the common part of stubs of providers and modules for users."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from holdfast.agent.idl.targets.python_text import INDENT, comment, docstring, literal
from holdfast.agent.idl.targets.python_types import PythonTypes
from holdfast.agent.model.docstrings import Docs
from holdfast.agent.model.model import Field, KindModel, Record
from holdfast.agent.model.package import Constant, Enumeration, FunctionModel, Module, NamedType, Package

PASS = f"{INDENT}pass"
LATE = "# Here, because modules may refer to each other in a circle."


class PythonModule(ABC):
    """Makes the text of one module: constants, enumerations, structs, resources, functions, and aliases.

    Aliases stand last, below the imports of other modules: only they are evaluated when the module is imported.
    """

    def __init__(self, package: Package, module: Module, types: PythonTypes) -> None:
        self.package = package
        self.module = module
        self.types = types

    def text(self) -> str:
        """Return the text of the file."""
        parts = [*map(self._constant, self.module.constants), *map(self._enumeration, self.module.enumerations)]
        parts += [*map(self._record, self.module.records), *map(self.resource, self.module.resources)]
        parts += filter(None, map(self.function, self.module.functions))
        aliases = [*map(self._alias, self.module.aliases)]
        parts += ["\n".join([LATE, *foreign])] if (foreign := self.types.foreign_imports()) else []
        head = [*comment(self.module.comment), *docstring(self.module.docs), ""]
        body = "\n\n\n".join([*parts, *aliases])
        return "\n".join([*head, *self.types.imports(), *(["", "", body] if body else []), ""])

    @abstractmethod
    def resource(self, kind: KindModel) -> str:
        """Return the classes of a resource."""

    @abstractmethod
    def function(self, function: FunctionModel) -> str:
        """Return the classes of a function; empty if there are none."""

    @abstractmethod
    def field(self, field: Field) -> str:
        """Return the type of a field, and its default."""

    def _alias(self, alias: NamedType) -> str:
        lines = [*comment(alias.comment), f"{alias.name} = {self.types.expanded(alias.type)}"]
        return "\n".join([*lines, *docstring(Docs(alias.doc))])

    def _constant(self, constant: Constant) -> str:
        declared = f"{constant.name}: {self.types.module('typing')}.Final = {literal(constant.value)}"
        return "\n".join([*comment(constant.comment), declared, *docstring(Docs(constant.doc))])

    def _enumeration(self, enumeration: Enumeration) -> str:
        base = f"{self.types.module('enum')}.StrEnum"
        lines = [*comment(enumeration.comment), f"class {enumeration.name}({base}):"]
        lines += [*docstring(enumeration.docs, INDENT), ""]
        for each in enumeration.values:
            lines += [*comment(each.comment, INDENT), f"{INDENT}{each.name} = {literal(each.value)}"]
            lines += docstring(Docs(each.doc), INDENT)
        return "\n".join(lines)

    def _record(self, record: Record) -> str:
        tag = [f"_tag = {literal(record.tag)}"] if record.tag else []
        return self.struct(record.name, record.docs, record.fields, record.comment, more=tag)

    def struct(
        self,
        name: str,
        docs: Docs,
        fields: Sequence[Field],
        above: str,
        *,
        base: str = "Struct",
        options: str = "kw_only=True",
        more: Sequence[str] = (),
    ) -> str:
        """Return the dataclass of a struct. `above` is its comment; `more` is the beginning of its body."""
        decorator = f"@{self.types.module('dataclasses')}.dataclass(frozen=True, {options})"
        lines = [*comment(above), decorator, f"class {name}({self.types.of_library(base)}):"]
        body = [f"{INDENT}{each}" for each in more]
        for each in fields:
            body += [*comment(each.comment, INDENT), f"{INDENT}{each.name}: {self.field(each)}"]
            body += docstring(Docs(each.doc), INDENT)
        head = docstring(docs, INDENT)
        return "\n".join([*lines, *head, *([""] if head and body else []), *body, *([] if head or body else [PASS])])
