"""The last noteworthy outcomes of each resource: changes, failures, and runs that were blocked.

A check that finds nothing to do is not kept, so a graph without activity costs nothing here. A lasting failure is one
entry with a count, so that a night of retries does not displace earlier entries.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.agent.engine.model.events import Outcome
from holdfast.agent.narrate import verb

KEPT = 10
"""Most entries of one resource."""
RESOURCES = 2000
"""Most resources with entries; the one without new entries for longest is dropped first."""
RECENT = 50
"""Most repairs and failures of all resources together, for the live view."""
COMMENT = 200
"""Most characters of a comment."""


LASTING = ("failed", "blocked")
"""Outcomes that extend the previous entry when a retry or recheck repeats them; each repair has its own entry."""


class HistoryEntry(NamedTuple):
    """One outcome, or several equal failures in a row."""

    at: float
    """Unix time at which the last outcome ended."""
    what: str
    """`repaired`, `created`, `refreshed`, `failed`, `blocked`, `recovered`, `would change`, `called`, ..."""
    cause: str
    comment: str
    duration: float
    """Seconds."""
    times: int = 1
    first: float = 0.0
    """Unix time at which the first outcome ended."""
    undone: str = ""
    """The resource that seems to have undone the previous repair."""


class History:
    """Entries of one agent, newest last."""

    def __init__(self, resources: int = RESOURCES) -> None:
        self._limit = resources
        self._entries: dict[str, tuple[HistoryEntry, ...]] = {}
        """Ordered by the time of the last entry, the latest last."""
        self.recent: dict[tuple[str, str], HistoryEntry] = {}
        """(identity, what happened) -> its last entry, for all resources; the newest is last."""

    def tell(self, outcome: Outcome, at: float) -> None:
        """Record the outcome of a run that ended at this Unix time."""
        known = self._entries.get(outcome.identity, ())
        what = _worth(outcome, known)
        if not what:
            return
        entry = HistoryEntry(
            at, what, outcome.cause, outcome.comment[:COMMENT], outcome.duration, first=at, undone=outcome.undone
        )
        last = known[-1] if known else None
        if last and what in LASTING and (last.what, last.comment) == (entry.what, entry.comment):
            entry = entry._replace(times=last.times + 1, first=last.first)
            known = known[:-1]
        self._keep(outcome.identity, known, entry)

    def add(self, identity: str, entry: HistoryEntry) -> None:
        """Record something that is not the outcome of a run."""
        self._keep(identity, self._entries.get(identity, ()), entry)

    def _keep(self, identity: str, known: tuple[HistoryEntry, ...], entry: HistoryEntry) -> None:
        """Add an entry to those that are `known` of a resource."""
        self._entries.pop(identity, None)
        self._entries[identity] = (*known, entry)[-KEPT:]
        if len(self._entries) > self._limit:
            del self._entries[next(iter(self._entries))]
        if entry.what != "blocked":
            self.recent.pop((identity, entry.what), None)
            self.recent[identity, entry.what] = entry
            if len(self.recent) > RECENT:
                del self.recent[next(iter(self.recent))]

    def of(self, identity: str) -> list[dict[str, Any]]:
        """Return the entries of one resource, newest first, ready for JSON."""
        return [entry._asdict() for entry in reversed(self._entries.get(identity, ()))]

    def __len__(self) -> int:
        """Return the number of resources with entries."""
        return len(self._entries)


def _worth(outcome: Outcome, known: tuple[HistoryEntry, ...]) -> str:
    """Return what happened, in a word; empty if it is not noteworthy."""
    if outcome.result is False:
        return "blocked" if outcome.blocked else "failed"
    if not outcome.ran:
        return ""
    if outcome.changed or outcome.refreshed:
        return verb(outcome)
    return "recovered" if known and known[-1].what in LASTING else ""
