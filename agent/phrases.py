"""Phrases that several parts of the agent use."""

from __future__ import annotations

from collections.abc import Sequence

NAMED = 3
"""Names that a message lists before it counts the rest."""


def number_of(count: int, noun: str) -> str:
    """Return `1 resource`, `2 resources`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def first_of(names: Sequence[str]) -> str:
    """Return `a, b, c and 2 more`."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def as_declared(name: str) -> str:
    """Return the comment of most kinds when there was nothing to do.

    Displays omit it: it only repeats the name.
    """
    return f"{name} is as declared"
