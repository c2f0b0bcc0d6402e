"""The fields of a class: makes fields of the model from the syntax, and checks combinations of options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields as members_of
from typing import Any, Final, get_type_hints

from holdfast.agent.idl.declared import ClassSyntax, FieldSyntax, ModuleSyntax
from holdfast.agent.idl.evaluation import value_of
from holdfast.agent.idl.limits import FOR
from holdfast.agent.idl.names import wire_name
from holdfast.agent.idl.report import SourceReport
from holdfast.agent.idl.scope import Family
from holdfast.agent.idl.sources import VERSION
from holdfast.agent.idl.type_reader import TypeReader
from holdfast.agent.model.model import ABSENT, Field
from holdfast.agent.model.reading import value as checked
from holdfast.agent.model.types import NONE, Type, members
from holdfast.resources.idl import Declared

HINTS: Final[Mapping[str, Any]] = {**get_type_hints(Declared), "default": Any}
WRITTEN: Final[Mapping[Any, str]] = {
    bool: "True or False",
    str: "text",
    tuple[str, ...]: "a tuple of texts: ('TOKEN',)",
    int: "a whole number",
    float: "a number",
}
"""Type of an option -> description of its value for messages."""
WIRE = re.compile(r"[A-Za-z][A-Za-z0-9]*", re.ASCII)
OF_RESOURCES: Final[Mapping[str, str]] = {
    "out": "only a provider of resources or functions sets fields",
    "computed": "only a provider of resources sets fields",
    "replaces": "only a resource can be replaced",
    "write_only": "only the state of a resource is stored",
}
"""Option that only fields of resources have -> the reason."""
OF_INPUTS = ("default", "environment", "computed", "write_only")
"""Options that only an input has."""
CONTRADICTIONS: Final = (
    ("out", "replaces", "a change of a value that the provider sets has no meaning"),
    ("default", "optional", "a field with a default is optional"),
    ("default", "computed", "the provider sets what is not given, so a default is never used"),
    ("computed", "optional", "a computed field is optional"),
    ("computed", "environment", "the environment gives what is not given, so nothing is computed"),
    ("computed", "write_only", "what the provider sets is returned"),
    ("secret", "default", "a secret in the source is none; the environment can give it: `environment=('TOKEN',)`"),
)
"""Two options that contradict each other, and why."""


class FieldReader:
    """Reads the fields of classes."""

    def __init__(self, types: TypeReader, version: str, report: SourceReport) -> None:
        self.types, self.version, self.report = types, version, report

    def read(
        self, module: ModuleSyntax, made: ClassSyntax, family: Family, given: Mapping[str, Mapping[str, Any]]
    ) -> Iterator[tuple[FieldSyntax, Field]]:
        """Yield the own fields of a class; `given` has the evaluated options of each."""
        for each in made.fields.values():
            type_ = self.types.read(module, each.type)
            options = self._options(module, each, given.get(each.name, {}))
            limits = {name: options.pop(name) for name in FOR if name in options}
            place = each.node.value or each.node.annotation
            field = _field(each, self.types.limited(module, type_, limits, place), options)
            if not each.broken:
                self._check(module, each, field, options, "resource" if made.broken else family)
            yield each, field

    def _options(self, module: ModuleSyntax, field: FieldSyntax, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options with values of the right types; report others."""
        found = {}
        for name, data in given.items():
            try:
                found[name] = value_of(data) if name in ("default", *FOR) else checked(HINTS.get(name, Any), data)
            except ValueError:
                told = f"the option {name!r} is {WRITTEN.get(HINTS.get(name), 'another value')}"
                self._refuse(module, field, name, "idl-option-value", (told, ""))
        return found

    def _check(
        self, module: ModuleSyntax, field: FieldSyntax, made: Field, options: Mapping[str, Any], family: Family
    ) -> None:
        for name, why in OF_RESOURCES.items():
            if options.get(name) and family != "resource" and not (name == "out" and family == "function"):
                told = f"the option {name!r} is not for fields of a {family}"
                self._refuse(module, field, name, "idl-resource-only", (told, why))
        if made.out and (inputs := [each for each in OF_INPUTS if each in options]):
            told = f"{field.name!r} is set by the provider, and {inputs[0]!r} is only for inputs"
            self._refuse(module, field, inputs[0], "idl-output-input", (told, f"remove 'out' or {inputs[0]!r}"))
        for first, second, why in CONTRADICTIONS:
            if first in options and second in options and options[first] is not False and options[second] is not False:
                told = f"the options {first!r} and {second!r} contradict each other"
                self._refuse(module, field, second, "idl-contradiction", (told, why))
        self._check_values(module, field, made)

    def _check_values(self, module: ModuleSyntax, field: FieldSyntax, made: Field) -> None:
        if made.deprecated and made.required and not made.out:
            told = f"{field.name!r} is required and deprecated, so no declaration can leave it out"
            self._refuse(module, field, "deprecated", "idl-contradiction", (told, "make it optional"))
        if made.unit and not any(each.type in ("integer", "number") for each in members(made.type)):
            self._refuse(module, field, "unit", "idl-contradiction", ("a unit is for numbers", "remove 'unit'"))
        if made.type == NONE:
            told = f"{field.name!r} can only be null"
            self._refuse(module, field, "", "idl-type", (told, "write `T | None`"))
        if made.wire and not WIRE.fullmatch(made.wire):
            hint = "allowed: letters and digits, with a letter first: `cidrBlock`"
            self._refuse(
                module, field, "name", "idl-option-value", (f"{made.wire!r} is not a valid name on the wire", hint)
            )
        if told := wrong_version(made.since, self.version):
            self._refuse(module, field, "since", "idl-option-value", (told, "write `since='0.2.0'`"))

    def _refuse(self, module: ModuleSyntax, field: FieldSyntax, place: str, code: str, told: tuple[str, str]) -> None:
        """Record a problem, with its hint, at an option of a field."""
        field.broken = True
        self.report.add(module.source, field.place(place), code, *told)


def wrong_version(since: str, version: str) -> str:
    """Return the problem of a version in `since`; empty if there is none."""
    if not since:
        return ""
    if not VERSION.fullmatch(since):
        return f"{since!r} is not a version"
    if VERSION.fullmatch(version) and numbers(since) > numbers(version):
        return f"the package is at version {version}, which is before {since}"
    return ""


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version."""
    return tuple(map(int, version.split(".")))


def _field(syntax: FieldSyntax, type_: Type, options: Mapping[str, Any]) -> Field:
    automatic = wire_name(syntax.name)
    wire = options.get("name") or automatic
    known = {each.name for each in members_of(Field)} & options.keys() - {"name", "default"}
    out = options.get("out", False)
    free = ("default", "environment", "optional", "computed") if not out else ("optional",)
    return Field(
        name=syntax.name,
        type=type_,
        doc=syntax.doc,
        required=not any(name in options for name in free),
        default=options.get("default", ABSENT),
        wire=wire if wire != syntax.name else "",
        comment=syntax.comment,
        **{name: options[name] for name in known},
    )
