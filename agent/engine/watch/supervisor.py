"""Watch supervision: one task for each resource that has something to watch, for as long as it is in the graph.

A watch that raises, or ends by itself, is restarted with growing delays; nothing runs between its failure and the moment
when the new one is armed. Only cancellation ends it. Where a watch tells by a callback, as those of paths do, the task ends when it is armed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

from holdfast.agent.engine.model.events import Cause
from holdfast.agent.engine.model.failure import backoff, describe_os_error
from holdfast.agent.engine.model.graph import Vertex
from holdfast.resources.context import Watch
from holdfast.resources.contract import Resource
from holdfast.resources.errors import HoldfastError, Permanent
from holdfast.resources.traits import Backed, Reactive
from holdfast.resources.watches import CallbackWatch, either, idle

ARMING = 60.0
"""Seconds a watch may take to say "armed": until then nothing that comes later in the order starts."""
STEADY = 60.0
"""Seconds a watch must have lived for its next failure to count as the first."""


def needs_watch(vertex: Vertex) -> bool:
    """Whether there is anything to watch."""
    meta = vertex.call.meta
    if isinstance(vertex.resource, Backed):
        return True
    if vertex.call.superseded:
        return False
    if meta.poll is not None:
        return meta.poll > 0
    return bool(meta.creates) or _watches(vertex.resource)


def _watches(resource: Resource) -> bool:
    """Whether a resource has a watch of its own: one that its kind, or its state, has asked for."""
    return resource.reacts() if isinstance(resource, Reactive) else type(resource).watch is not Resource.watch


class Hooks(NamedTuple):
    """Whom watches tell; one for all of them."""

    watch: Callable[[Vertex], Watch]
    """Called for each watch that is begun."""
    armed: Callable[[Vertex], None]
    """Called once for each watch that works."""
    event: Callable[[Vertex], None]
    """Called for each event; never raises, and defers all work."""
    failed: Callable[[Vertex, str, float, BaseException | None], Awaitable[None]]
    """Called before each wait, with the exception if it is a bug of the kind."""


class WatchCallback:
    """Passes the callback of a watch to the engine. There is one for each such watch; it is smaller than a `partial`."""

    __slots__ = ("_event", "_vertex")

    def __init__(self, vertex: Vertex, event: Callable[[Vertex], None]) -> None:
        self._vertex, self._event = vertex, event

    def __call__(self) -> None:
        """Something may have changed."""
        self._event(self._vertex)


async def supervise(vertex: Vertex, hooks: Hooks) -> None:
    """Watch for ever; or only until the watch is armed, where it tells by a callback from then on."""
    loop, failures = asyncio.get_running_loop(), 0
    while True:
        began = loop.time()
        try:
            watch = hooks.watch(vertex)
            if isinstance(watch, CallbackWatch):
                vertex.watcher = watch.listen(WatchCallback(vertex, hooks.event))
                hooks.armed(vertex)
                return
            try:
                async with asyncio.timeout(ARMING):
                    await anext(watch)
            except TimeoutError:
                raise Permanent(f"it was not armed within {ARMING:g} s") from None
            hooks.armed(vertex)
            async for _ in watch:
                hooks.event(vertex)
            raise Permanent("the watch ended by itself")  # noqa: TRY301 - it is a failure like any other
        except Exception as error:  # noqa: BLE001 - the code of a kind may raise anything; its watch is restarted
            failures = failures + 1 if loop.time() - began < STEADY else 1
            delay = backoff(None, failures)
            expected = isinstance(error, (HoldfastError, OSError, StopAsyncIteration))
            await hooks.failed(vertex, _describe(error), delay, None if expected else error)
            await asyncio.sleep(delay)


def cause_of(vertex: Vertex) -> Cause:
    """The cause that events of the vertex's watch give."""
    return "drift" if vertex.call.meta.poll is None else "poll"


def watch_of(vertex: Vertex) -> Watch:
    """What there is to be watched, as its state says."""
    period, creates, own = vertex.call.meta.poll, vertex.call.meta.creates, _watches(vertex.resource)
    if period is not None:
        return ticker(period) if period > 0 else idle()
    if not creates:
        return vertex.resource.watch(vertex.ctx)
    made = vertex.ctx.watch_path(*creates)  # what a command has made is gone: it is due again
    return either(made, vertex.resource.watch(vertex.ctx)) if own else made


async def ticker(period: float) -> AsyncIterator[None]:
    """Armed at once, then one event every `period` seconds."""
    yield None
    while True:
        await asyncio.sleep(period)
        yield None


def _describe(error: Exception) -> str:
    if isinstance(error, StopAsyncIteration):
        return "the watch ended before it was armed"
    if isinstance(error, OSError):
        return describe_os_error(error)
    return str(error) if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
