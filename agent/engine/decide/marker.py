"""Marks: an event makes a vertex dirty, and with it the vertices that have to run before or after it."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.agent.engine.decide import probes
from holdfast.agent.engine.decide.done import Done
from holdfast.agent.engine.deliver.deliveries import Deliveries
from holdfast.agent.engine.model.outcome import ROUTINE, Cause
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.engine.policy import Policy
from holdfast.agent.engine.schedule.passes import Passes
from holdfast.agent.engine.schedule.scheduler import Scheduler
from holdfast.agent.engine.schedule.timers import Timers


class Marker:
    """Marks the vertices of one engine. The first mark begins a pass."""

    def __init__(
        self,
        policy: Policy,
        scheduler: Scheduler,
        *,
        timers: Timers,
        passes: Passes,
        deliveries: Deliveries,
        done: Done,
    ) -> None:
        self._policy = policy
        self._scheduler = scheduler
        self._timers = timers
        self._passes = passes
        self._deliveries = deliveries
        self._done = done

    def mark(self, vertex: Vertex, cause: Cause, by: Vertex | None = None) -> None:
        """Make a vertex dirty, and the vertices that name it in a prereq, except `by`, whose run has caused the mark.

        Vertices with a prereq are not marked while the target runs, or if a probe has shown that it would change.
        """
        if not self._policy.marks(vertex):
            return
        if not self._passes.running:
            self._deliveries.listened.clear()
        self._passes.mark(cause)
        stack = [vertex]
        while stack:
            vertex = stack.pop()
            if vertex.links.prereq_owners or vertex.probe.result:
                stack.extend(owner for owner in self._owners_to_mark(vertex) if owner is not by)
            queue = vertex.queue
            if queue.dirty and not queue.listening and vertex.run.retry_wait and cause not in ROUTINE:
                self._timers.clear(vertex)  # after this event the next attempt may succeed
                self._scheduler.offer(vertex)
            self._scheduler.mark(vertex, cause)
            if vertex.links.successors and self._done.to_act(vertex):
                stack.extend(each for each in vertex.links.successors if not each.queue.dirty)

    def _owners_to_mark(self, vertex: Vertex) -> Iterable[Vertex]:
        """Forget the probe of a vertex if the mark makes it stale; return the vertices that then need a new one."""
        if vertex.queue.running:
            return ()
        result = vertex.probe.result
        found_right = result is not None and result.outcome.result is not None
        if not vertex.settled and not (found_right and self._policy.daemon):
            return ()
        if result is not None:
            probes.forget(vertex)
        return [owner for owner in vertex.links.prereq_owners if not owner.queue.removed]
