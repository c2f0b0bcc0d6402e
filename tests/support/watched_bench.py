"""An engine on the fake machine, with an insight that listens to it, both by the clock of the loop."""

from __future__ import annotations

import asyncio
from typing import Any

from engine_bench import Bench, Machine, compilation
from holdfast.agent.engine.engine import Engine
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
"""What an agent says of itself."""


class Watched(Bench):
    """A bench whose engine somebody looks into."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.insight = Insight(lambda: AGENT, lambda: asyncio.get_running_loop().time())

    def _emit(self, event: Event) -> None:
        self.insight.tell(event)
        super()._emit(event)

    async def converged(self, *states: tuple[Any, ...], **options: Any) -> Engine:
        """An engine that has done its first pass on these states."""
        engine = self.engine(**options)
        await engine.swap(compilation(*states), "start")
        await engine.settle()
        return engine
