"""Phrases that several parts of the agent say alike."""

from __future__ import annotations

from collections.abc import Sequence

NAMED = 3
"""Names of many that are said."""


def number_of(count: int, noun: str) -> str:
    """`1 resource`, `2 resources`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def first_of(names: Sequence[str]) -> str:
    """`a, b, c and 2 more`."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def as_declared(name: str) -> str:
    """What most kinds say of that for which nothing had to be done: no news for whoever reads its name anyway."""
    return f"{name} is as declared"
