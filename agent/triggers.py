"""`trigger` for operators: runs one resource, and waits for the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.agent.control.schema import ControlError
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.events import Event, Notice, Outcome, Ran
from holdfast.agent.insight.search import find
from holdfast.agent.narrate import Narrator


class Triggers:
    """The callers that wait for runs of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: dict[str, list[asyncio.Future[Outcome]]] = {}
        """Resource -> callers that wait for the outcome of its run."""

    async def trigger(self, name: str, asked: Callable[[str], None]) -> dict[str, Any]:
        """Run one resource now; `text` is the outcome in a sentence, `result` that of the outcome.

        `asked` is called with the identity of the resource before it runs.

        Raises `ControlError` if there is no such resource, or if it is paused by name.
        """
        vertex = await find(name, self._engine.view, "trigger")
        identity = vertex.identity
        if by := self._engine.policy.pause_by_pattern(vertex):
            raise ControlError(
                f"cannot trigger {identity}: {by.pattern} is {by.said}; `holdfast resume '{by.pattern}'` first"
            )
        asked(identity)
        try:
            self._engine.trigger(identity)
        except KeyError:  # the states were replaced during the search
            raise ControlError(_no_longer(identity)) from None
        if self._engine.going_down:
            return {"text": f"the system is shutting down: {identity} is not run", "result": None}
        if self._engine.paused:
            return {"text": f"paused: {identity} runs after `holdfast resume`", "result": None}
        ran: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(identity, []).append(ran)
        outcome = await ran
        line = Narrator().tell(Ran(0, outcome))
        return {"text": line.text if line else "", "result": outcome.result}

    def tell(self, event: Event) -> None:
        """Answer callers whose resource has run, or has left the graph."""
        if not self._waiting:
            return
        if isinstance(event, Ran):
            for waiting in self._waiting.pop(event.outcome.identity, ()):
                if not waiting.done():
                    waiting.set_result(event.outcome)
        elif isinstance(event, Notice) and event.code == "left":
            for waiting in self._waiting.pop(event.identity, ()):
                if not waiting.done():
                    waiting.set_exception(ControlError(_no_longer(event.identity)))


def _no_longer(identity: str) -> str:
    return f"cannot trigger {identity}: it is no longer declared"
