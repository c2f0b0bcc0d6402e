"""One run, as the rules see it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from holdfast.agent.engine.model.events import Outcome
from holdfast.agent.engine.model.vertex import Vertex


@dataclass(eq=False)
class Active:
    """A run."""

    vertex: Vertex
    done_before: int
    """How much was done to the machine when it started."""
    task: asyncio.Task[None] | None = None
    failed: dict[Vertex, Outcome | None] = field(default_factory=dict)
    """What it requires and had failed when it started -> how."""
    counts: dict[Any, int] = field(default_factory=dict)
    """Only for one that must not change anything: its changes, and what was delivered to it."""
    said_before: dict[str, int] = field(default_factory=dict)
    """Identity of who sends to it -> how much that had said when it started."""
    since: float = 0.0
    """Loop time of its start."""
    told: bool = False
    """What came of it was told."""
    excused: bool = False
    """Somebody wants it to run, or it did not come to a good end before."""
    heard: dict[str, str] = field(default_factory=dict)
    """Argument -> what it has received."""
