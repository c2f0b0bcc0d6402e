"""The model, from which documents and schemas are generated. `build.py` makes it from the classes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from enum import Enum
from typing import Any, Final, Literal

from holdfast.agent.model.docstrings import Docs
from holdfast.agent.model.types import Type

VERSION = 1
"""Version of the form of the model. It changes when a reader of the old form would misread the new one."""


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "no default"


ABSENT: Final = Absent.ABSENT
"""Stands for the default of a field without one, or whose default depends on the host."""


@dataclass(frozen=True)
class Field:
    """An argument, a setting, a parameter, or a member of a record."""

    name: str
    type: Type
    doc: str = ""
    required: bool = False
    default: Any = ABSENT
    unit: str = ""
    """Unit of a number: `seconds`, `days`, `per second`; empty: a count, or a number without unit."""
    secret: bool = False
    """The value is masked wherever it is shown."""
    wire: str = ""
    """Name on the wire, if it differs."""
    out: bool = False
    """The provider sets the field; it is not an argument."""
    from_id: bool = False
    """Of a kind: if a state does not give the field, its value is the ID of the state."""
    computed: bool = False
    """An argument that the provider sets if it is not given."""
    replaces: bool = False
    """A change of it replaces the resource."""
    write_only: bool = False
    """It is sent to the provider, and never stored or returned."""
    environment: tuple[str, ...] = ()
    """Variables of the provider's environment that give the default, the first that is set."""
    deprecated: str = ""
    """The replacement; empty: the field is not deprecated."""
    since: str = ""
    """Version of the package that added it."""
    comment: str = ""
    """Comment above its declaration, which generated files repeat."""


def argument(field: Field) -> Field:
    """Return a field of a resource as an argument of states, which may leave out the name."""
    return replace(field, required=False, from_id=True) if field.name == "name" and not field.out else field


@dataclass(frozen=True)
class Rule:
    """A condition on several fields of one record or resource."""

    rule: Literal["ordered", "exactly one", "at most one", "at least one", "together"]
    fields: tuple[str, ...]


@dataclass(frozen=True)
class Record:
    """A mapping with named fields."""

    name: str
    docs: Docs
    fields: tuple[Field, ...]
    rules: tuple[Rule, ...] = ()
    tag: str = ""
    """Value of the member `type` that identifies the record in a tagged type; empty: it has no such member."""
    deprecated: str = ""
    since: str = ""
    comment: str = ""


@dataclass(frozen=True)
class Remote:
    """The properties of a kind that a plugin provides."""

    token: str
    """`package:module:Name`; modules of modules are separated by slashes."""
    named: bool = False
    """The resource has a name of its own; if none is given, one is made."""
    poll: float = 0
    """Seconds between two checks if the provider reports no events; 0: the provider has a watch."""
    delete_first: bool = False
    """A replacement deletes the old resource before it creates the new one."""
    version: int = 1
    """Version of the stored state."""
    formerly: tuple[str, ...] = ()
    """Former tokens."""
    rules: tuple[Rule, ...] = ()
    deprecated: str = ""
    since: str = ""
    comment: str = ""


@dataclass(frozen=True)
class KindModel:
    """A kind of resource."""

    name: str
    """`family.function`."""
    docs: Docs
    fields: tuple[Field, ...]
    ignored: Mapping[str, str] = field(default_factory=dict)
    """Arguments that are accepted without effect -> the reason."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Arguments that are refused -> the reason."""
    former: Mapping[str, str] = field(default_factory=dict)
    """Former names of arguments, which are still accepted -> the present names."""
    open: bool = False
    """Arguments of any other name are accepted, without effect."""
    variables: str = ""
    """Argument with which arguments of any other name are accepted, as variables of its template."""
    effects: tuple[str, ...] = ()
    """Verbs for the effects of a run of the kind: `create`, `restart`."""
    watch: str = ""
    """Source of its events; empty: the kind has no watch."""
    refresh: str = ""
    """Reaction to changes of a resource that it watches; empty: it has no refresh."""
    sends: Mapping[str, Type] = field(default_factory=dict)
    """Keys of the values that it sends to other resources -> their types."""
    receives: bool = False
    """Its arguments, except the name, can be received from other resources (`recv`)."""
    reversible: bool = False
    """`reverse: true` restores the previous state."""
    grouped: bool = False
    """Several resources of the kind may be repaired together."""
    automatic_edges: bool = False
    """The kind takes part in automatic edges."""
    composite: bool = False
    """The kind consists of resources of other kinds."""
    remote: Remote | None = None
    """The properties of a remote kind; None for a built-in one."""


@dataclass(frozen=True)
class Requisite:
    """A requisite."""

    name: str
    doc: str
    reversed_form: str = ""
    """Name by which the target declares it; empty: there is none."""


@dataclass(frozen=True)
class Function:
    """A function of an interface."""

    name: str
    docs: Docs
    parameters: tuple[Field, ...]
    keyword_only: tuple[str, ...]
    """Parameters that must be given by name."""
    returns: Type
    changes: bool = False
    """It changes the machine, except with `test`."""
    supported: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Grain -> values; only hosts with one of them have the function. Empty: all have it."""
    not_applicable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Grain -> values; on hosts with one of them the function does nothing."""
    open: bool = False
    """Further arguments are accepted by name; the documentation says which."""
    since: int = 1
    """Version of the interface that added the function, or the parameters in `added`."""
    added: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    """Former names, which are deprecated."""


@dataclass(frozen=True)
class ProviderFunction:
    """The documentation of a provider for one of its functions."""

    name: str
    doc: str = ""
    """Documentation of its own, such as its options; empty: that of the interface."""
    parameters: tuple[Field, ...] = ()
    """Parameters that only this provider has."""


@dataclass(frozen=True)
class ProviderModel:
    """A provider of an interface."""

    tool: str
    docs: Docs
    priority: int
    targets: int
    """Version of the interface for which the provider was written."""
    functions: tuple[ProviderFunction, ...]
    grains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The host has one of the values of each of these grains."""
    commands: tuple[str, ...] = ()
    """Commands that the host has."""
    paths: tuple[str, ...] = ()
    """Paths that exist."""
    unless: Mapping[str, str] = field(default_factory=dict)
    """Command -> program of another tool, to which the command is no link."""


@dataclass(frozen=True)
class InterfaceModel:
    """The contract of a virtual module on every host."""

    name: str
    version: int
    docs: Docs
    functions: tuple[Function, ...]
    providers: tuple[ProviderModel, ...]
    chosen_by_name: bool = False
    """The caller names the provider."""


@dataclass(frozen=True)
class SystemModel:
    """All that users can declare to the agent, or call through it."""

    kinds: tuple[KindModel, ...] = ()
    meta: tuple[Field, ...] = ()
    """Meta parameters, which every kind accepts; an argument of the kind itself takes precedence."""
    requisites: tuple[Requisite, ...] = ()
    interfaces: tuple[InterfaceModel, ...] = ()
    settings: tuple[Field, ...] = ()
    """Fields of agent.yaml."""
    records: Mapping[str, Record] = field(default_factory=dict)
    """The records that types name."""
    version: int = VERSION


def plain(value: Any) -> Any:
    """Return a part of the model as data for JSON, without members that have their default value."""
    if isinstance(value, Docs):
        return {name: plain(part) for name, part in value._asdict().items() if part}
    if (members := _members(value.__class__)) is not None:
        given = ((name, getattr(value, name), default) for name, default in members)
        return {name: plain(part) for name, part, default in given if name == "version" or part != default}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


@functools.cache
def _members(cls: type) -> tuple[tuple[str, Any], ...] | None:
    """Return the members of a dataclass with their defaults; None for any other class."""
    if not is_dataclass(cls):
        return None
    return tuple(
        (each.name, each.default if each.default_factory is MISSING else each.default_factory()) for each in fields(cls)
    )
