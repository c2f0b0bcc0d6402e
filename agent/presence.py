"""Whether what the configuration is read from is still there.

A directory that held something and is missing or empty now is an accident (a file system that is not mounted, a deployment that stopped
half-way), never an order to manage nothing: the last good graph keeps running until it is back. At the start, when there is no graph yet, the
journal says whether the states directory held something. An administrator who wants nothing to be managed says so with an empty `top.sls`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from holdfast.resources import paths
from holdfast.states.errors import CompileError, Place, Problem
from holdfast.states.hostfiles import absolute

HINT = "put it back; to have nothing read there from now on, leave an empty file there (top.sls; for the settings agent.yaml)"


class Presence:
    """Remembers which files and directories held something when states were last taken over, perhaps by another agent."""

    def __init__(self) -> None:
        self._held: frozenset[Path] = frozenset()

    def demand(self, places: Iterable[Path]) -> None:
        """Raise `CompileError` for those that held something and hold nothing now."""
        gone = [(place, _lacking(place)) for place in dict.fromkeys(places) if place in self._held]
        problems = [Problem(Place(str(place)), "configuration-gone", why, HINT) for place, why in gone if why]
        if problems:
            raise CompileError(problems)

    def expect(self, place: Path) -> None:
        """Take it that a place held something before the agent was started."""
        self._held |= {place}

    def note(self, places: Iterable[Path]) -> None:
        """Remember which of them hold something now."""
        self._held = frozenset(place for place in places if not _lacking(place))


def _lacking(place: Path) -> str:
    """Why nothing can be read at a place; empty when something is there, or when that cannot be said. Hidden entries do not count."""
    path = absolute(place)
    try:
        if not paths.exists(path):
            return "it is not there any more"
        return (
            ""
            if any(not name.startswith(".") for name in paths.directory(path).names())
            else "this directory is empty now"
        )
    except (OSError, paths.Unsafe):  # a file, or what cannot be looked at now
        return ""
