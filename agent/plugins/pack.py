"""The API for users of packages: `from holdfast import pack`.

The compiler generates a class for each resource of a package. An instance is a declaration: its arguments are checked
by the rules of the package when it is made. States are made from declarations:

    from aws.ec2.security_group import SecurityGroup
    from aws.ec2.vpc import Vpc
    from holdfast import pack

    network = Vpc(cidr_block="10.0.0.0/16")
    web = SecurityGroup(vpc=network, description="the web servers")
    print(pack.to_yaml({"main": network, "web": web}))

If an argument is the identifier of another resource, it may be the declaration of that resource.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

from holdfast.agent.model.types import Type
from holdfast.agent.plugins.decode import Decoder
from holdfast.agent.plugins.encode import Encoder
from holdfast.agent.plugins.schema import Schema, inputs
from holdfast.agent.plugins.stub import Struct, tag_of
from holdfast.agent.plugins.values import Secret, Violation
from holdfast.resources.idl import UNSET, Unset

__all__ = ["UNSET", "Invalid", "Resource", "Struct", "Unset", "Violation", "to_state", "to_yaml"]


class Invalid(ValueError):
    """Arguments of a resource break rules of its package; `violations` has all of them."""

    def __init__(self, kind: str, violations: Sequence[Violation]) -> None:
        told = (f"{each.path or 'arguments'}: {each.message} [{each.code}]" for each in violations)
        super().__init__("\n  ".join((f"{kind} has wrong arguments:", *told)))
        self.violations = tuple(violations)


class Resource:
    """Base of the generated classes of resources. Two declarations are equal only if they are the same object.

    Its own names begin with an underscore; names of fields never do.
    """

    _token: ClassVar[str]
    """`package:module:Name`."""
    _schema: ClassVar[str]
    """Path of schema.json, from the folder of the module."""
    _arguments: Mapping[str, Any]
    """The arguments that are given, decoded; references are declarations or identifiers."""

    def __post_init__(self) -> None:
        """Check the arguments. Raises `Invalid`."""
        schema = _schema_of(type(self))
        kind = schema.resources[self._token]
        decoder = _ReferringDecoder(schema, wire=False)
        arguments = decoder.inputs(kind, _plain(self))
        if decoder.violations:
            raise Invalid(kind.name, decoder.violations)
        object.__setattr__(self, "_arguments", arguments)


class _ReferringDecoder(Decoder):
    """Decodes arguments in which a reference may be the declaration of the resource."""

    def _reference(self, type_: Type, data: Any, path: str) -> Any:
        if not isinstance(data, Resource):
            return self._text(type_, data, path)
        if data._token == type_.target:  # noqa: SLF001 - as in to_state
            return data
        wanted = type_.target.rpartition(":")[2]
        return self._violate("type", path, f"it must be a {wanted} or its identifier, not a {type(data).__name__}")

    FORMS: ClassVar[Mapping[str, Callable[[Any, Type, Any, str], Any]]] = {**Decoder.FORMS, "reference": _reference}


def to_state(resources: Mapping[str, Resource]) -> dict[str, Any]:
    """Return the data of a state file with these resources, by their IDs.

    Raises `ValueError` if a resource refers to another one that has no ID here.
    """
    ids = {id(resource): name for name, resource in resources.items()}
    states = {}
    for name, resource in resources.items():
        schema = _schema_of(type(resource))
        kind = schema.resources[resource._token]  # noqa: SLF001 - it has the underscore because of the names of fields
        arguments = _referring(resource._arguments, ids, name)  # noqa: SLF001 - the same
        data = Encoder(schema, wire=False).fields(inputs(kind.fields), arguments)
        states[name] = {kind.name: [{key: value} for key, value in data.items()]}
    return states


def to_yaml(resources: Mapping[str, Resource]) -> str:
    """Return the text of a state file with these resources, by their IDs. Its values are no templates."""
    import yaml  # noqa: PLC0415 - only this function needs it

    text = yaml.safe_dump(to_state(resources), sort_keys=False, allow_unicode=True, width=120)
    return f"#!yaml\n{text}"


def _referring(value: Any, ids: Mapping[int, str], state: str, path: str = "") -> Any:
    """Return a value in which IDs replace the declarations. `state` and `path` give its place."""
    if isinstance(value, Resource):
        if id(value) not in ids:
            told = f"{state}: {path} refers to a {type(value).__name__} that is not among the states; give it an ID"
            raise ValueError(told)
        return {"ref": ids[id(value)]}
    if isinstance(value, dict):
        paths = {key: f"{path}.{key}" if path else key for key in value}
        return {key: _referring(item, ids, state, paths[key]) for key, item in value.items()}
    if isinstance(value, list):
        return [_referring(item, ids, state, path) for item in value]
    return Secret(_referring(value.value, ids, state, path)) if isinstance(value, Secret) else value


def _plain(value: Any) -> Any:
    """Return the arguments of a declaration as data: structs as dicts, enumerations as texts; without unset fields."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_item(item) for item in value]
    if isinstance(value, Mapping):
        return {_item(key): _item(item) for key, item in value.items()}
    given = {each.name: getattr(value, each.name) for each in fields(value)}
    tag = tag_of(type(value)) if isinstance(value, Struct) else ""
    return ({"type": tag} if tag else {}) | {name: _item(item) for name, item in given.items() if item is not UNSET}


def _item(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    return _plain(value) if isinstance(value, (Struct, Mapping, list, tuple, set, frozenset)) else value


def _schema_of(cls: type[Resource]) -> Schema:
    """Return the schema of the package of a generated class."""
    folder = Path(sys.modules[cls.__module__].__file__ or "").parent
    return _read(folder / cls._schema)


@functools.cache
def _read(path: Path) -> Schema:
    return Schema.read(path.read_text(encoding="utf-8"))
