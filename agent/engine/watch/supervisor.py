"""Watch supervision: one task for each vertex whose watch has to be waited for, while the vertex is in the graph.

A watch that raises or ends is restarted with growing delays; the vertex does not run until the new watch is armed. The
same holds while a watch says that it reports no changes. Only cancellation ends the supervision. A watch that reports
events by a callback, as those of paths do, is supervised only from an error until it is armed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

from holdfast.agent.engine import kinds
from holdfast.agent.engine.model.failure import backoff, describe_os_error
from holdfast.agent.engine.model.outcome import Cause
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.resources.context import Watch
from holdfast.resources.contract import Resource
from holdfast.resources.errors import RAISED, HoldfastError, Permanent
from holdfast.resources.traits import Backed, Reactive
from holdfast.resources.watch_items import Unwatched, WatchItem
from holdfast.resources.watches import CallbackWatch, either, idle

ARMING = 60.0
"""Seconds within which a watch must be armed: until then, definition order keeps later vertices from starting."""
STEADY = 60.0
"""Seconds after which the next failure of a watch counts as its first, and the delays start again."""
MANY, REST = 20, 0.02
"""Events of one watch that may follow each other at once, and the seconds that the watch rests then."""


def needs_watch(vertex: Vertex) -> bool:
    """Return whether a vertex has anything to watch."""
    meta = vertex.call.meta
    if isinstance(vertex.resource, Backed):
        return True
    if vertex.call.superseded:
        return False
    if meta.poll is not None:
        return meta.poll > 0
    return bool(meta.creates) or _watches(vertex.resource)


def _watches(resource: Resource) -> bool:
    """Return whether a resource has a watch of its own, because its kind or its declaration asks for one."""
    return kinds.reacts(resource) if isinstance(resource, Reactive) else type(resource).watch is not Resource.watch


class Watched(Protocol):
    """The receiver of reports of the supervision of a watch."""

    def open(self, vertex: Vertex) -> Watch:
        """Return a new watch of a vertex; called for each start and restart."""
        ...

    def listen(self, vertex: Vertex, watch: CallbackWatch) -> None:
        """Arm a watch that reports events by a callback. Raises what the watch raises."""

    def armed(self, vertex: Vertex) -> None:
        """Note that the watch is armed."""

    def event(self, vertex: Vertex) -> None:
        """Note an event. Never raises, and defers all work."""

    async def failed(
        self, vertex: Vertex, why: str, delay: float | None = None, error: BaseException | None = None
    ) -> None:
        """Note that the watch is started again after `delay` seconds, or continues by itself (None).

        `error` is given if it is a bug of the kind.
        """


async def supervise(vertex: Vertex, watched: Watched, error: BaseException | None = None) -> None:
    """Watch a vertex until cancelled; a watch with a callback only until it is armed.

    `error` is why the watch could not be started without a task; None: that was not tried, or not possible.
    """
    loop, failures = asyncio.get_running_loop(), 0
    while True:
        began = loop.time()
        error = error or await _failure(vertex, watched)
        if error is None:
            return
        failures = failures + 1 if loop.time() - began < STEADY else 1
        delay = backoff(None, failures)
        expected = isinstance(error, (HoldfastError, OSError, StopAsyncIteration))
        await watched.failed(vertex, _describe(error), delay, None if expected else error)
        error = None
        await asyncio.sleep(delay)


async def _failure(vertex: Vertex, watched: Watched) -> BaseException | None:
    """Watch a vertex until the watch fails, and return the error. None: from now on, a callback reports events."""
    try:
        watch = watched.open(vertex)
        if isinstance(watch, CallbackWatch):
            watched.listen(vertex, watch)
            return None
        try:
            async with asyncio.timeout(ARMING):
                first = await anext(watch)
        except TimeoutError:
            raise Permanent(f"it was not armed within {ARMING:g} s") from None
        await _tell(vertex, watched, first)
        pace = Pace()
        async for item in watch:
            if item is None and vertex.watching.armed:
                watched.event(vertex)
            else:
                await _tell(vertex, watched, item)
            if pace.too_many():
                await asyncio.sleep(REST)
        return Permanent("the watch ended by itself")
    except RAISED as error:  # the code of a kind may raise anything; its watch is restarted
        return error


class Pace:
    """Finds a watch that reports very many events, or reports them without ever waiting: it has to rest.

    No event is lost: the watch continues after the rest.
    """

    __slots__ = ("_events", "_loop", "_since")  # each armed watch has one

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._events, self._since = 0, -REST

    def too_many(self) -> bool:
        """Count an event. Returns whether there were `MANY` within `REST` seconds, which starts a new count."""
        now = self._loop.time()
        if now >= self._since + REST:
            self._events, self._since = 0, now
        self._events += 1
        return self._events >= MANY


async def _tell(vertex: Vertex, watched: Watched, item: WatchItem) -> None:
    """Report that a watch is armed, or why it reports no changes."""
    if not isinstance(item, Unwatched):
        watched.armed(vertex)
    elif item.why != vertex.watching.failed:
        await watched.failed(vertex, item.why)


def cause_of(vertex: Vertex) -> Cause:
    """Return the cause of a run that an event of the vertex's watch starts."""
    return "poll" if kinds.period(vertex.resource, vertex.call.meta) else "drift"


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


def _describe(error: BaseException) -> str:
    if isinstance(error, StopAsyncIteration):
        return "the watch ended before it was armed"
    if isinstance(error, OSError):
        return describe_os_error(error)
    return str(error) if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
