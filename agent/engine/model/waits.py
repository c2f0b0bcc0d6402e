"""What keeps a dirty resource from running: a pause of the engine, the wait for a retry, or an obstacle."""

from __future__ import annotations

import asyncio
from typing import Literal, NamedTuple

from holdfast.agent.engine.model.outcome import Outcome

Pause = Literal["operator", "going-down", "stopped"]
"""Why no run starts: an operator paused the agent, the system is shutting down, or the engine was stopped."""


class RetryWait(NamedTuple):
    """The wait of a resource for its next attempt."""

    attempt: int
    """Number of the attempt that failed; the first is 1."""
    attempts: int
    """Greatest number of attempts."""
    comment: str
    """Comment of the failed attempt."""
    began: float
    """Loop time of the first attempt."""
    started: float
    """Unix time of the first attempt."""
    undone: Outcome | None = None
    """The outcome of the attempt, if the resource had perhaps drifted again by its end: the next one starts at once."""


class Obstacle(NamedTuple):
    """Why a resource must not be repaired now, although the repair itself would work."""

    text: str
    """For people: what prevents the repair."""
    until: float | None
    """Loop time at which the obstacle ends at the latest; None: unknown."""
    over: asyncio.Event
    """Set when the obstacle ends. Resources that wait for the same thing share one event."""
