"""An engine bench with an insight, which uses the clock of the loop, and a recorder that never writes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from engine_bench import Bench
from fake_machine import Machine
from holdfast.agent.engine.model.events import Event
from holdfast.agent.health import Health
from holdfast.agent.insight.insight import Insight
from holdfast.agent.records.recorder import Recorder
from holdfast.agent.records.records import Records

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
    """A bench with an insight and a recorder."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.recorder = Recorder(
            Records(Path("/nonexistent"), Health(), agent=False, durable=False),
            Health(),
            host=lambda: "test",
            declared=lambda _: True,
            redact=lambda value: value,
        )
        self.insight = Insight(lambda: AGENT, lambda: asyncio.get_running_loop().time(), recent=self.recorder.recent)

    def emit(self, event: Event) -> None:
        """Take an event of the engine; the insight comes first."""
        self.insight.tell(event)
        self.recorder.tell(event)
        super().emit(event)
