"""Watch supervision: one task for each vertex that has something to watch, while it is in the graph.

A watch that raises or ends is restarted with growing delays; the vertex does not run until the new watch is armed. Only
cancellation ends the supervision. If a watch reports events by a callback, as those of paths do, the task ends as soon
as the watch is armed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

from holdfast.agent.engine import kinds
from holdfast.agent.engine.model.events import Cause
from holdfast.agent.engine.model.failure import backoff, describe_os_error
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.resources.context import Watch
from holdfast.resources.contract import Resource
from holdfast.resources.errors import HoldfastError, Permanent
from holdfast.resources.traits import Backed, Reactive
from holdfast.resources.watches import CallbackWatch, Closable, either, idle

ARMING = 60.0
"""Seconds within which a watch must be armed: until then, definition order keeps later vertices from starting."""
STEADY = 60.0
"""Seconds after which the next failure of a watch counts as its first, and the delays start again."""


def needs_watch(vertex: Vertex) -> bool:
    """Whether a vertex has anything to watch."""
    meta = vertex.call.meta
    if isinstance(vertex.resource, Backed):
        return True
    if vertex.call.superseded:
        return False
    if meta.poll is not None:
        return meta.poll > 0
    return bool(meta.creates) or _watches(vertex.resource)


def _watches(resource: Resource) -> bool:
    """Whether a resource has a watch of its own, because its kind or its declaration asks for one."""
    return kinds.reacts(resource) if isinstance(resource, Reactive) else type(resource).watch is not Resource.watch


class Watched(Protocol):
    """What the supervision of a watch reports to."""

    def open(self, vertex: Vertex) -> Watch:
        """Return a new watch of a vertex; called for each start and restart."""
        ...

    def armed(self, vertex: Vertex, subscription: Closable | None = None) -> None:
        """Note that the watch is armed; `subscription`: the supervision ends, and callbacks report events."""

    def event(self, vertex: Vertex) -> None:
        """Note an event. Never raises, and defers all work."""

    async def failed(self, vertex: Vertex, why: str, delay: float, error: BaseException | None) -> None:
        """Note that the watch is started again after `delay` seconds; `error` is given if it is a bug of the kind."""


class WatchCallback:
    """Passes the callback of a watch to the engine. Each such watch has one; it is smaller than a `partial`."""

    __slots__ = ("_vertex", "_watched")

    def __init__(self, vertex: Vertex, watched: Watched) -> None:
        self._vertex, self._watched = vertex, watched

    def __call__(self) -> None:
        """Report that the resource may have changed."""
        self._watched.event(self._vertex)


async def supervise(vertex: Vertex, watched: Watched) -> None:
    """Watch a vertex until cancelled; a watch with a callback only until it is armed."""
    loop, failures = asyncio.get_running_loop(), 0
    while True:
        began = loop.time()
        try:
            watch = watched.open(vertex)
            if isinstance(watch, CallbackWatch):
                watched.armed(vertex, watch.listen(WatchCallback(vertex, watched)))
                return
            try:
                async with asyncio.timeout(ARMING):
                    await anext(watch)
            except TimeoutError:
                raise Permanent(f"it was not armed within {ARMING:g} s") from None
            watched.armed(vertex)
            async for _ in watch:
                watched.event(vertex)
            raise Permanent("the watch ended by itself")  # noqa: TRY301 - it is a failure like any other
        except Exception as error:  # noqa: BLE001 - the code of a kind may raise anything; its watch is restarted
            failures = failures + 1 if loop.time() - began < STEADY else 1
            delay = backoff(None, failures)
            expected = isinstance(error, (HoldfastError, OSError, StopAsyncIteration))
            await watched.failed(vertex, _describe(error), delay, None if expected else error)
            await asyncio.sleep(delay)


def cause_of(vertex: Vertex) -> Cause:
    """The cause of a run that an event of the vertex's watch starts."""
    return "drift" if vertex.call.meta.poll is None else "poll"


def watch_of(vertex: Vertex) -> Watch:
    """Return a new watch of a vertex, according to its `poll` and `creates` options."""
    period, creates, own = vertex.call.meta.poll, vertex.call.meta.creates, _watches(vertex.resource)
    if period is not None:
        return ticker(period) if period > 0 else idle()
    if not creates:
        return vertex.resource.watch(vertex.ctx)
    created = vertex.ctx.watch_path(*creates)  # when a created path vanishes, its command must run again
    return either(created, vertex.resource.watch(vertex.ctx)) if own else created


async def ticker(period: float) -> AsyncIterator[None]:
    """Return a watch that is armed at once, and then reports an event every `period` seconds."""
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
