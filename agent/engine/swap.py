"""Swaps: the graph of an engine is replaced by one of new states. Resources that stay continue without interruption."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from holdfast.agent.engine import kinds
from holdfast.agent.engine.execute.reversals import ONCE
from holdfast.agent.engine.model.autoedges import NOTHING
from holdfast.agent.engine.model.connect import connect, exchange, same_edges, same_shape
from holdfast.agent.engine.model.edge_keys import PendingDelivery
from holdfast.agent.engine.model.events import Notice
from holdfast.agent.engine.model.graph import Graph, blames_others, edges, others, remembered, same_to_remember
from holdfast.agent.engine.model.options import EngineOptions
from holdfast.agent.engine.model.outcome import Cause
from holdfast.agent.engine.model.vertex import Requisites, Vertex
from holdfast.agent.engine.parts import Parts
from holdfast.agent.engine.watch.retirement import Retirement, cancel
from holdfast.resources.contract import Uid
from holdfast.resources.traits import Backed
from holdfast.states.data import Call, Compilation
from holdfast.states.gc_pause import gc_paused
from holdfast.states.requisite_kinds import RECV


class SwapRequest(NamedTuple):
    """The request for a swap."""

    compilation: Compilation
    cause: Cause = "states changed"
    options: EngineOptions | None = None
    """Options that take effect with the new graph; None: as before."""
    outdated: Collection[str] = ()
    """Identities of resources to check again, because something that they have read has changed."""
    whole: bool = True
    """False: these are not all states, so the journal keeps what it knows about the others."""
    anew: Collection[str] = frozenset()
    """Identities of states to replace because their sources have changed, not their declaration."""
    only: Collection[str] | None = None
    """Identities of the resources that may run; None: all may."""


class Swaps:
    """The graph of one engine, and its swaps."""

    def __init__(self, parts: Parts) -> None:
        self.graph = Graph()
        self.lock = asyncio.Lock()
        """Held by a swap, and by the end of the engine."""
        self.retirement = Retirement(self)
        self._parts = parts
        self._policy = parts.policy
        self._sequence_uids: dict[Vertex, frozenset[Uid]] = {}
        """Vertex that left a sequence while it ran -> uids that the sequence manages."""
        self._tasks: set[asyncio.Task[None]] = set()
        """Tasks that wait for background tasks or for the disk."""

    async def swap(self, request: SwapRequest) -> int:
        """Replace the graph. Returns how many resources have left it or were replaced; does nothing after `stop`.

        The new graph is in force at once: no other callback sees a part of it, except while watches end.
        """
        parts = self._parts
        async with self.lock:
            if self._policy.stopped:
                return 0
            calls, automatic = await self._calls(request)
            found = self._without_broken_sequences(self._found(calls, request.anew))
            kept = {vertex: vertex.links.requisites for vertex in found if vertex}
            with gc_paused():
                vertices = [
                    vertex or Vertex(call, parts.context(call.identity))
                    for vertex, call in zip(found, calls, strict=True)
                ]
            alike = same_edges(self.graph, vertices, calls, automatic)
            self._adopt(calls, vertices, whole=request.whole)
            parts.reversals.begin()
            leaving = [old for old in reversed(self.graph.vertices) if old not in kept]
            await self._retire(leaving, self._policy.options.stop_timeout)
            with gc_paused():
                for vertex, call in zip(vertices, calls, strict=True):
                    vertex.call = call
                self.graph = exchange(self.graph, vertices) if alike else connect(vertices, automatic)
                new = [vertex for vertex in vertices if vertex not in kept]
                self._install(vertices, kept, leaving, new)
                everything = self._take_over(request)
                self._report_removed(reversed(leaving))
                self._start(new, request.anew)
                for vertex in vertices:
                    if everything or self._is_due(vertex, kept, request):
                        self._mark(vertex, request.cause)
            await parts.backgrounds.prune([*vertices, *self.retirement])
            parts.rechecks.schedule()
            parts.pausing.swapped()
            parts.scheduler.pump()
            self._start_task(parts.reversals.tidy())
            return len(leaving)

    async def stop(self, timeout: float) -> None:
        """End all watches; runs may take `timeout` seconds to finish, then they are cancelled."""
        async with self.lock:
            await self._retire(self.graph.vertices[::-1], timeout)
        await self.retirement.over()
        await self._parts.watches.stop()
        await cancel(self._tasks)
        await self._parts.backgrounds.prune(())

    # -- the vertices of the new graph -----------------------------------------------------------------------------

    async def _calls(self, request: SwapRequest) -> tuple[Sequence[Call], Mapping[int, tuple[int, ...]]]:
        """Return the calls of the new graph, those that undo others included, and the automatic edges."""
        calls, options = request.compilation.calls, request.options or self._policy.options
        automatic = await self._parts.autoedges.find(calls) if options.autoedge else NOTHING
        return ([*calls, *self._parts.reversals.calls(calls)] if self._policy.daemon else calls), automatic

    def _found(self, calls: Sequence[Call], anew: Collection[str]) -> list[Vertex | None]:
        """Return for each call the vertex of the current graph that stays for it; None if a new one is needed."""
        return [None if call.identity in anew else self._reusable(call) for call in calls]

    def _reusable(self, call: Call) -> Vertex | None:
        old = self.graph.by_identity.get(call.identity)
        if old is None or old.call is call:
            return old
        same = kinds.same(old.resource, call.resource)
        same = same and (old.call.superseded is None) is (call.superseded is None)
        return old if same and (old.call.meta is call.meta or old.call.meta == call.meta) else None

    def _without_broken_sequences(self, found: list[Vertex | None]) -> list[Vertex | None]:
        """Return `found` with None for each vertex of a sequence that a running vertex leaves.

        These vertices are replaced, because a new vertex waits until the leaving one ends.
        """
        self._sequence_uids = {old: self._sequence_uids[old] for old in self.retirement if old in self._sequence_uids}
        sequences = self._parts.scheduler.sequences
        if not sequences:
            return found
        kept = {vertex for vertex in found if vertex}
        busy = {
            old: sequences.things(old) for old in self.graph if (old.run.task or old.probe.task) and old not in kept
        }
        self._sequence_uids |= busy
        things = frozenset().union(*busy.values())
        return [
            None if vertex and things and not things.isdisjoint(kinds.uids(vertex.resource)) else vertex
            for vertex in found
        ]

    def _adopt(self, calls: Sequence[Call], vertices: Sequence[Vertex], *, whole: bool) -> None:
        """Make the journal adopt these states, and set the keys of the vertices.

        Skips the adoption if it would change nothing.
        """
        journal = self._parts.journal
        if journal.at_rest and same_to_remember(self.graph.vertices, calls):
            for vertex, old in zip(vertices, self.graph.vertices, strict=True):
                vertex.key = old.key
            return
        known = remembered(calls)
        adoption = journal.adopt(edges(calls), known, others(calls, known), whole=whole)
        for vertex, call in zip(vertices, calls, strict=True):
            vertex.key = adoption.keys.get(call.identity, call.identity)
        self._report_dropped(adoption.dropped)

    def _install(
        self, vertices: Sequence[Vertex], kept: Collection[Vertex], leaving: Iterable[Vertex], new: Iterable[Vertex]
    ) -> None:
        """Give the vertices of the new graph to all parts, and have them forget those that leave."""
        parts = self._parts
        parts.outcomes.keep(kept)
        parts.events.keep(kept)
        parts.watches.keep(kept)
        parts.deliveries.serve(vertices)
        parts.scheduler.rebuild(vertices)
        if self._policy.daemon:  # the status of a one-shot run is never requested
            parts.census.leave(leaving)
            parts.census.enter(new)

    def _take_over(self, request: SwapRequest) -> bool:
        """Use the options of the request. Returns whether all resources have to be checked again."""
        self._policy.only = request.only
        if request.options is None:
            return False
        if request.options.noop != self._policy.options.noop:
            self._parts.deliveries.listened.clear()  # the run of a listener under noop does not count
        return self._policy.take(request.options)

    def _start(self, new: Iterable[Vertex], anew: Collection[str]) -> None:
        """Start the watches of the new vertices."""
        in_order = self._policy.options.ordering == "definition"
        for vertex in new:
            self._parts.scheduler.enter(
                vertex, new=in_order or vertex.call.meta is ONCE, forced=vertex.identity in anew
            )
            self._parts.watches.start(vertex, self.retirement.before(partial(self._succeeds, vertex)))

    def _is_due(self, vertex: Vertex, kept: Mapping[Vertex, Requisites], request: SwapRequest) -> bool:
        """Return whether the swap is a reason to check a vertex.

        A failed resource is checked again, unless only grains have changed.
        """
        if vertex not in kept or vertex.identity in request.outdated:
            return True
        failed = vertex.failed and vertex.call.meta.rewatch and vertex.settled and request.cause != "grains changed"
        return (
            failed
            or blames_others(vertex)
            or self._parts.done.to_act(vertex)
            or not same_shape(vertex.links.requisites, kept[vertex])
        )

    def _mark(self, vertex: Vertex, cause: Cause) -> None:
        self._parts.marker.mark(vertex, cause)
        for sender in vertex.links.requisites.get(RECV, ()):
            self._parts.marker.mark(sender, cause)  # the journal keeps only values that some state receives

    # -- the vertices that leave -----------------------------------------------------------------------------------

    async def _retire(self, vertices: Sequence[Vertex], timeout: float) -> None:
        """End the watches of vertices that leave; their runs may take `timeout` seconds to finish."""
        self._parts.scheduler.remove(vertices)
        self._parts.timers.drop(vertices)
        await self.retirement.retire(vertices, timeout)

    def _succeeds(self, new: Vertex, old: Vertex) -> bool:
        """Return whether `new` replaces `old`: the same state, its reversal, or one of the same thing or sequence."""
        same = old.identity in (new.identity, self._parts.reversals.undone_by(new))
        return same or not {*kinds.uids(old.resource), *self._sequence_uids.get(old, ())}.isdisjoint(
            kinds.uids(new.resource)
        )

    def left(self, vertex: Vertex) -> None:
        """Handle the end of the last task of a vertex that has left the graph.

        Its last run may have made deliveries pending for vertices of the current graph.
        """
        if vertex.links.subscribers:
            self._parts.deliveries.serve(self.graph)
        if isinstance(vertex.resource, Backed) and not self._policy.stopped:
            self._start_task(self._prune())

    async def _prune(self) -> None:
        """End the background tasks that only vertices outside the graph have needed."""
        async with self.lock:
            await self._parts.backgrounds.prune([*self.graph, *self.retirement])

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in a task that `stop` cancels."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _report_removed(self, leaving: Iterable[Vertex]) -> None:
        undone = self._parts.reversals.under_way
        for old in leaving:
            if old.identity not in self.graph.by_identity and old.call.meta is not ONCE:
                then = "the previous state is restored" if old.identity in undone else "left as it is"
                self._parts.emit(Notice("info", "left", old.identity, f"is no longer declared; {then}"))

    def _report_dropped(self, dropped: Iterable[PendingDelivery]) -> None:
        for upstream, downstream, kind in dropped:
            text = f"a pending notification from {upstream} is dropped: {kind} is no longer declared"
            self._parts.emit(Notice("warning", "owed-dropped", downstream, text))
