"""An engine bench with an insight that records the engine's events; both use the clock of the loop."""

from __future__ import annotations

import asyncio

from engine_bench import Bench
from fake_machine import Machine
from holdfast.agent.engine.model.events import Event
from holdfast.agent.insight.insight import Insight

AGENT = {
    "id": "test",
    "started": 1.5,
    "converged": True,
    "paused": False,
    "pauses": [],
    "reload": {"successful": True, "at": 2.5},
    "noop": False,
    "status": "converged",
    "health": [],
}
"""What the agent reports about itself."""


class Watched(Bench):
    """A bench with an insight."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.insight = Insight(lambda: AGENT, lambda: asyncio.get_running_loop().time())

    def emit(self, event: Event) -> None:
        """Take an event of the engine; the insight comes first."""
        self.insight.tell(event)
        super().emit(event)
