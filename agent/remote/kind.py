"""The data that all resources of one remote kind share: its schema, and the agent's knowledge between two runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from holdfast.agent.model.model import ABSENT, Field, KindModel, Record, Remote
from holdfast.agent.model.types import Type, members
from holdfast.agent.plugins.decode import Decoder, StateReference
from holdfast.agent.plugins.encode import Shown
from holdfast.agent.plugins.payloads import Payloads
from holdfast.agent.plugins.schema import Schema, inputs, outputs, remote_of
from holdfast.agent.plugins.values import Secret, Violation
from holdfast.resources.secrets import MASK

PYTHON: Mapping[str, type] = {
    "boolean": bool,
    "integer": int,
    "number": float,
    "list": list,
    "set": list,
    "mapping": dict,
    "record": dict,
    "tagged": dict,
    **dict.fromkeys(("text", "choice", "reference", "bytes", "moment", "duration", "path", "address"), str),
}
"""Word of a type -> class of its values when they are sent to other resources."""
IDENTIFIER = "id"
"""Key by which every remote resource sends its identifier."""
UNDONE = re.compile(r"undo [^\[]+\[(.*)\](?: \(.*\))?", re.DOTALL)
"""ID of the state that undoes another one (`engine/execute/reversals`)."""
PROVED = 4096
"""Most write-only inputs whose hash is known."""


class RemoteKind:
    """A remote kind."""

    def __init__(self, schema: Schema, model: KindModel) -> None:
        self.schema, self.model = schema, model
        self.remote: Remote = remote_of(model)
        self.payloads = Payloads(schema)
        self.inputs: dict[str, Field] = {each.name: each for each in inputs(model.fields)}
        self.ids: dict[str, str] = {}
        """Name of a declaration -> last known id of its resource."""
        self.proved: dict[bytes, str] = {}
        """Write-only inputs -> their known salted hash."""

    @property
    def token(self) -> str:
        """Return `package:module:Name`."""
        return self.remote.token

    @property
    def package(self) -> str:
        """Return the name of the package."""
        return self.schema.package.name

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """Return the defaults of arguments, without those that depend on the provider."""
        decoder = Decoder(self.schema, wire=False, defaults=True)
        given = [each for each in self.inputs.values() if each.default is not ABSENT and not each.environment]
        return {each.name: decoder.field(each, each.default, each.name) for each in given}

    @cached_property
    def sends(self) -> dict[str, type]:
        """Return the keys and classes of the values that its resources send: all but secret and ambiguous ones."""
        found: dict[str, type] = {IDENTIFIER: str}
        for field in outputs(self.model.fields):
            known = [each.type for each in members(field.type) if each.type != "none"]
            if len(known) == 1 and known[0] in PYTHON and field.name not in found and not self.hides(field):
                found[field.name] = PYTHON[known[0]]
        return found

    @cached_property
    def write_only(self) -> tuple[str, ...]:
        """Return the arguments that the provider never returns."""
        return tuple(name for name, field in self.inputs.items() if field.write_only)

    @cached_property
    def from_environment(self) -> tuple[str, ...]:
        """Return the arguments whose default only the provider knows."""
        return tuple(name for name, field in self.inputs.items() if field.environment)

    @cached_property
    def referring(self) -> tuple[str, ...]:
        """Return the arguments that may refer to states."""
        return tuple(name for name, field in self.inputs.items() if self._refers(field.type, set()))

    @cached_property
    def deprecating(self) -> tuple[str, ...]:
        """Return the arguments with a deprecated part."""
        return tuple(
            name
            for name, field in self.inputs.items()
            for record in self._within(field.type)
            if record.deprecated or any(each.deprecated for each in record.fields)
        )

    def deprecations(self, name: str, data: Any) -> list[tuple[str, str]]:
        """Return the path of each deprecated part of an argument of a state file, with its replacement."""
        decoder = Decoder(self.schema, wire=False)
        decoder.field(self.inputs[name], data, name)
        return decoder.deprecated

    def decode(self, field: Field, data: Any) -> tuple[Any, list[Violation], list[StateReference]]:
        """Return the value of an argument of a state file, its violations, and the states that it names."""
        decoder = Decoder(self.schema, wire=False, defaults=True)
        value = decoder.field(field, data, field.name)
        return value, decoder.violations, decoder.references

    def _refers(self, type_: Type, seen: set[str]) -> bool:
        """Return whether a type is a reference, or contains one."""
        if type_.record and type_.record not in seen:
            seen.add(type_.record)
            return any(self._refers(each.type, seen) for each in self.schema.record(type_.record).fields)
        inner = filter(None, (type_.items, type_.keys, *type_.members))
        return type_.type == "reference" or any(self._refers(each, seen) for each in inner)

    def hides(self, field: Field) -> bool:
        """Return whether a field, or a part of it, is secret."""
        return field.secret or any(each.secret for record in self._within(field.type) for each in record.fields)

    def _within(self, type_: Type, seen: set[str] | None = None) -> Iterator[Record]:
        """Yield all records in a type, each once."""
        seen = set() if seen is None else seen
        for inner in filter(None, (type_.items, type_.keys, *type_.members)):
            yield from self._within(inner, seen)
        if type_.record and type_.record not in seen:
            seen.add(type_.record)
            record = self.schema.record(type_.record)
            yield record
            for each in record.fields:
                yield from self._within(each.type, seen)

    def shown(self, name: str, value: Any) -> Any:
        """Return the value of a field as a state file has it, with secrets masked."""
        field = next(each for each in self.model.fields if each.name == name)
        return MASK if field.secret or field.write_only else Shown(self.schema).value(field.type, value)

    def key(self, identity: str) -> str:
        """Return the name under which the agent records the resource of a state: its ID.

        A state that undoes another one works on the resource of that state.
        """
        inner = identity.partition("[")[2].removesuffix("]")
        undone = UNDONE.fullmatch(inner)
        return undone[1] if undone else inner


def without_secrets(value: Any) -> Any:
    """Return a value without its parts that are secret."""
    if isinstance(value, Mapping):
        return {key: without_secrets(item) for key, item in value.items() if not isinstance(item, Secret)}
    if isinstance(value, list):
        return [without_secrets(item) for item in value if not isinstance(item, Secret)]
    return value
