"""Handlers: functions that are called for each event of a watch, and again if they raise."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from holdfast.agent.northbound.delivery import EventDelivery
from holdfast.agent.northbound.events import Event, EventQueue
from holdfast.agent.northbound.model import Model

T = TypeVar("T", bound=Model)
Handler = Callable[[Event[T]], Awaitable[None]]

RESTS = (0.1, 30.0)
"""Seconds before the first, and before each late, repetition of a call that has raised."""


class EventHandlers:
    """The handlers of one API, each in a task."""

    def __init__(self, delivery: EventDelivery) -> None:
        self._delivery = delivery
        self._tasks: set[asyncio.Task[None]] = set()
        self._failing: dict[str, str] = {}
        """Handler -> why it has raised."""

    def add(self, events: EventQueue[T], handler: Handler[T], name: str) -> None:
        """Call a handler for each event of a queue."""
        self._tasks.add(asyncio.create_task(self._handle(events, handler, name), name=f"handler {name}"))

    async def close(self) -> None:
        """End all handlers."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def problems(self) -> Iterator[str]:
        """Yield why handlers fail."""
        yield from (f"the handler {name} fails: {why}" for name, why in self._failing.items())

    async def _handle(self, events: EventQueue[T], handler: Handler[T], name: str) -> None:
        try:
            async for each in events:
                await self._hand_over(each, handler, name)
        except Exception as error:  # noqa: BLE001 - what the condition of the watch raises
            self._failing[name] = f"it gets no more events: {type(error).__name__}: {error}"
        finally:
            self._delivery.subscriptions.discard(events)

    async def _hand_over(self, each: Event[T], handler: Handler[T], name: str) -> None:
        rest = RESTS[0]
        while True:
            try:
                await handler(each)
            except (Exception, asyncio.CancelledError) as error:
                if (task := asyncio.current_task()) and task.cancelling():
                    raise
                self._failing[name] = f"{type(error).__name__}: {error}"
                await asyncio.sleep(rest)
                rest = min(2 * rest, RESTS[1])
            else:
                self._failing.pop(name, None)
                return
