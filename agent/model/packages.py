"""Packages as parts of the model of the system, in which the names of records are those of all packages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from holdfast.agent.model.model import Field, KindModel, Record, argument
from holdfast.agent.model.package import Package
from holdfast.agent.model.types import Type


def kinds_of(package: Package) -> tuple[KindModel, ...]:
    """Return the kinds of a package as states use them, sorted by name."""
    kinds = (kind for module in package.modules for kind in module.resources)
    return tuple(
        replace(kind, fields=tuple(map(argument, _fields(package, kind.fields))))
        for kind in sorted(kinds, key=lambda kind: kind.name)
    )


def records_of(package: Package) -> Mapping[str, Record]:
    """Return the records of a package by their names in the system: `aws.ec2.security_group.SecurityGroupRule`."""
    found = {
        _name(package, f"{module.name}:{each.name}"): each for module in package.modules for each in module.records
    }
    return {name: replace(each, name=name, fields=_fields(package, each.fields)) for name, each in found.items()}


def _fields(package: Package, fields: tuple[Field, ...]) -> tuple[Field, ...]:
    return tuple(replace(each, type=_type(package, each.type)) for each in fields)


def _type(package: Package, type_: Type) -> Type:
    """Return a type in which names are those of the system, at any depth."""
    return replace(
        type_,
        record=_name(package, type_.record) if type_.record else "",
        items=type_.items and _type(package, type_.items),
        keys=type_.keys and _type(package, type_.keys),
        members=tuple(_type(package, each) for each in type_.members),
    )


def _name(package: Package, qualified: str) -> str:
    return f"{package.name}.{qualified.replace('/', '.').replace(':', '.')}"
