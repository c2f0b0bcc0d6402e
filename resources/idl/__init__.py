"""The language in which resource packages declare their resources: `from holdfast import idl`.

A source file contains classes with typed fields and docstrings, enumerations, aliases and constants, and no logic:

    from holdfast import idl

    Port = Annotated[int, idl.limits(minimum=0, maximum=65535)]

    @idl.ordered("from_port", "to_port")
    class Rule:
        from_port: Port
        to_port: Port

    class SecurityGroup(idl.NamedResource, poll=60):
        vpc: idl.Ref[Vpc] = idl.field(replaces=True)
        rules: list[Rule] = idl.field(default=[])
        group_id: str = idl.field(out=True)

This module only records what the source says; `agent/idl` reads it, checks it, and generates everything else. It
imports nothing but the standard library, because the compiler executes sources in a child with little memory.
"""

from __future__ import annotations

import datetime as dt
import enum
import ipaddress
import pathlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, TypeVar, dataclass_transform

DateTime = dt.datetime
"""A moment with its zone; text in the form of RFC 3339."""
Duration = dt.timedelta
"""A length of time; text in the form `1h30m`, or seconds as a number."""
Path = pathlib.PurePosixPath
"""An absolute path."""
Ip = ipaddress.IPv4Address | ipaddress.IPv6Address
"""An address of version 4 or 6."""
Json = Any
"""Any value of JSON, for what has no type of its own."""
Enum = enum.StrEnum
"""Base of enumerations; each value has a docstring below it, as a field has."""

T = TypeVar("T")


class Ref(Generic[T]):
    """A reference to a resource. Its value is the identifier of that resource."""


class Unset(enum.Enum):
    """The type of `UNSET`."""

    UNSET = "not given"


UNSET: Final = Unset.UNSET
"""Stands for a field that is not given, which differs from one whose value is null."""


@dataclass(frozen=True)
class Restrictions:
    """What `limits` records."""

    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    below: float | None = None
    pattern: str = ""
    shortest: int | None = None
    longest: int | None = None


def limits(
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    below: float | None = None,
    pattern: str = "",
    shortest: int | None = None,
    longest: int | None = None,
) -> Restrictions:
    """Restrict a type: `Annotated[int, idl.limits(minimum=0)]`.

    `minimum`, `maximum`, `above` and `below` are for numbers; `pattern`, a regular expression that matches the whole
    value, for texts; `shortest` and `longest` for texts (characters), bytes, lists, sets and mappings.
    """
    return Restrictions(minimum, maximum, above, below, pattern, shortest, longest)


@dataclass(frozen=True)
class Declared:
    """What `field` records."""

    default: Any = UNSET
    environment: tuple[str, ...] = ()
    optional: bool = False
    out: bool = False
    computed: bool = False
    replaces: bool = False
    name: str = ""
    secret: bool = False
    write_only: bool = False
    unit: str = ""
    deprecated: str = ""
    since: str = ""
    limits: Restrictions = Restrictions()


def field(
    *,
    default: Any = UNSET,
    environment: tuple[str, ...] = (),
    optional: bool = False,
    out: bool = False,
    computed: bool = False,
    replaces: bool = False,
    name: str = "",
    secret: bool = False,
    write_only: bool = False,
    unit: str = "",
    deprecated: str = "",
    since: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    below: float | None = None,
    pattern: str = "",
    shortest: int | None = None,
    longest: int | None = None,
) -> Any:
    """Declare a field; without this call, the field is a required input.

    `default`: its value if it is not given. `environment`: variables of the provider's environment that give the
    default, the first that is set. `optional`: it may be unset, without a default. `out`: the provider sets it, and it
    is no input; with `optional`, it may stay unset. `computed`: an input that the provider sets if it is not given.
    `replaces`: a change replaces the resource. `name`: its name on the wire and in TypeScript, instead of the automatic
    one. `secret`: masked wherever it is shown. `write_only`: sent to the provider, and never stored or returned.
    `unit`: the unit of a number. `deprecated`: what to use instead. `since`: the version of the package that added it.
    The rest are the restrictions of `limits`.
    """
    restrictions = Restrictions(minimum, maximum, above, below, pattern, shortest, longest)
    return Declared(
        default,
        environment,
        optional,
        out,
        computed,
        replaces,
        name,
        secret,
        write_only,
        unit,
        deprecated,
        since,
        restrictions,
    )


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class Struct:
    """Base of structs; a class without a base is a struct, too. A subclass inherits the fields.

    `tag`: the value by which a union of structs knows this one; on the wire it is the member `type`.
    """

    idl_options: dict[str, Any]

    def __init_subclass__(cls, *, tag: str = "", deprecated: str = "", since: str = "") -> None:
        """Record the options of the class."""
        cls.idl_options = {"tag": tag, "deprecated": deprecated, "since": since}


class Config(Struct):
    """Base of the struct that configures the provider; a package has at most one."""


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class Resource:
    """Base of resources.

    `poll`: seconds between two probes of a resource that reports no events; without it, the provider has a watch.
    `delete_first`: a replacement deletes the old resource before it creates the new one. Subclasses inherit these two.
    `version`: version of the stored state; `formerly`: former tokens of the resource.
    """

    idl_options: dict[str, Any]

    def __init_subclass__(
        cls,
        *,
        poll: float | None = None,
        delete_first: bool | None = None,
        version: int = 1,
        formerly: tuple[str, ...] = (),
        deprecated: str = "",
        since: str = "",
    ) -> None:
        """Record the options of the class."""
        inherited = getattr(cls, "idl_options", {})
        cls.idl_options = {
            "poll": inherited.get("poll", 0) if poll is None else poll,
            "delete_first": inherited.get("delete_first", False) if delete_first is None else delete_first,
            "version": version,
            "formerly": formerly,
            "deprecated": deprecated,
            "since": since,
        }


class NamedResource(Resource):
    """Base of resources that have a name of their own; if the user gives none, one is generated."""

    name: Annotated[str, limits(shortest=1)] = field(replaces=True, computed=True)
    """Name of the resource."""


class Function(Struct):
    """Base of functions of the provider, which are called by name: inputs are arguments, `out` fields the result."""


Class = TypeVar("Class", bound=type)
RULES = "idl_rules"
"""Attribute of a class with its rules: word and fields of each, in the order of declaration."""


def _rule(word: str, fields: tuple[str, ...]) -> Callable[[Class], Class]:
    def add(cls: Class) -> Class:
        setattr(cls, RULES, ((word, fields), *cls.__dict__.get(RULES, ())))
        return cls

    return add


def ordered(*fields: str) -> Callable[[Class], Class]:
    """Require that the values of these fields do not decrease; fields that are not given are ignored."""
    return _rule("ordered", fields)


def exactly_one(*fields: str) -> Callable[[Class], Class]:
    """Require that exactly one of these fields is given."""
    return _rule("exactly one", fields)


def at_most_one(*fields: str) -> Callable[[Class], Class]:
    """Require that not more than one of these fields is given."""
    return _rule("at most one", fields)


def at_least_one(*fields: str) -> Callable[[Class], Class]:
    """Require that one or more of these fields are given."""
    return _rule("at least one", fields)


def together(*fields: str) -> Callable[[Class], Class]:
    """Require that all of these fields are given, or none."""
    return _rule("together", fields)
