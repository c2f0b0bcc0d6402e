"""One run, with the data that the rules need."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.engine.model.vertex import Vertex


@dataclass(eq=False)
class Active:
    """A run."""

    vertex: Vertex
    done_before: int
    """Number of effects on the machine before its start."""
    task: asyncio.Task[None] | None = None
    failed: dict[Vertex, Outcome | None] = field(default_factory=dict)
    """Target that had failed before its start -> outcome of the target."""
    counts: dict[Any, int] = field(default_factory=dict)
    """For a run that must change nothing: its change count, and the counts delivered to it."""
    said_before: dict[str, int] = field(default_factory=dict)
    """Identity of a sender -> number of values that it had sent before the start."""
    since: float = 0.0
    """Loop time of its start."""
    told: bool = False
    """Whether the outcome of the run was reported."""
    excused: bool = False
    """Whether an operator has requested the run, or the previous one failed."""
    heard: dict[str, str] = field(default_factory=dict)
    """Argument -> received value."""
