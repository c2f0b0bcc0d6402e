"""Builds the model of a package from the declarations in its sources and the result of their evaluation."""

from __future__ import annotations

import ast
import base64
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from holdfast.agent.idl.declared import AliasSyntax, ClassSyntax, ConstantSyntax, FieldSyntax, ModuleSyntax, word_of
from holdfast.agent.idl.evaluation import ClassAnswer, ModuleAnswer, value_of
from holdfast.agent.idl.fields import FieldReader, wrong_version
from holdfast.agent.idl.names import kind_name
from holdfast.agent.idl.report import SourceReport
from holdfast.agent.idl.scope import FoundClass, SourceScope
from holdfast.agent.idl.sources import Manifest
from holdfast.agent.idl.type_reader import TypeReader
from holdfast.agent.model.docstrings import parsed
from holdfast.agent.model.model import ABSENT, Field, KindModel, Record, Remote, Rule
from holdfast.agent.model.package import Constant, Enumeration, EnumValue, FunctionModel, Module, NamedType, Package
from holdfast.agent.model.reading import value as checked
from holdfast.agent.model.types import BOOLEAN, INTEGER, NONE, NUMBER, TEXT, Type, union

NAME: Final = Field(
    "name",
    Type("text", shortest=1),
    doc="Name of the resource.",
    replaces=True,
    computed=True,
)
"""The field that `NamedResource` has. A test compares it with the language."""
OPTIONS: Final[Mapping[str, tuple[Any, str]]] = {
    "poll": (float, "a number of seconds"),
    "delete_first": (bool, "True or False"),
    "version": (int, "a whole number"),
    "formerly": (tuple[str, ...], "a tuple of tokens: ('aws:ec2/vpc:Network',)"),
    "deprecated": (str, "text"),
    "since": (str, "text"),
    "tag": (str, "text"),
}
"""Option of a class -> the type of its value, for the check and for messages."""


class Builder:
    """Builds one package."""

    def __init__(
        self, manifest: Manifest, scope: SourceScope, answers: Mapping[str, ModuleAnswer], report: SourceReport
    ) -> None:
        self.manifest, self.scope, self.answers, self.report = manifest, scope, answers, report
        limits = {
            id(call): values
            for module in scope.modules.values()
            for call, values in zip(module.limits, self._answer(module).limits, strict=False)
        }
        self.types = TypeReader(scope, manifest.name, limits, report)
        self.reader = FieldReader(self.types, manifest.version, report)
        self.own: dict[str, list[tuple[FieldSyntax, Field]]] = {}
        """Qualified name of a class -> its own fields."""

    def build(self) -> Package:
        """Return the package; it is complete only if no problem was recorded."""
        for module, made in self.scope.classes():
            family = self.scope.family(module, made)
            given = self._class_answer(module, made).fields
            self.own[f"{module.name}:{made.name}"] = list(self.reader.read(module, made, family, given))
        configs = [
            f"{module.name}:{made.name}"
            for module, made in self.scope.classes()
            if self.scope.family(module, made) == "config" and not made.name.startswith("_")
        ]
        modules = [self._module(each) for each in self.scope.modules.values()]
        return Package(
            name=self.manifest.name,
            version=self.manifest.version,
            docs=parsed(self.manifest.description.strip()),
            modules=tuple(sorted(modules, key=lambda each: each.name)),
            config=configs[0] if configs else "",
            user=self.manifest.user,
        )

    def fields(
        self, module: ModuleSyntax, made: ClassSyntax
    ) -> dict[str, tuple[FoundClass, FieldSyntax | None, Field]]:
        """Return all fields of a class by name, those of its bases first, each with the class that declares it."""
        found: dict[str, tuple[FoundClass, FieldSyntax | None, Field]] = {}
        lineage = [*self.scope.lineage(module, made)]
        if is_named(lineage):
            found[NAME.name] = lineage[-1], None, NAME
        for each in reversed(lineage):
            for syntax, field in self.own.get(each.qualified, ()):
                found[field.name] = each, syntax, field
        return found

    def rules(self, module: ModuleSyntax, made: ClassSyntax) -> tuple[Rule, ...]:
        """Return the rules of a class and of those from which it derives."""
        lineage = reversed([*self.scope.lineage(module, made)])
        return tuple(itertools.chain.from_iterable(self._own_rules(each) for each in lineage))

    def _own_rules(self, found: FoundClass) -> Iterator[Rule]:
        for each in found.declared.rules:
            word: Any = word_of(each.func).replace("_", " ")
            yield Rule(word, tuple(str(getattr(name, "value", "")) for name in each.args))

    # -- modules -----------------------------------------------------------------------------------------------

    def _answer(self, module: ModuleSyntax) -> ModuleAnswer:
        return self.answers.get(module.name, ModuleAnswer())

    def _class_answer(self, module: ModuleSyntax, made: ClassSyntax) -> ClassAnswer:
        return self._answer(module).classes.get(made.name, ClassAnswer())

    def _module(self, module: ModuleSyntax) -> Module:
        parts: dict[str, list[Any]] = {
            each: [] for each in ("resources", "records", "enumerations", "aliases", "constants", "functions")
        }
        order = []
        for each in module.declared.values():
            if each.name.startswith("_"):
                if isinstance(each, AliasSyntax):
                    self.types.alias(module, each)
                continue
            order.append(each.name)
            if isinstance(each, AliasSyntax):
                parts["aliases"].append(self._alias(module, each))
            elif isinstance(each, ConstantSyntax):
                parts["constants"].append(self.constant(module, each))
            else:
                family = self.scope.family(module, each)
                make = {"resource": self._resource, "function": self._function, "enumeration": self._enumeration}
                where = {"struct": "records", "config": "records"}.get(family, f"{family}s")
                parts[where].append(make.get(family, self._record)(module, each))
        found = {name: tuple(each) for name, each in parts.items()}
        return Module(module.name, parsed(module.doc), module.comment, tuple(order), **found)

    def _alias(self, module: ModuleSyntax, alias: AliasSyntax) -> NamedType:
        return NamedType(alias.name, self.types.alias(module, alias), alias.doc, alias.comment)

    def constant(self, module: ModuleSyntax, constant: ConstantSyntax) -> Constant:
        """Return a constant with its value."""
        value = value_of(self._answer(module).constants.get(constant.name))
        type_ = self.types.read(module, constant.type) if constant.type is not None else _type_of(value)
        if constant.type is None and isinstance(constant.value, ast.Attribute):
            type_ = self.types.read(module, constant.value.value)  # a value of an enumeration
        return Constant(constant.name, type_, written(value), constant.doc, constant.comment)

    # -- classes -----------------------------------------------------------------------------------------------

    def _enumeration(self, _: ModuleSyntax, made: ClassSyntax) -> Enumeration:
        values = tuple(
            EnumValue(each.name, str(getattr(each.node.value, "value", "")), each.doc, each.comment)
            for each in made.members.values()
        )
        return Enumeration(made.name, parsed(made.doc), values, made.comment)

    def _record(self, module: ModuleSyntax, made: ClassSyntax) -> Record:
        options = self._options(module, made)
        return Record(
            made.name,
            parsed(made.doc),
            self._plain_fields(module, made),
            self.rules(module, made),
            tag=options.get("tag", ""),
            deprecated=options.get("deprecated", ""),
            since=options.get("since", ""),
            comment=made.comment,
        )

    def _function(self, module: ModuleSyntax, made: ClassSyntax) -> FunctionModel:
        options = self._options(module, made)
        fields = self._plain_fields(module, made)
        return FunctionModel(
            made.name,
            parsed(made.doc),
            tuple(each for each in fields if not each.out),
            tuple(each for each in fields if each.out),
            self.rules(module, made),
            deprecated=options.get("deprecated", ""),
            since=options.get("since", ""),
            comment=made.comment,
        )

    def _resource(self, module: ModuleSyntax, made: ClassSyntax) -> KindModel:
        options = self._options(module, made)
        options.pop("tag", None)
        remote = Remote(
            f"{self.manifest.name}:{module.name}:{made.name}",
            named=is_named([*self.scope.lineage(module, made)]),
            rules=self.rules(module, made),
            comment=made.comment,
            **options,
        )
        return KindModel(
            name=kind_name(self.manifest.name, module.name, made.name),
            docs=parsed(made.doc),
            fields=self._plain_fields(module, made),
            remote=remote,
        )

    def _plain_fields(self, module: ModuleSyntax, made: ClassSyntax) -> tuple[Field, ...]:
        return tuple(
            field if field.default is ABSENT else replace(field, default=written(field.default))
            for _, _, field in self.fields(module, made).values()
        )

    def _options(self, module: ModuleSyntax, made: ClassSyntax) -> dict[str, Any]:
        """Return the options of a class with values of the right types; report others."""
        found = {}
        for name, data in self._class_answer(module, made).options.items():
            hint, words = OPTIONS.get(name, (None, ""))
            told = ""
            try:
                found[name] = checked(hint, data) if hint is not None else data
            except ValueError:
                told = f"the option {name!r} is {words}"
            if name in found and (told := self._wrong(name, found[name])):
                del found[name]
            if told:
                place = made.options.get(name, made.node)
                self.report.add(module.source, place, "idl-option-value", told, "")
        return found

    def _wrong(self, name: str, value: Any) -> str:
        if name == "poll" and value < 0:
            return "the option 'poll' is a number of seconds, which is not negative"
        if name == "version" and value < 1:
            return "the version of a state is 1 or more"
        if name == "formerly" and (wrong := [each for each in value if each.count(":") != 2]):
            return f"{wrong[0]!r} is not a token: `package:module:Name`"
        return wrong_version(value, self.manifest.version) if name == "since" else ""


def is_named(lineage: list[FoundClass]) -> bool:
    """Return whether a class derives from `NamedResource`."""
    bases = lineage[-1].declared.node.bases if lineage else []
    return bool(bases) and word_of(bases[0]) == "NamedResource"


def written(value: Any) -> Any:
    """Return a value as data for JSON: bytes become text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [written(item) for item in value]
    return {key: written(item) for key, item in value.items()} if isinstance(value, dict) else value


def _type_of(value: Any) -> Type:
    """Return the type of a constant that is declared without one."""
    plain: Mapping[type, Type] = {bool: BOOLEAN, int: INTEGER, float: NUMBER, str: TEXT, bytes: Type("bytes")}
    if isinstance(value, list):
        return Type("list", items=union(map(_type_of, value)) if value else Type("any"))
    if isinstance(value, dict):
        return Type("mapping", keys=TEXT, items=union(map(_type_of, value.values())) if value else Type("any"))
    return plain.get(type(value), NONE)
