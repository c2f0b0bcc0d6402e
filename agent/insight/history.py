"""The last outcomes of each resource that are worth remembering: what was changed, failed, or was kept from running.

A look that finds all right is not kept, so a graph in which nothing happens costs nothing here. A failure that lasts is one entry
with a count: though it is retried all night it does not push out what was before it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.agent.engine.report import Outcome
from holdfast.agent.narrate import verb

KEPT = 10
"""Entries of one resource."""
RESOURCES = 2000
"""Resources that have entries; those that were quiet the longest are forgotten first."""
RECENT = 50
"""Repairs and failures of all resources, for the live view."""
COMMENT = 200
"""Characters of a comment that are kept."""


LASTING = ("failed", "blocked")
"""What counts as one when it is found again, by a retry or a recheck; each repair is told by itself."""


class Entry(NamedTuple):
    """One outcome, or a failure that lasts."""

    at: float
    """Unix time at which the last one ended."""
    what: str
    """`repaired`, `created`, `refreshed`, `failed`, `blocked`, `recovered`, `would change`, ..."""
    cause: str
    comment: str
    duration: float
    """Seconds."""
    times: int = 1
    first: float = 0.0
    """When the first of them ended."""
    undone: str = ""
    """Who seems to have undone the repair of before."""


class History:
    """Entries of one agent, newest last."""

    def __init__(self, resources: int = RESOURCES) -> None:
        self._limit = resources
        self._entries: dict[str, tuple[Entry, ...]] = {}
        """Those that something happened to last stand last."""
        self.recent: dict[tuple[str, str], Entry] = {}
        """(identity, what happened) -> its last entry, for all resources; newest last."""

    def tell(self, outcome: Outcome, at: float) -> None:
        """Something came of a resource, at this Unix time."""
        known = self._entries.get(outcome.identity, ())
        what = _worth(outcome, known)
        if not what:
            return
        entry = Entry(
            at, what, outcome.cause, outcome.comment[:COMMENT], outcome.duration, first=at, undone=outcome.undone
        )
        last = known[-1] if known else None
        if last and what in LASTING and (last.what, last.comment) == (entry.what, entry.comment):
            entry = entry._replace(times=last.times + 1, first=last.first)
            known = known[:-1]
        self._entries.pop(outcome.identity, None)
        self._entries[outcome.identity] = (*known, entry)[-KEPT:]
        if len(self._entries) > self._limit:
            del self._entries[next(iter(self._entries))]
        if what != "blocked":
            self.recent.pop((outcome.identity, what), None)
            self.recent[outcome.identity, what] = entry
            if len(self.recent) > RECENT:
                del self.recent[next(iter(self.recent))]

    def of(self, identity: str) -> list[dict[str, Any]]:
        """The entries of one resource, newest first, ready for JSON."""
        return [entry._asdict() for entry in reversed(self._entries.get(identity, ()))]

    def __len__(self) -> int:
        """Resources that have entries."""
        return len(self._entries)


def _worth(outcome: Outcome, known: tuple[Entry, ...]) -> str:
    """What happened, in a word; empty when it is not worth an entry."""
    if outcome.result is False:
        return "blocked" if outcome.blocked else "failed"
    if not outcome.ran:
        return ""
    if outcome.changed or outcome.refreshed:
        return verb(outcome)
    return "recovered" if known and known[-1].what in LASTING else ""
