"""The model of a resource package: the content of schema.json, from which every generator for packages works.

`agent/idl` makes it from sources; another language may write schema.json by itself. `to_json` and `from_json` convert.
A name that another module can refer to is qualified: `module:Name`, where modules of modules are separated by slashes;
the token of a resource is `package:module:Name`.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any

from holdfast.agent.model.docstrings import Docs
from holdfast.agent.model.model import Field, KindModel, Record, Rule, plain
from holdfast.agent.model.reading import parse
from holdfast.agent.model.types import Type

FORMAT = 1
"""Version of the form of schema.json. It changes when a reader of the old form would misread the new one."""
NO_DOCS = Docs()


@dataclass(frozen=True)
class EnumValue:
    """One value of an enumeration."""

    name: str
    value: str
    doc: str = ""
    comment: str = ""


@dataclass(frozen=True)
class Enumeration:
    """A type with these values only."""

    name: str
    docs: Docs
    values: tuple[EnumValue, ...]
    comment: str = ""


@dataclass(frozen=True)
class NamedType:
    """A name for a type."""

    name: str
    type: Type
    doc: str = ""
    comment: str = ""


@dataclass(frozen=True)
class Constant:
    """A named value."""

    name: str
    type: Type
    value: Any
    doc: str = ""
    comment: str = ""


@dataclass(frozen=True)
class FunctionModel:
    """A function of the provider, which is called by name."""

    name: str
    docs: Docs
    parameters: tuple[Field, ...]
    results: tuple[Field, ...]
    rules: tuple[Rule, ...] = ()
    deprecated: str = ""
    since: str = ""
    comment: str = ""


@dataclass(frozen=True)
class Module:
    """One source file. `order` has the names of all declarations in the order of the source."""

    name: str
    """Path below `idl/` without extension: `ec2/security_group`."""
    docs: Docs = NO_DOCS
    comment: str = ""
    order: tuple[str, ...] = ()
    resources: tuple[KindModel, ...] = ()
    records: tuple[Record, ...] = ()
    enumerations: tuple[Enumeration, ...] = ()
    aliases: tuple[NamedType, ...] = ()
    constants: tuple[Constant, ...] = ()
    functions: tuple[FunctionModel, ...] = ()


@dataclass(frozen=True)
class Package:
    """A resource package."""

    name: str
    version: str
    """Semantic version of the package: `1.2.0`."""
    docs: Docs = NO_DOCS
    modules: tuple[Module, ...] = ()
    """Sorted by name."""
    config: str = ""
    """The record that configures the provider, as `module:Name`; empty: there is none."""
    user: str = ""
    """User as which the plugin must run, such as `postgres` or `root`; empty: any."""
    format: int = FORMAT

    @functools.cached_property
    def text(self) -> str:
        """The text of schema.json; several targets need it."""
        data = {**plain(self), "format": self.format}
        return json.dumps(data, indent=1, ensure_ascii=False, sort_keys=False) + "\n"


def to_json(package: Package) -> str:
    """Return the text of schema.json, which is the same for equal packages."""
    return package.text


def from_json(text: str) -> Package:
    """Return the package of a schema.json. Raises `ValueError` with the place of the error."""
    data = json.loads(text)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        found = data.get("format") if isinstance(data, dict) else None
        raise ValueError(f"format: expected {FORMAT}, found {found!r}: another version of Holdfast wrote this schema")
    return parse(Package, data)
