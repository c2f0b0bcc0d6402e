"""The schema of a package, indexed by the names that its types use."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator

from holdfast.agent.idl.names import kind_name
from holdfast.agent.model.model import Field, KindModel, Record, Remote
from holdfast.agent.model.package import FunctionModel, Package, from_json, to_json
from holdfast.agent.model.types import Type


class Schema:
    """A package by its names. It never changes."""

    def __init__(self, package: Package) -> None:
        self.package = package
        self.records: dict[str, Record] = {
            f"{module.name}:{each.name}": each for module in package.modules for each in module.records
        }
        self.kinds: dict[str, KindModel] = {each.name: each for module in package.modules for each in module.resources}
        self.resources: dict[str, KindModel] = {remote_of(each).token: each for each in self.kinds.values()}
        self.functions: dict[str, FunctionModel] = {
            f"{package.name}:{module.name}:{each.name}": each for module in package.modules for each in module.functions
        }

    @functools.cached_property
    def called(self) -> dict[str, str]:
        """Return the tokens of the functions, by the names that callers use: `package.function`."""
        package = self.package
        return {
            kind_name(package.name, module.name, each.name): f"{package.name}:{module.name}:{each.name}"
            for module in package.modules
            for each in module.functions
        }

    @classmethod
    def read(cls, text: str) -> Schema:
        """Return the schema in the text of a schema.json. Raises `ValueError`, also for a name that is not declared."""
        schema = cls(from_json(text))
        if missing := next(schema._undeclared(), ""):
            raise ValueError(f"it names {missing}, which it does not declare")
        return schema

    def _undeclared(self) -> Iterator[str]:
        """Yield the records and resources that types name, and that the package does not declare."""
        config = self.package.config
        yield from () if not config or config in self.records else (f"the record {config!r}",)
        functions = self.functions.values()
        groups = (
            *(each.fields for each in self.records.values()),
            *(each.fields for each in self.kinds.values()),
            *(each.parameters for each in functions),
            *(each.results for each in functions),
        )
        for type_ in (inner for fields in groups for each in fields for inner in _within(each.type)):
            if type_.record and type_.record not in self.records:
                yield f"the record {type_.record!r}"
            if type_.target and type_.target not in self.resources:
                yield f"the resource {type_.target!r}"

    @functools.cached_property
    def digest(self) -> str:
        """Return the SHA-256 of the package in its canonical form, in hexadecimal digits."""
        return hashlib.sha256(to_json(self.package).encode()).hexdigest()

    @property
    def config(self) -> Record | None:
        """Return the record that configures the provider; None if it takes no configuration."""
        return self.records[self.package.config] if self.package.config else None

    def record(self, name: str) -> Record:
        """Return the record with this qualified name."""
        return self.records[name]


def _within(type_: Type) -> Iterator[Type]:
    """Yield a type, and the types of its items, keys and members."""
    yield type_
    for inner in filter(None, (type_.items, type_.keys, *type_.members)):
        yield from _within(inner)


def remote_of(kind: KindModel) -> Remote:
    """Return the part of the model that only remote kinds have. Raises `ValueError` for a built-in kind."""
    if kind.remote is None:
        raise ValueError(f"{kind.name} is not a remote kind")
    return kind.remote


def inputs(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """Return the fields that a declaration may give."""
    return tuple(each for each in fields if not each.out)


def outputs(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """Return the fields that a provider returns: all but those that are never stored."""
    return tuple(each for each in fields if not each.write_only)
