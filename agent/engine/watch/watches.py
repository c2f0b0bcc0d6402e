"""The watches of the vertices of a graph: started when a vertex joins, and supervised until it leaves."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import Protocol

from holdfast.agent.engine.model.events import Notice
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.engine.policy import Policy
from holdfast.agent.engine.watch.backgrounds import BackgroundTasks
from holdfast.agent.engine.watch.retirement import cancel
from holdfast.agent.engine.watch.supervisor import needs_watch, supervise, watch_of
from holdfast.resources.context import Watch
from holdfast.resources.errors import RAISED
from holdfast.resources.traits import Backed
from holdfast.resources.watches import CallbackWatch, idle

SLICE = 50
"""Watches that are started in one callback of the loop: about two milliseconds."""


class Handler(Protocol):
    """The receiver of reports of watches."""

    def armed(self, vertex: Vertex) -> None:
        """Note that the watch is armed, or that the vertex needs none: from now on it may start."""

    def soon(self) -> None:
        """Start all vertices that may start in the next callback of the loop, since watches are armed."""

    def reported(self, vertex: Vertex) -> None:
        """Note an event of the watch. Never raises, and defers all work."""

    async def interrupt(self, vertex: Vertex) -> None:
        """End the current run, since the watch has failed."""

    def failed(self, vertex: Vertex) -> None:
        """Conclude the vertex, which must not start until the next watch is armed."""

    def proceed(self) -> None:
        """Start all vertices that may start: the vertices that a new one replaces have ended."""


class WatchCallback:
    """Passes an event of a path watch to the engine. Each such watch has one; it is smaller than a `partial`."""

    __slots__ = ("_event", "_vertex")

    def __init__(self, event: Callable[[Vertex], None], vertex: Vertex) -> None:
        self._event, self._vertex = event, vertex

    def __call__(self) -> None:
        """Report that the resource may have changed."""
        self._event(self._vertex)


class Watches:
    """The watches of one engine. A one-shot run has only the background tasks that its resources need.

    Watches are started in slices, so that the start of many neither blocks the event loop nor needs memory for all at
    once. Vertices start when all of them are started: the members of a group are armed together.
    """

    def __init__(
        self,
        policy: Policy,
        backgrounds: BackgroundTasks,
        emit: Callable[[Notice], None],
        handler: Handler,
        unwatched: dict[Vertex, str],
    ) -> None:
        self._policy = policy
        self._backgrounds = backgrounds
        self._emit = emit
        self._handler = handler
        self.event = handler.reported
        """Called for each event of a watch; the handler itself, so that an event costs one call less."""
        self.unwatched = unwatched
        """Vertex whose watch has failed and is not armed again yet -> why it failed."""
        self._unstarted: deque[Vertex] = deque()
        """Vertices whose watch is started in one of the next callbacks of the loop, in definition order."""
        self._waiting: set[asyncio.Task[None]] = set()
        """Tasks that start a watch when the vertices that its vertex replaces have ended."""

    def start(self, vertex: Vertex, predecessors: Sequence[asyncio.Task[None]] = ()) -> None:
        """Start the watch of a new vertex, after these tasks, which end the vertices that it replaces."""
        if predecessors:
            vertex.watching.predecessors = tuple(predecessors)
            task = asyncio.create_task(self._start_later(vertex))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)
        elif not needs_watch(vertex) or not (self._policy.daemon or isinstance(vertex.resource, Backed)):
            self._arm(vertex)
        else:
            self._unstarted.append(vertex)
            if len(self._unstarted) == 1:
                asyncio.get_running_loop().call_soon(self._start_slice)

    def _start_slice(self) -> None:
        """Start the next watches. When all are started, make the scheduler start all vertices that may start."""
        try:
            for _ in range(min(len(self._unstarted), SLICE)):
                self._begin(self._unstarted.popleft())
        finally:  # an exception for one vertex must not keep the others from being watched
            if self._unstarted:
                asyncio.get_running_loop().call_soon(self._start_slice)
            else:
                self._handler.soon()

    def _begin(self, vertex: Vertex) -> None:
        """Start the watch of a vertex, unless the vertex has left the graph meanwhile."""
        if vertex.queue.removed:
            return
        error = None
        try:
            watch = self.open(vertex)
            if isinstance(watch, CallbackWatch):
                self.listen(vertex, watch)
                return
        except RAISED as caught:  # the code of a kind may raise anything; the supervision reports it
            error = caught
        vertex.watching.watcher = asyncio.create_task(supervise(vertex, self, error), name=f"watch {vertex.identity}")

    async def _start_later(self, vertex: Vertex) -> None:
        await asyncio.wait(vertex.watching.predecessors)
        vertex.watching.predecessors = ()
        if not vertex.queue.removed:
            self.start(vertex)
            self._handler.proceed()

    def keep(self, vertices: Container[Vertex]) -> None:
        """Forget the failures of all other vertices, which have left the graph."""
        for vertex in [each for each in self.unwatched if each not in vertices]:
            del self.unwatched[vertex]

    async def stop(self) -> None:
        """Start no further watch."""
        self._unstarted.clear()
        await cancel(self._waiting)

    def open(self, vertex: Vertex) -> Watch:
        """Return a new watch of a vertex."""
        if not isinstance(vertex.resource, Backed):
            return watch_of(vertex)
        return self._backgrounds.watch(vertex, watch_of if self._policy.daemon else lambda _: idle())

    def listen(self, vertex: Vertex, watch: CallbackWatch) -> None:
        """Arm a watch that reports events by a callback, and therefore needs no task."""
        vertex.watching.watcher = watch.listen(WatchCallback(self.event, vertex))
        self.armed(vertex)

    def armed(self, vertex: Vertex) -> None:
        """Note that the watch of a vertex is armed."""
        self._arm(vertex)
        if not self._unstarted:
            self._handler.soon()

    def _arm(self, vertex: Vertex) -> None:
        vertex.watching.armed, vertex.watching.failed = True, ""
        if self.unwatched.pop(vertex, None) is not None:
            self._emit(Notice("info", "watched-again", vertex.identity, "is watched again"))
        self._handler.armed(vertex)

    async def failed(
        self, vertex: Vertex, why: str, delay: float | None = None, error: BaseException | None = None
    ) -> None:
        """Note that the watch has failed. Until it is armed again, the host is not converged."""
        vertex.watching.armed, vertex.watching.failed = False, why
        said = self._said(vertex, why)
        self.unwatched[vertex] = why
        await self._handler.interrupt(vertex)
        again = "" if delay is None else f"; again in {delay:.3g} s"
        self._emit(Notice("warning", "watch-failed", vertex.identity, f"cannot watch{said}{again}", error))
        self._handler.failed(vertex)

    def _said(self, vertex: Vertex, why: str) -> str:
        """Return the reason, or the vertex that has reported it before: a server that is down has many resources.

        Only the first and the last failure are compared, which is enough for that case.
        """
        first = next(iter(self.unwatched), vertex)
        if first is not vertex:
            for other in (first, next(reversed(self.unwatched))):
                if other is not vertex and self.unwatched[other] == why:
                    return f", for the same reason as {other.identity}"
        return f": {why}"
