"""The outcomes of many resources, counted."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.agent.engine.model.outcome import Outcome, Result, result_of


class Tally:
    """Counts the outcomes of many resources.

    A resource counts once, by its last outcome. It is in `changed` if any of its outcomes changed it.
    """

    __slots__ = ("_keys", "_last", "any_changed", "any_failed", "changed", "results")

    def __init__(self, outcomes: Iterable[Outcome] = ()) -> None:
        self.results: dict[tuple[Result, bool, bool], int] = {}
        """(result, ran, blocked) -> number of resources."""
        self.changed: set[str] = set()
        """Identities of changed resources."""
        self.any_failed = self.any_changed = False
        self._last: dict[str, tuple[Result, bool, bool]] = {}
        self._keys: dict[tuple[Result, bool, bool], tuple[Result, bool, bool]] = {}
        """Each key of `results` once, so that the entries of `_last` share it: there is one for each resource."""
        for outcome in outcomes:
            self.add(outcome)

    def __repr__(self) -> str:
        """Return the numbers."""
        return f"Tally({self.results})"

    def add(self, outcome: Outcome) -> None:
        """Count an outcome; it replaces an earlier one of the same resource."""
        identity, key = outcome.identity, (result_of(outcome), outcome.ran, outcome.blocked)
        before = self._last.get(identity)
        if before is not None:
            self.results[before] -= 1
        self._last[identity] = self._keys.setdefault(key, key)
        self.results[key] = self.results.get(key, 0) + 1
        if key[0] == "changed":
            self.changed.add(identity)
        self.any_failed = self.any_failed or outcome.result is False
        self.any_changed = self.any_changed or outcome.changed

    def close(self) -> None:
        """Free the memory that only `add` needs; call this after the last outcome."""
        self._last.clear()

    def count(self, result: Result) -> int:
        """Return the number of resources with this result."""
        return sum(number for (each, _, _), number in self.results.items() if each == result)

    @property
    def total(self) -> int:
        """Number of resources with an outcome."""
        return sum(self.results.values())

    @property
    def ran(self) -> int:
        """Number of resources that have run."""
        return sum(number for (_, ran, _), number in self.results.items() if ran)

    @property
    def blocked(self) -> int:
        """Number of resources that did not run because of another one."""
        return sum(number for (_, _, blocked), number in self.results.items() if blocked)
