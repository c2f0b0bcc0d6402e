"""Functions of interfaces that a state needs. A host that lacks one refuses the state before anything runs."""

from __future__ import annotations

from typing import Any, NamedTuple


class Need(NamedTuple):
    """One function of an interface."""

    interface: type[Any]
    function: str
    tool: str | None = None
    """Name of the provider, for interfaces with `chosen_by_name`."""


def needed(interface: type[Any], *functions: str, tool: str | None = None) -> tuple[Need, ...]:
    """Return the need of each of these functions."""
    return tuple([Need(interface, function, tool) for function in functions])
