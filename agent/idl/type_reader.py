"""Reads the types of the sources as types of the model."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from holdfast.agent.idl.declared import AliasSyntax, ClassSyntax, ModuleSyntax, called, name_of, word_of
from holdfast.agent.idl.limits import LimitError, restrict
from holdfast.agent.idl.names import unknown
from holdfast.agent.idl.report import Node, SourceReport
from holdfast.agent.idl.scope import FoundName, SourceScope
from holdfast.agent.idl.spelling import LEGAL, OF_IDL, PLAIN, spelled, types_of
from holdfast.agent.model.types import ANY, NONE, Type, union

PLAINLY, WORDS = types_of(PLAIN), types_of(OF_IDL)
"""Name of Python, or after `idl.` -> its type."""
INSTEAD: Final[Mapping[str, str]] = {
    "Any": "write `idl.Json`",
    "Dict": "write `dict[str, T]`",
    "FrozenSet": "write `set[T]`",
    "List": "write `list[T]`",
    "Literal": "declare an enumeration: `class Protocol(idl.Enum)`",
    "Optional": "write `T | None`; for a field that may be omitted `idl.field(optional=True)`",
    "Path": "write `idl.Path`",
    "Set": "write `set[T]`",
    "Union": "write `A | B`, of structs with tags",
    "complex": "write a struct of two numbers",
    "date": "write `idl.DateTime`",
    "datetime": "write `idl.DateTime`",
    "frozenset": "write `set[T]`",
    "object": "write `idl.Json`",
    "timedelta": "write `idl.Duration`",
    "tuple": "write `list[T]`, or a struct",
}
"""Name of a type of Python -> its replacement in the language."""
IN_SETS = (
    "boolean",
    "integer",
    "number",
    "text",
    "bytes",
    "moment",
    "duration",
    "path",
    "address",
    "choice",
    "reference",
)


class TypeReader:
    """Reads types; those that are wrong become `any`, after a problem has been recorded."""

    def __init__(
        self, scope: SourceScope, package: str, limits: Mapping[int, Mapping[str, Any]], report: SourceReport
    ) -> None:
        self.scope, self.package, self.report = scope, package, report
        self.limits = limits
        """Identity of a call of `idl.limits` -> its evaluated restrictions."""
        self._aliases: dict[str, Type] = {}
        self._open: list[str] = []
        """Aliases that are being read."""

    def read(self, module: ModuleSyntax, node: ast.expr) -> Type:
        """Return the type of an expression in a module."""
        if isinstance(node, ast.Constant) and node.value is None:
            return NONE
        if name := name_of(node):
            return self._named(module, node, name)
        if isinstance(node, ast.Subscript):
            return self._composed(module, node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self._union(module, node)
        return self._word(module, node, word_of(node))

    def _word(self, module: ModuleSyntax, node: ast.expr, word: str) -> Type:
        if word in WORDS:
            return WORDS[word]
        told, hint = f"`{ast.unparse(node)}` is not a type of the language", LEGAL
        if word == "Ref":
            told, hint = "a reference says to what", "write `idl.Ref[Vpc]`"
        elif word:
            told, hint = unknown("type", f"idl.{word}", [f"idl.{each}" for each in (*WORDS, "Ref")], LEGAL)
        return self._refuse(module, node, "idl-type", told, hint)

    # -- names -------------------------------------------------------------------------------------------------

    def _named(self, module: ModuleSyntax, node: ast.expr, name: str) -> Type:
        found = self.scope.find(module, name)
        if found is None:
            return self._plain(module, node, name)
        if isinstance(found.declared, AliasSyntax):
            return self._aliased(found, found.declared)
        if not isinstance(found.declared, ClassSyntax):
            return self._refuse(module, node, "idl-type", f"{name!r} is a constant, not a type", LEGAL)
        return self._class(module, node, found, found.declared)

    def _plain(self, module: ModuleSyntax, node: ast.expr, name: str) -> Type:
        if name in PLAINLY:
            return PLAINLY[name]
        if name in module.imports:
            return ANY  # the import has been refused
        if name in ("list", "set", "dict"):
            told, hint = f"`{name}` does not say what it contains", f"write `{name}[{'str, ' * (name == 'dict')}str]`"
        else:
            told, hint = unknown("type", name, [*PLAIN, *self.scope.names(module)], LEGAL)
        return self._refuse(module, node, "idl-type", told, INSTEAD.get(name, hint))

    def _class(self, module: ModuleSyntax, node: ast.expr, found: FoundName, made: ClassSyntax) -> Type:
        family = self.scope.family(found.module, made)
        if made.name.startswith("_"):
            told = f"{made.name!r} stays inside its source: other classes can only derive from it"
            return self._refuse(module, node, "idl-type", told, "remove the underscore")
        if family == "enumeration":
            choices = tuple(str(ast.literal_eval(each.node.value)) for each in made.members.values())
            return Type("choice", choices=choices, enumeration=found.qualified)
        if family == "struct":
            return Type("record", record=found.qualified)
        if family == "resource":
            told, hint = f"{made.name!r} is a resource, not a struct", f"refer to it: `idl.Ref[{made.name}]`"
        else:
            told, hint = f"{made.name!r} is a {family}, not a struct", "the types of fields are structs"
        return self._refuse(module, node, "idl-type", told, hint)

    def alias(self, module: ModuleSyntax, alias: AliasSyntax) -> Type:
        """Return the type of an alias."""
        name = f"{module.name}:{alias.name}"
        if name in self._open:
            told = f"the alias {alias.name!r} contains itself"
            self._refuse(module, alias.node, "idl-cycle", told, "a struct may contain itself")
            self._aliases[name] = ANY
        if name not in self._aliases:
            self._open.append(name)
            type_ = self.read(module, alias.type)
            self._open.remove(name)
            self._aliases.setdefault(name, type_)
        return self._aliases[name]

    def _aliased(self, found: FoundName, alias: AliasSyntax) -> Type:
        type_ = self.alias(found.module, alias)
        return type_ if alias.name.startswith("_") or type_ == ANY else replace(type_, alias=found.qualified)

    # -- composed types ----------------------------------------------------------------------------------------

    def _composed(self, module: ModuleSyntax, node: ast.Subscript) -> Type:
        outer, inner = name_of(node.value), node.slice
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        if word_of(node.value) == "Ref":
            return self._reference(module, inner)
        if outer == "Annotated":
            return self._annotated(module, node, parts)
        if outer in ("list", "set"):
            if len(parts) != 1:
                return self._refuse(module, inner, "idl-type", f"a {outer} has items of one type", LEGAL)
            return self._items(module, outer, inner)
        if outer == "dict":
            return self._mapping(module, node, parts)
        shown = outer or ast.unparse(node.value)
        told, hint = unknown("type", shown, ("list", "set", "dict", "Annotated"), LEGAL)
        return self._refuse(module, node, "idl-type", told, INSTEAD.get(shown.removeprefix("typing."), hint))

    def _items(self, module: ModuleSyntax, outer: str, inner: ast.expr) -> Type:
        items = self.read(module, inner)
        if outer == "list":
            return Type("list", items=items)
        if items.type not in IN_SETS and items != ANY:
            hint = "write `list[T]`; the order of a list counts"
            self._refuse(module, inner, "idl-type", f"a set cannot contain {spelled([items.type])}", hint)
        return Type("set", items=items)

    def _mapping(self, module: ModuleSyntax, node: ast.expr, parts: list[ast.expr]) -> Type:
        if len(parts) != 2:
            return self._refuse(module, node, "idl-type", "a mapping has keys and values", "write `dict[str, int]`")
        keys, items = self.read(module, parts[0]), self.read(module, parts[1])
        if keys.type not in ("text", "choice") and keys != ANY:
            hint = "allowed: str, an alias of it, and enumerations"
            self._refuse(
                module, parts[0], "idl-type", f"the key of a mapping is text, not {spelled([keys.type])}", hint
            )
        return Type("mapping", keys=keys, items=items)

    def _annotated(self, module: ModuleSyntax, node: ast.expr, parts: list[ast.expr]) -> Type:
        if len(parts) < 2:
            hint = "write `Annotated[int, idl.limits(minimum=0)]`"
            return self._refuse(module, node, "idl-type", "Annotated has a type and restrictions", hint)
        type_ = self.read(module, parts[0])
        for each in parts[1:]:
            if called(each) != "limits" or not isinstance(each, ast.Call):
                self._refuse(module, each, "idl-type", "only restrictions annotate a type", "write `idl.limits(...)`")
            elif type_ != ANY:
                type_ = self.limited(module, type_, self.limits.get(id(each), {}), each)
        return type_

    def limited(self, module: ModuleSyntax, type_: Type, limits: Mapping[str, Any], node: ast.expr) -> Type:
        """Return a type with the restrictions of a call, or without them, after a problem has been recorded."""
        try:
            return restrict(type_, limits)
        except LimitError as error:
            keywords = node.keywords if isinstance(node, ast.Call) else []
            place = next((each.value for each in keywords if each.arg == error.option), node)
            self._refuse(module, place, "idl-limit", str(error), error.hint)
            return type_

    def _reference(self, module: ModuleSyntax, inner: ast.expr) -> Type:
        name = name_of(inner)
        found = self.scope.find(module, name)
        if found is None and name in module.imports:
            return ANY
        if found is None:
            told, hint = unknown("resource", name or ast.unparse(inner), [*self._resources(module)])
        elif not isinstance(found.declared, ClassSyntax):
            told, hint = f"{name!r} is not a resource", "only resources have identifiers"
        elif (family := self.scope.family(found.module, found.declared)) != "resource":
            if found.declared.broken:
                return ANY
            told, hint = f"{name!r} is a {family}, not a resource", f"write `{name}`: only resources are referred to"
        elif name.startswith("_"):
            told, hint = f"{name!r} is only a base of resources", "refer to a resource that derives from it"
        else:
            return Type("reference", target=f"{self.package}:{found.qualified}")
        return self._refuse(module, inner, "idl-reference", told, hint)

    def _resources(self, module: ModuleSyntax) -> Iterator[str]:
        for name in self.scope.names(module):
            found = self.scope.find(module, name)
            made = found.declared if found else None
            if found and isinstance(made, ClassSyntax) and self.scope.family(found.module, made) == "resource":
                yield name

    # -- unions ------------------------------------------------------------------------------------------------

    def _union(self, module: ModuleSyntax, node: ast.BinOp) -> Type:
        parts = [self.read(module, each) for each in _alternatives(node)]
        none = [NONE] if NONE in parts else []
        others = [member for part in parts if part != NONE for member in self._members(part)]
        if ANY in others or not others:
            return union([*others, *none]) if others else NONE
        if len(others) == 1:
            return union([*others, *none])
        if wrong := [each for each in others if each.type != "record"]:
            told = f"a union with {spelled([wrong[0].type])} cannot tell its types apart"
            hint = "allowed: `T | None` and unions of structs with tags: `class Tcp(idl.Struct, tag='tcp')`"
            return self._refuse(module, node, "idl-union", told, hint)
        self._tags(module, node, others)
        tagged = Type("tagged", members=tuple(others))
        return union([tagged, *none])

    def _members(self, part: Type) -> tuple[Type, ...]:
        return part.members if part.type in ("tagged", "union") else (part,)

    def _tags(self, module: ModuleSyntax, node: ast.expr, records: list[Type]) -> None:
        """Report the first struct of a union whose tag does not distinguish it from the others."""
        seen: dict[str, str] = {}
        for each in records:
            made = self.scope.declared(each.record)
            tag = made.options.get("tag") if isinstance(made, ClassSyntax) else None
            name, text = each.record.rpartition(":")[2], ast.unparse(tag) if tag is not None else ""
            told, hint = "", f"write `class {name}(idl.Struct, tag='...')`"
            if not text:
                told = f"the struct {name!r} of this union has no tag"
            elif text in seen:
                told, hint = f"{seen[text]!r} and {name!r} have the same tag", "each struct has a tag of its own"
            if told:
                self._refuse(module, node, "idl-union", told, hint)
                return
            seen[text] = name

    def _refuse(self, module: ModuleSyntax, node: Node, code: str, message: str, hint: str) -> Type:
        self.report.add(module.source, node, code, message, hint)
        return ANY


def _alternatives(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the parts of `A | B | C`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield from _alternatives(node.left)
        yield from _alternatives(node.right)
    else:
        yield node
