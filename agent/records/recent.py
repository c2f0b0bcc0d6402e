"""The last repairs and failures of all resources together, in memory, for the live view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.agent.records.rows import ChangeEntry

KEPT = 50
FIELDS = {"resource", "what", "at", "cause", "duration", "times"}


class RecentChange(NamedTuple):
    """The last change or failure of one sort of one resource."""

    at: float
    cause: str
    duration: float
    times: int


class Recent:
    """(identity, what happened) -> the last such change; the newest is last."""

    def __init__(self) -> None:
        self.changes: dict[tuple[str, str], RecentChange] = {}

    def add(self, entry: ChangeEntry) -> None:
        """Add a change."""
        if entry.what == "blocked":
            return
        outcome, key = entry.outcome, (entry.outcome.identity, entry.what)
        self.changes.pop(key, None)
        self.changes[key] = RecentChange(entry.at, outcome.cause, outcome.duration, entry.times)
        if len(self.changes) > KEPT:
            del self.changes[next(iter(self.changes))]

    def load(self, found: Sequence[Mapping[str, Any]]) -> None:
        """Add the changes of an earlier process, newest first, before those that are here."""
        for each in found:
            if each.keys() >= FIELDS and each["what"] != "blocked" and len(self.changes) < KEPT:
                change = RecentChange(each["at"], each["cause"], each["duration"], each["times"])
                self.changes = {(each["resource"], each["what"]): change} | self.changes
