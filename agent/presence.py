"""Checks that the files and directories of the configuration are still there.

A directory that had content and is now missing or empty is treated as an accident (an unmounted file system, an
interrupted deployment), not as a request to manage nothing. The last good graph stays in force until the content is
back. At the start there is no graph yet; the journal then says whether the states directory had content. To manage
nothing, an administrator leaves an empty `top.sls`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from holdfast.resources import paths
from holdfast.states.errors import CompileError, Location, Problem
from holdfast.states.source.hostfiles import absolute

HINT = "put it back; to manage nothing, leave an empty file there (top.sls; for the settings agent.yaml)"


class Presence:
    """Remembers which files and directories had content when states were last applied, perhaps by another agent."""

    def __init__(self) -> None:
        self._held: frozenset[Path] = frozenset()

    def demand(self, places: Iterable[Path]) -> None:
        """Raise `CompileError` for paths that had content and have none now."""
        gone = [(place, _lacking(place)) for place in dict.fromkeys(places) if place in self._held]
        problems = [Problem(Location(str(place)), "configuration-gone", why, HINT) for place, why in gone if why]
        if problems:
            raise CompileError(problems)

    def expect(self, place: Path) -> None:
        """Record that a path had content before the agent was started."""
        self._held |= {place}

    def note(self, places: Iterable[Path]) -> None:
        """Record which of these paths have content now."""
        self._held = frozenset(place for place in places if not _lacking(place))


def _lacking(place: Path) -> str:
    """Return why a path has no content; empty if it has some or cannot be read. Hidden entries do not count."""
    path = absolute(place)
    try:
        if not paths.exists(path):
            return "it is missing"
        return (
            ""
            if any(not name.startswith(".") for name in paths.directory(path).names())
            else "this directory is empty now"
        )
    except (OSError, paths.Unsafe):  # a file, or a directory that cannot be read now
        return ""
