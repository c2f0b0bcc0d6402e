"""Names: conversion of names in sources to those on the wire, of kinds and in tokens; hints for mistyped names."""

from __future__ import annotations

import re
from collections.abc import Iterable

from holdfast.resources.spelling import nearest

LIMITS = "__idl_limits__"
"""Name of the list of all restrictions in types, at the end of each module that is evaluated."""
GENERATED = {"resource": ("Args", "Operations", "Property"), "function": ("Function", "Result")}
"""Family of a class -> endings that generated files add to its name."""
BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""The boundary between two words of a class name: `Security|Group`, `HTTP|Server`."""


def unknown(what: str, name: str, known: Iterable[str], legal: str = "") -> tuple[str, str]:
    """Return the message and the hint for an unknown name."""
    names = list(known)
    near = nearest(name, names)
    hint = f"did you mean {near!r}?" if near else legal or f"available: {', '.join(names) or 'none'}"
    return f"there is no {what} {name!r}", hint


def snake_case(name: str) -> str:
    """Return the name of a class as part of the name of a kind: `SecurityGroup` becomes `security_group`."""
    return BOUNDARY.sub("_", name).lower()


def wire_name(name: str) -> str:
    """Return the name of a field on the wire: `cidr_block` becomes `cidrBlock`."""
    first, *rest = name.split("_")
    return first + "".join(each[:1].upper() + each[1:] for each in rest)


def kind_name(package: str, module: str, name: str) -> str:
    """Return the name of a resource in state files: `aws-ec2.security_group`; it omits the last part of the module.

    A module at the top of `idl/` gives `aws.security_group`.
    """
    return "-".join([package, *module.split("/")[:-1]]) + f".{snake_case(name)}"
