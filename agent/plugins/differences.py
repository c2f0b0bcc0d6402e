"""Differences between the state of a resource and its declared arguments."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, NamedTuple

from holdfast.agent.model.model import KindModel
from holdfast.agent.plugins.schema import inputs
from holdfast.agent.plugins.values import UNKNOWN, revealed


class Difference(NamedTuple):
    """A field that differs."""

    path: str
    kind: Literal["add", "change", "remove"]
    replaces: bool


def differences(
    kind: KindModel,
    state: Mapping[str, Any],
    declared: Mapping[str, Any],
    replacing: Collection[str] = (),
    hidden: Collection[str] = (),
) -> list[Difference]:
    """Return the arguments that differ from the state, in the order of the schema.

    An argument that is not given does not differ, and neither does one that is never returned (`write_only`), unless
    the provider has said so when it read the resource (`hidden`). `replacing`: further fields whose difference replaces
    the resource, by their names or by those on the wire, which the generated constants have.
    """
    found = []
    for field in inputs(kind.fields):
        replaces = field.replaces or field.name in replacing or (field.wire or field.name) in replacing
        if field.name in declared and field.name in hidden:
            found.append(Difference(field.name, "change", replaces))
        elif field.name in declared and not field.write_only:
            before, after = state.get(field.name), declared[field.name]
            if after is UNKNOWN or not same(before, after, unordered=field.type.type == "set"):
                change: Literal["add", "change", "remove"]
                change = "add" if field.name not in state else "remove" if after is None else "change"
                found.append(Difference(field.name, change, replaces))
    return found


def same(before: Any, after: Any, *, unordered: bool = False) -> bool:
    """Return whether two values are equal; a secret is equal to its value, and a mapping to one with its entries."""
    before, after = revealed(before), revealed(after)
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return before.keys() == after.keys() and all(same(before[key], after[key]) for key in before)
    if isinstance(before, (list, tuple)) and isinstance(after, (list, tuple)):
        if len(before) != len(after):
            return False
        return _same_items(before, after) if unordered else all(map(same, before, after))
    numbers = {type(before), type(after)} == {int, float}  # in JSON of TypeScript, 1.0 is 1
    return (numbers or type(before) is type(after)) and bool(before == after)


def _same_items(before: Collection[Any], after: Collection[Any]) -> bool:
    left = list(after)
    for item in before:
        match = next((number for number, other in enumerate(left) if same(item, other)), None)
        if match is None:
            return False
        del left[match]
    return True
