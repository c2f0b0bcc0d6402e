"""Handles watches that are armed, report an event, or fail."""

from __future__ import annotations

from holdfast.agent.engine.decide.done import is_action
from holdfast.agent.engine.decide.marker import Marker
from holdfast.agent.engine.deliver.deliveries import Deliveries
from holdfast.agent.engine.execute.event_handler import EventHandler
from holdfast.agent.engine.execute.runner import Runner
from holdfast.agent.engine.model.vertex import Observer, Vertex
from holdfast.agent.engine.schedule.scheduler import Scheduler
from holdfast.agent.engine.watch.retirement import cancel
from holdfast.resources.traits import Reactive


class WatchHandler:
    """Handles what the watches of one engine report."""

    def __init__(
        self,
        observer: Observer,
        *,
        scheduler: Scheduler,
        marker: Marker,
        deliveries: Deliveries,
        events: EventHandler,
        runner: Runner,
    ) -> None:
        self._scheduler = scheduler
        self._marker = marker
        self._deliveries = deliveries
        self._events = events
        self.soon = events.pending.soon
        """Makes the scheduler start all vertices that may start, in the next callback of the loop."""
        self._runner = runner
        self._observer = observer
        self.reported = events.pending.tell
        """Handles an event of a watch in the next callback of the loop."""

    def armed(self, vertex: Vertex) -> None:
        """Let the vertex start. If its previous watch has failed, check it: that watch may have missed events."""
        ran = vertex.last.outcome is not None and (not vertex.queue.dirty or vertex.queue.listening)
        self._observer.note(vertex)
        self._deliveries.listened.discard(vertex)
        if ran and not _is_done_action(vertex):
            self._marker.mark(vertex, "recovery")
        self._scheduler.offer(vertex)

    def proceed(self) -> None:
        """Start all vertices that may start."""
        self._scheduler.pump()

    async def interrupt(self, vertex: Vertex) -> None:
        """Cancel a current run; it starts again when the next watch is armed.

        A reactive resource, such as a command, ends its run instead: it must not run twice.
        """
        self._observer.note(vertex)
        if vertex.run.task and not isinstance(vertex.resource, Reactive):
            await cancel([vertex.run.task])

    def failed(self, vertex: Vertex) -> None:
        """Conclude a dirty vertex as failed: until the next watch is armed, it must not start."""
        if vertex.queue.dirty:
            self._runner.conclude_unwatched(vertex)
            self._scheduler.pump()


def _is_done_action(vertex: Vertex) -> bool:
    """Return whether the vertex is an action that has run, so that only an event makes it run again."""
    outcome = vertex.last.outcome
    return isinstance(vertex.resource, Reactive) and outcome is not None and outcome.ran and is_action(vertex)
