"""`trigger` for operators: runs one resource, and waits for the outcome.

A run that began earlier may have read the state from before a change of the operator, so its outcome is not the answer:
the engine makes another run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from holdfast.agent.control.schema import ControlError
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.events import Event, Notice, Ran, Started
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.insight.search import find
from holdfast.agent.narrate import Narrator


@dataclass(eq=False)
class _Caller:
    """A caller that waits for the outcome of a run."""

    asked: Callable[[], None]
    """Called before the start of the run whose outcome the caller waits for."""
    earlier: asyncio.Task[None] | None
    """The run that was in progress when the caller came."""
    outcome: asyncio.Future[Outcome] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def is_next(self) -> bool:
        """Whether the run that reports an event is the one that the caller waits for, not the earlier one."""
        return self.earlier is None or self.earlier is not asyncio.current_task()


class Triggers:
    """The callers that wait for runs of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: dict[str, list[_Caller]] = {}
        """Resource -> callers that wait for its run."""

    async def trigger(self, name: str, asked: Callable[[str], None]) -> dict[str, Any]:
        """Run one resource now; `text` is the outcome in a sentence, `result` that of the outcome.

        `asked` is called with the identity of the resource before it runs for this caller.

        Raises `ControlError` if there is no such resource, or if it is paused by name.
        """
        vertex = await find(name, self._engine.view, "trigger")
        identity = vertex.identity
        if by := self._engine.policy.pause_by_pattern(vertex):
            raise ControlError(
                f"cannot trigger {identity}: {by.pattern} is {by.said}; `holdfast resume '{by.pattern}'` first"
            )
        caller = _Caller(lambda: asked(identity), vertex.run.task)
        try:
            self._engine.trigger(identity)
        except KeyError:  # the states were replaced during the search
            raise ControlError(_no_longer(identity)) from None
        before = self._waiting.get(identity, ())
        self._waiting[identity] = [*(each for each in before if not each.outcome.done()), caller]
        if caller.earlier is None:
            caller.asked()
        if self._engine.going_down:
            caller.outcome.cancel()
            return {"text": f"the system is shutting down: {identity} is not run", "result": None}
        if self._engine.paused:
            caller.outcome.cancel()
            return {"text": f"paused: {identity} runs after `holdfast resume`", "result": None}
        outcome = await caller.outcome
        line = Narrator().tell(Ran(0, outcome))
        return {"text": line.text if line else "", "result": outcome.result}

    def tell(self, event: Event) -> None:
        """Answer callers whose resource has run for them, or has left the graph."""
        if not self._waiting:
            return
        if isinstance(event, Ran) and not event.outcome.listener:
            self._ran(event.outcome)
        elif isinstance(event, Started):
            for caller in self._waiting.get(event.identity, ()):
                if caller.earlier is not None and caller.is_next:
                    caller.asked()
        elif isinstance(event, Notice) and event.code == "left":
            for caller in self._waiting.pop(event.identity, ()):
                if not caller.outcome.done():
                    caller.outcome.set_exception(ControlError(_no_longer(event.identity)))

    def _ran(self, outcome: Outcome) -> None:
        callers = self._waiting.pop(outcome.identity, [])
        if later := [each for each in callers if not each.is_next]:
            self._waiting[outcome.identity] = later
        for caller in callers:
            if caller.is_next and not caller.outcome.done():
                caller.outcome.set_result(outcome)


def _no_longer(identity: str) -> str:
    return f"cannot trigger {identity}: it is no longer declared"
