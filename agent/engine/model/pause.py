"""Pauses by operators, and the patterns of resources that are paused or disabled."""

from __future__ import annotations

import time
from fnmatch import fnmatchcase
from typing import NamedTuple

from holdfast.agent.engine.model.vertex import Vertex

EVERYTHING = ""
"""The pattern of a pause of the whole agent."""


class Paused(NamedTuple):
    """One pause."""

    pattern: str
    """Pattern of `kind[id]` or of an SLS; `EVERYTHING` for the whole agent."""
    reason: str
    since: float
    """Unix time at which the pause began."""
    until: float | None
    """Unix time at which the pause ends; None: an operator ends it."""
    seconds: float | None
    """Requested duration; None: an operator ends the pause."""

    @property
    def said(self) -> str:
        """Text with the end and the reason: `paused until 2026-11-22 21:04:00 (kernel upgrade)`."""
        end = (
            "`holdfast resume`"
            if self.until is None
            else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.until))
        )
        return f"paused until {end}{f' ({self.reason})' if self.reason else ''}"

    @property
    def whole(self) -> str:
        """The text with the pattern of the pause."""
        return f"{self.pattern or 'everything'} is {self.said}"

    @property
    def past(self) -> str:
        """The text for a pause that has ended, with its pattern."""
        return f"{self.pattern or 'everything'} was {self.said}"


def covers(pattern: str, vertex: Vertex) -> bool:
    """Return whether a pattern (`*`, `?`) matches the identity of a vertex or its SLS.

    Brackets have no special meaning, since each identity contains them.
    """
    return any(fnmatchcase(name, pattern.replace("[", "[[]")) for name in (vertex.identity, vertex.call.low["__sls__"]))
