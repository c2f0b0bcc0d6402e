"""The difference between the present and the desired state of a thing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

State = Mapping[str, Any] | None
"""State of one thing, as it can be observed: field -> value; None if the thing is absent."""


class Delta(NamedTuple):
    """A difference: the observed state, the wanted state, and the fields in which they differ."""

    before: State
    after: State
    fields: tuple[str, ...]

    @property
    def create(self) -> bool:
        """Whether the thing is absent and should exist."""
        return self.before is None

    @property
    def remove(self) -> bool:
        """Whether the thing exists and should be absent."""
        return self.after is None

    def changes(self) -> dict[str, Any]:
        """Return Salt's `changes`: field -> {old, new}, for the fields that differ."""
        old, new = self.before or {}, self.after or {}
        return {name: {"old": old.get(name), "new": new.get(name)} for name in self.fields}


def compare(before: State, after: State) -> Delta | None:
    """Return the difference, or None if there is none.

    Only fields in `after` are compared: what a state does not declare is left as it is.
    """
    if before is None and after is None:
        return None
    if before is None or after is None:
        present = after if before is None else before
        return Delta(before, after, tuple(present or ()))
    wrong = tuple(name for name, value in after.items() if name not in before or before[name] != value)
    return Delta(before, after, wrong) if wrong else None


def progress(first: Delta, now: State) -> Delta | None:
    """Return the changes from `first.before` to `now` in the fields of `first`; None if there are none."""
    if first.before is None or now is None:
        return None if first.before is now else Delta(first.before, now, first.fields)
    changed = tuple(name for name in first.fields if first.before.get(name) != now.get(name))
    return Delta(first.before, now, changed) if changed else None
