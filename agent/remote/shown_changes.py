"""The values of a remote resource in reports: in the form of state files, with secrets masked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.agent.plugins.differences import Difference
from holdfast.agent.remote.kind import RemoteKind
from holdfast.resources.secrets import MASK

EMPTY: tuple[Any, ...] = (None, "", [], {})
"""Values that reports of creations and deletions omit."""


class ShownChanges:
    """The changes of one resource. `given` are the arguments of the state, without defaults."""

    def __init__(self, kind: RemoteKind, given: Mapping[str, Any]) -> None:
        self._kind, self._given = kind, given

    def shown(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return values as a state file has them."""
        return {name: self._kind.shown(name, value) for name, value in values.items()}

    def created(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the changes of a creation: the declared values, and those that the provider has set."""
        declared = {each.name: values[each.name] for each in self._kind.model.fields if each.name in values}
        return {
            name: {"old": None, "new": self._kind.shown(name, value)}
            for name, value in declared.items()
            if value not in EMPTY and (name in self._given or not self._is_default(name, value))
        }

    def removed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the changes of a deletion: all values that differed from their defaults."""
        return {
            name: {"old": self._kind.shown(name, value), "new": None}
            for name, value in values.items()
            if value not in EMPTY and not self._is_default(name, value)
        }

    def changed(
        self, state: Mapping[str, Any], declared: Mapping[str, Any], found: Iterable[Difference]
    ) -> dict[str, Any]:
        """Return the old and the new value of each argument that differs; values that are never returned are masked."""
        old, new = {**self.shown(state), **dict.fromkeys(self._kind.write_only, MASK)}, self.shown(declared)
        return {each.path: {"old": old.get(each.path), "new": new.get(each.path)} for each in found}

    def before(self, state: Mapping[str, Any], found: Iterable[Difference]) -> dict[str, Any]:
        """Return the present values of the arguments that differ, as far as they are known."""
        return self.shown({each.path: state[each.path] for each in found if each.path in state})

    def _is_default(self, name: str, value: Any) -> bool:
        return name in self._kind.defaults and bool(value == self._kind.defaults[name])
