"""The last step of the check: conditions on several declarations. Names, rules, defaults, enumerations, references."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from holdfast.agent.idl.build import Builder
from holdfast.agent.idl.declared import ClassSyntax, ConstantSyntax, FieldSyntax, ModuleSyntax, word_of
from holdfast.agent.idl.names import GENERATED, kind_name, unknown
from holdfast.agent.idl.report import Node
from holdfast.agent.idl.scope import FoundClass
from holdfast.agent.model.model import ABSENT, Field
from holdfast.agent.model.package import Package
from holdfast.agent.model.types import Type, members
from holdfast.agent.plugins.decode import Decoder
from holdfast.agent.plugins.schema import Schema
from holdfast.states.compile.low import CONTROL
from holdfast.states.requisite_kinds import REQUISITES, REVERSED

RESERVED: Final = frozenset(("ensure", "names", *REQUISITES, *REVERSED))
"""Arguments of every state, which a field would hide."""
KEYS: Final = CONTROL - {"name"}
"""Keys of states that are not arguments."""
COMPARABLE = ("integer", "number", "moment", "duration")
VALUE_NAME = re.compile(r"[A-Z][A-Z0-9_]*", re.ASCII)
Fields = dict[str, tuple[FoundClass, FieldSyntax | None, Field]]


class StructureCheck:
    """Checks the whole package."""

    def __init__(self, builder: Builder, package: Package) -> None:
        self.builder, self.scope, self.report = builder, builder.scope, builder.report
        self.package = package
        self.schema = Schema(package)

    def check(self) -> None:
        """Check everything."""
        kinds: dict[str, str] = {}
        configs: list[str] = []
        for module, made in self.scope.classes():
            family = self.scope.family(module, made)
            fields = self.builder.fields(module, made)
            if family == "enumeration":
                self._enumeration(module, made)
            elif family == "resource" and not made.name.startswith("_"):
                self._kind(module, made, kinds)
                inputs = {name: each for name, each in fields.items() if not each[2].out}
                self._reserved(module, made, fields, RESERVED, "every state has an argument of this name")
                self._reserved(module, made, inputs, KEYS, "it means something else in every state")
            elif family == "config" and not made.name.startswith("_"):
                configs.append(made.name)
                if len(configs) > 1:
                    hint = "a provider has one configuration; its parts can be structs"
                    told = f"{configs[0]!r} and {made.name!r} both configure the provider"
                    self._refuse(module, made.node, "idl-config", told, hint)
            if "tag" in made.options:
                self._reserved(module, made, fields, {"type"}, "the tag is the member 'type'")
            self._reserved(module, made, fields, {"constructor"}, "no class of TypeScript can have such a member")
            self._generated(module, made, family)
            self._wire(module, made, fields)
            self._rules(module, made, fields)
            self._defaults(module, made)
        for module in self.scope.modules.values():
            self._constants(module)

    # -- names -------------------------------------------------------------------------------------------------

    def _kind(self, module: ModuleSyntax, made: ClassSyntax, kinds: dict[str, str]) -> None:
        kind = kind_name(self.package.name, module.name, made.name)
        if kind in kinds:
            told = f"{made.name!r} and {kinds[kind]} have the same name in state files: {kind}"
            self._refuse(module, made.node, "idl-duplicate", told, "rename one, or put it into another folder")
        kinds.setdefault(kind, f"{made.name!r} of {module.name!r}")

    def _generated(self, module: ModuleSyntax, made: ClassSyntax, family: str) -> None:
        """Refuse a declaration with a name that generated files use for something else."""
        for end in GENERATED.get(family, ()):
            other = module.declared.get(made.name + end)
            if other is not None and not made.name.startswith("_"):
                told = f"generated files declare {other.name!r} for {made.name!r}"
                self._refuse(module, other.node, "idl-duplicate", told, "rename one of them")

    def _reserved(self, module: ModuleSyntax, made: ClassSyntax, fields: Fields, reserved: Any, why: str) -> None:
        for name, (_, syntax, field) in fields.items():
            if name in reserved or field.wire in reserved:
                place = syntax.node if syntax is not None and name in made.fields else made.node
                told = f"a field cannot have the name {name!r}"
                self._refuse(module, place, "idl-reserved", told, f"{why}; rename it")

    def _wire(self, module: ModuleSyntax, made: ClassSyntax, fields: Fields) -> None:
        seen: dict[str, str] = {}
        for name, (_, syntax, field) in fields.items():
            wire = field.wire or field.name
            if wire in seen and (syntax is None or not syntax.broken):
                place = syntax.place("name") if syntax is not None and name in made.fields else made.node
                told = f"{seen[wire]!r} and {name!r} have the same name on the wire: {wire}"
                self._refuse(module, place, "idl-duplicate", told, "give one of them another name: `name='other'`")
            seen.setdefault(wire, name)

    def _enumeration(self, module: ModuleSyntax, made: ClassSyntax) -> None:
        if not any(isinstance(each, ast.Assign) for each in made.node.body):
            told = f"the enumeration {made.name!r} has no values"
            self._refuse(module, made.node, "idl-enum", told, 'write `TCP = "tcp"`')
        names: dict[str, str] = {}
        values: dict[str, str] = {}
        for each in made.members.values():
            value = str(getattr(each.node.value, "value", ""))
            if not VALUE_NAME.fullmatch(each.name):
                hint = "allowed: capitals, digits and underscores: `TCP`"
                self._refuse(module, each.node, "idl-name", f"{each.name!r} is not a valid name of a value", hint)
            elif (near := names.get(each.name.replace("_", ""))) is not None:
                told = f"the names {near!r} and {each.name!r} cannot be told apart in every language"
                self._refuse(module, each.node, "idl-enum", told, "rename one of them")
            elif value in values:
                told = f"{values[value]!r} and {each.name!r} are the same value: {value!r}"
                self._refuse(module, each.node.value, "idl-enum", told, "each name has a value of its own")
            names[each.name.replace("_", "")] = each.name
            values.setdefault(value, each.name)

    # -- rules and values --------------------------------------------------------------------------------------

    def _rules(self, module: ModuleSyntax, made: ClassSyntax, fields: Fields) -> None:
        for call in made.rules:
            word = word_of(call.func)
            names = [str(getattr(each, "value", "")) for each in call.args]
            known = [(node, fields[name]) for node, name in zip(call.args, names, strict=True) if name in fields]
            for node, name in zip(call.args, names, strict=True):
                if name not in fields and not made.broken:
                    told, hint = unknown("field", name, fields)
                    self._refuse(module, node, "idl-rule", told, hint)
            if len(set(names)) < len(names):
                self._refuse(module, call, "idl-rule", "this rule names a field twice", "name each field once")
            for node, (_, _, field) in known:
                told = _misfit(word, field)
                if told:
                    code = "idl-output-input" if field.out else "idl-rule"
                    self._refuse(module, node, code, told, "a rule is about inputs that may be given or not")
            types = {_comparable(field.type) for _, (_, syntax, field) in known if not syntax or not syntax.broken}
            if word == "ordered" and known and (len(types) > 1 or None in types):
                hint = f"they have one type: {', '.join(COMPARABLE)}"
                self._refuse(module, call, "idl-rule", "the values of these fields have no order", hint)

    def _defaults(self, module: ModuleSyntax, made: ClassSyntax) -> None:
        for syntax, field in self.builder.own[f"{module.name}:{made.name}"]:
            if field.default is not ABSENT and not syntax.broken:
                for told in self._misfits(field.type, field.default):
                    self._refuse(
                        module, syntax.place("default"), "idl-default", f"the default does not fit: {told}", ""
                    )

    def _constants(self, module: ModuleSyntax) -> None:
        for each in module.declared.values():
            if isinstance(each, ConstantSyntax) and each.type is not None and not each.broken:
                answer = self.builder.answers.get(module.name)
                if answer is None:
                    continue
                made = self.builder.constant(module, each)
                for told in self._misfits(made.type, made.value):
                    self._refuse(module, each.value, "idl-default", f"the value does not fit: {told}", "")

    def _misfits(self, type_: Type, value: Any) -> Iterator[str]:
        """Yield the problems of a value of a type."""
        decoder = Decoder(self.schema, wire=False)
        try:
            decoder.value(type_, value, "")
        except (KeyError, RecursionError):  # the type itself has a problem, which was reported
            return
        for each in decoder.violations[:1]:
            yield f"{each.path}: {each.message}" if each.path else each.message

    def _refuse(self, module: ModuleSyntax, node: Node, code: str, message: str, hint: str) -> None:
        self.report.add(module.source, node, code, message, hint)


def _comparable(type_: Type) -> str | None:
    words = {each.type for each in members(type_) if each.type != "none"}
    word = next(iter(words)) if len(words) == 1 else None
    return {"integer": "number"}.get(word, word) if word in COMPARABLE else None


def _misfit(word: str, field: Field) -> str:
    """Return why a rule cannot refer to a field; empty if it can."""
    if field.out:
        return f"{field.name!r} is set by the provider, so it is not an input"
    if word != "ordered" and field.required:
        return f"{field.name!r} is required, so it is always given"
    if word != "ordered" and field.default is not ABSENT and field.default is not None:
        return f"{field.name!r} has a default, so it always has a value"
    return ""


# -- references --------------------------------------------------------------------------------------------------


class Cycles:
    """Finds resources and structs that could never be created, because each needs another one first."""

    def __init__(self, builder: Builder, package: Package) -> None:
        self.builder, self.scope = builder, builder.scope
        self.token = f"{package.name}:"

    def report(self) -> None:
        """Report each circle once, at the first of its classes."""
        needs = {f"{module.name}:{made.name}": [*self._needs(module, made)] for module, made in self.scope.classes()}
        graph = {
            name: {each: need.place for need in needs[name] for each in need.classes if each in needs}
            for name in _impossible(needs)
        }
        reported: set[str] = set()
        for start in graph:
            circle = None if start in reported else _circle(start, graph)
            if circle is None or reported & set(circle):
                continue
            reported |= set(circle)
            module, node = graph[start][circle[1 % len(circle)]]
            shown = " -> ".join(each.rpartition(":")[2] for each in [*circle, start])
            hint = "make one of these fields optional, or an output"
            told = f"these can never be created, because each needs the next one first: {shown}"
            self.builder.report.add(module.source, node, "idl-cycle", told, hint)

    def _needs(self, module: ModuleSyntax, made: ClassSyntax) -> Iterator[_Need]:
        for home, syntax, field in self.builder.fields(module, made).values():
            if syntax is not None and field.required and not field.out and not syntax.broken:
                classes = self._within(field.type)
                if classes:
                    yield _Need(classes, (home.module, syntax.node))

    def _within(self, type_: Type) -> tuple[str, ...]:
        """Return the classes for a value of a type: an instance of one of them is needed; empty if none is."""
        if type_.type == "reference":
            return (type_.target.removeprefix(self.token),)
        if type_.type == "record":
            return (type_.record,)
        if type_.type == "tagged":
            return tuple(each.record for each in type_.members)
        if type_.type in ("list", "set", "mapping") and type_.shortest and type_.items is not None:
            return self._within(type_.items)
        return ()


class _Need(NamedTuple):
    """A field that always has a value."""

    classes: tuple[str, ...]
    """An instance of one of these must exist before."""
    place: tuple[ModuleSyntax, Node]


def _impossible(needs: Mapping[str, Sequence[_Need]]) -> list[str]:
    """Return the classes that can have no first instance."""
    rest = dict(needs)
    while possible := [
        name for name, each in rest.items() if all(any(one not in rest for one in need.classes) for need in each)
    ]:
        for name in possible:
            del rest[name]
    return [*rest]


def _circle(start: str, graph: Mapping[str, Mapping[str, Any]]) -> list[str] | None:
    """Return the shortest way from a class back to itself."""
    ways = {name: [start] for name in graph.get(start, ())}
    for _ in range(len(graph) + 1):
        if start in ways:
            return ways[start]
        longer = {
            after: [*way, name] for name, way in ways.items() for after in graph.get(name, ()) if after not in ways
        }
        if not longer:
            return None
        ways |= longer
    return None
