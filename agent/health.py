"""Problems of the agent itself, as a registry of coded conditions.

`holdfast status`, systemd's STATUS line and the tests read the same registry, so no log has to be searched.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Literal, NamedTuple

Severity = Literal["info", "warning", "error"]
"""`info`: there is no problem, but something that an operator may want is missing."""


class HealthCondition(NamedTuple):
    """One present problem, or one fact about the agent that an operator may want to change."""

    code: str
    """Stable name: `states-broken`, `watch-polling`, `task-died`, ..."""
    severity: Severity
    text: str
    since: float
    """Unix time at which it began."""


class Health:
    """The present conditions; `listen` is called after each change."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._conditions: dict[str, HealthCondition] = {}
        self._endings: dict[str, asyncio.TimerHandle] = {}
        self.listen: Callable[[], None] = lambda: None

    def set(self, code: str, text: str, severity: Severity = "warning", *, lasts: float | None = None) -> None:
        """Set a condition. Its start time is kept while its text changes.

        With `lasts` it ends after so many seconds.
        """
        if (ending := self._endings.pop(code, None)) is not None:
            ending.cancel()
        if lasts is not None:
            self._endings[code] = asyncio.get_running_loop().call_later(lasts, self.clear, code)
        known = self._conditions.get(code)
        condition = HealthCondition(code, severity, text, known.since if known else self._clock())
        if condition != known:
            self._conditions[code] = condition
            self.listen()

    def clear(self, code: str) -> None:
        """Remove a condition, if it is set."""
        if self._conditions.pop(code, None) is not None:
            self.listen()

    @property
    def conditions(self) -> tuple[HealthCondition, ...]:
        """All conditions, oldest first."""
        return tuple(sorted(self._conditions.values(), key=lambda c: (c.since, c.code)))
