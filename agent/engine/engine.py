"""The engine: maintains the resources of a graph, for one run or for years.

This module connects the parts of the engine. `swap` installs a graph, watches report drift, the scheduler selects the
next vertex, `decisions` decides whether it has to run, `runner` runs it, and `deliveries` notifies its subscribers.
The engine opens no log and no files of its own: the constructor receives all it needs, and `emit` receives all events.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from holdfast.agent.engine.decide import probes
from holdfast.agent.engine.decide.decisions import Decisions
from holdfast.agent.engine.deliver.deliveries import Deliveries
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.obstacles import Ask, Obstacles, nothing
from holdfast.agent.engine.execute.reversals import ONCE, Reversals
from holdfast.agent.engine.execute.runner import Links, Runs
from holdfast.agent.engine.inspect.census import Census
from holdfast.agent.engine.inspect.status import View, gone, rows
from holdfast.agent.engine.model.autoedges import NOTHING, AutoEdges
from holdfast.agent.engine.model.connect import connect, exchange, same_shape, tied_alike
from holdfast.agent.engine.model.edge_keys import Owed
from holdfast.agent.engine.model.events import ROUTINE, WATCHED, Cause, Event, Notice, Obstacle, PassRecord, Pause
from holdfast.agent.engine.model.graph import Graph, blames_others, edges, others, remembered, same_to_remember
from holdfast.agent.engine.model.options import EngineOptions
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.engine.schedule import limits
from holdfast.agent.engine.schedule.definition_order import PATIENCE
from holdfast.agent.engine.schedule.passes import KEPT, Passes
from holdfast.agent.engine.schedule.pauses import Paused, Pauses, covers
from holdfast.agent.engine.schedule.pending_events import PendingEvents
from holdfast.agent.engine.schedule.rechecks import Rechecks
from holdfast.agent.engine.schedule.scheduler import Scheduler
from holdfast.agent.engine.schedule.timers import Timers
from holdfast.agent.engine.watch.backgrounds import BackgroundTasks
from holdfast.agent.engine.watch.retirement import Retirement, cancel
from holdfast.agent.engine.watch.supervisor import Hooks, cause_of, needs_watch, supervise, watch_of
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Uid
from holdfast.resources.traits import Backed, Reactive
from holdfast.resources.watches import idle
from holdfast.states.data import Call, Compilation
from holdfast.states.gc_pause import gc_paused
from holdfast.states.requisite_kinds import RECV

PAUSED: Mapping[Pause, str] = {
    "operator": "paused: drift is noticed, nothing is repaired",
    "going-down": "the system goes down: nothing is repaired",
}
"""Pause -> text of the notice when it begins."""
RESUMED: Mapping[Pause, str] = {
    "operator": "resumed",
    "going-down": "the system no longer goes down: repairs continue",
}
"""Pause -> text of the notice when it ends."""


class Host(Protocol):
    """The part of `agent/host` that the engine needs."""

    def context(self, identity: str) -> Context:
        """Return the context that the resource of this identity uses to access the machine."""
        ...


class Engine:
    """The engine of one host. Call all methods from its event loop."""

    def __init__(
        self,
        host: Host,
        options: EngineOptions,
        journal: Journal,
        emit: Callable[[Event], None],
        *,
        watch: bool = True,
        obstacle: Ask = nothing,
    ) -> None:
        self.options = options
        self._host = host
        self._journal = journal
        self._emit = emit
        self._daemon = watch
        """Whether watches and timers maintain the resources after the first pass. False: a one-shot run."""
        self._graph = Graph()
        self.pauses = Pauses(journal, emit, self._pause_began, self._pause_ended)
        """Pauses that operators have begun; used by an engine that watches."""
        self._deliveries = Deliveries(journal, self._applies, self._runs_at_all, daemon=watch)
        self._passes = Passes(emit, KEPT if watch else None)
        self._reversals = Reversals(journal, emit)
        self._autoedges = AutoEdges(host.context, emit)
        self._obstacles = Obstacles(lambda vertex: self._woken(vertex, vertex.queue.cause))
        self._unwatched: dict[Vertex, str] = {}
        """Vertex whose watch has failed and is not armed again yet -> why it failed."""
        self._census = Census(self._unwatched, self.pauses.holds_for, lambda: self.options)
        self._timers = Timers(self._woken, self._delayed_event, self._census.note)
        links = Links(
            emit,
            self._mark,
            lambda: self._scheduler,
            self._timers,
            self._finished,
            self._give_up,
            self._applies,
            self._disabled,
            obstacle,
            self._hold_back,
            lambda: self._graph,
            lambda: self.going_down,
        )
        self._runs = Runs(
            options, journal, self._deliveries, self._passes, links, reversals=self._reversals, daemon=watch
        )
        self._scheduler = Scheduler(
            options.workers,
            self._runs.start,
            self._on_idle,
            self._marked_while_running,
            noted=self._census.note,
            patience=PATIENCE if watch else math.inf,
        )
        self._rechecks = Rechecks(self._mark, self._scheduler.pump)
        self._pause_updates = Rechecks(self._update_paused, self._slice_updated)
        """Updates vertices, a slice at a time, after a pause has begun or ended."""
        self._resumed: list[str] = []
        """Patterns of ended pauses whose vertices are not all marked yet."""
        self._background_tasks = BackgroundTasks(host.context, emit)
        self._pending_events = PendingEvents(self._watch_reported, self._scheduler.pump)
        self._hooks = Hooks(self._watch, self._armed, self._pending_events.tell, self._watch_failed)
        self._swapping = asyncio.Lock()
        self._retirement = Retirement(self._left)
        self._sequence_uids: dict[Vertex, frozenset[Uid]] = {}
        """Vertex that left a sequence while it ran -> uids that the sequence manages."""
        self._tasks: set[asyncio.Task[None]] = set()
        """Tasks of the engine itself, which wait for leaving vertices, for a swap or for the disk."""
        self._held: set[Vertex] = set()
        """Vertices that may have drifted and are to be checked later."""
        self._only: Collection[str] | None = None
        """Identities of the resources that may run; None: all may."""
        self._recheck: asyncio.TimerHandle | None = None
        self._gave_up = False
        self._stopped = False

    # -- for operators and the daemon ---------------------------------------------------------------------------

    async def swap(
        self,
        compilation: Compilation,
        cause: Cause = "states changed",
        options: EngineOptions | None = None,
        outdated: Collection[str] = (),
        *,
        whole: bool = True,
        anew: Collection[str] = frozenset(),
        only: Collection[str] | None = None,
    ) -> int:
        """Replace the graph by one of a new compilation. An unchanged resource keeps its vertex, watch and state.

        The runs of resources that leave may take `stop_timeout` to finish; then they are cancelled. Only resources that
        replace them wait for that.

        - `options` take effect with the new graph.
        - `outdated` are identities of resources to check again, because something that they have read has changed.
          Failed resources are checked again too, unless only grains have changed.
        - `whole` is False if these are not all states: then the journal keeps what it knows about the others.
        - `anew` are identities of states to replace because their sources have changed, not their declaration.
        - `only` are identities of the resources that may run; pending deliveries of the others are kept.

        Returns how many resources have left the graph or were replaced. Does nothing after `stop`.
        """
        async with self._swapping:
            if self._stopped:
                return 0
            automatic = await self._autoedges.find(compilation.calls) if (options or self.options).autoedge else NOTHING
            calls = (
                [*compilation.calls, *self._reversals.calls(compilation.calls)] if self._daemon else compilation.calls
            )
            found = self._drop_broken_sequences(
                [None if call.identity in anew else self._reusable(call) for call in calls]
            )
            kept = {vertex: vertex.links.requisites for vertex in found if vertex}
            with gc_paused():
                vertices = [
                    vertex or Vertex(call, self._host.context(call.identity))
                    for vertex, call in zip(found, calls, strict=True)
                ]
            declared = {call.identity for call in calls}
            alike = tied_alike(self._graph, vertices, calls, automatic)
            self._adopt(calls, vertices, whole=whole)
            self._reversals.begin()
            leaving = [old for old in reversed(self._graph.vertices) if old not in kept]
            await self._retire(leaving, self.options.stop_timeout)
            self._report_removed(declared)
            for vertex, call in zip(vertices, calls, strict=True):
                vertex.call = call
            with gc_paused():
                self._graph = exchange(self._graph, vertices) if alike else connect(vertices, automatic)
            for some in (self._runs.failing, self._runs.differing, self._held):
                some.intersection_update(kept)
            for vertex in self._unwatched.keys() - kept.keys():
                del self._unwatched[vertex]
            self._only = only
            self._deliveries.serve(vertices)
            self._scheduler.rebuild(vertices)
            self._update_census(leaving, (vertex for vertex in vertices if vertex not in kept))
            everything = options is not None and self._take_over(options)
            with gc_paused():
                for vertex in vertices:
                    if vertex not in kept:
                        new = self.options.ordering == "definition" or vertex.call.meta is ONCE
                        self._scheduler.enter(vertex, new=new, forced=vertex.identity in anew)
                        vertex.watching.predecessors = self._retirement.before(partial(self._succeeds, vertex))
                        self._arm(vertex)
                    failed = vertex.failed and vertex.call.meta.rewatch and vertex.settled and cause != "grains changed"
                    again = (
                        everything
                        or failed
                        or vertex.identity in outdated
                        or blames_others(vertex)
                        or self._runs.to_act(vertex)
                    )
                    if again or vertex not in kept or not same_shape(vertex.links.requisites, kept[vertex]):
                        self._mark(vertex, cause)
                        for sender in vertex.links.requisites.get(RECV, ()):
                            self._mark(sender, cause)  # the journal keeps only values that some state receives
            await self._background_tasks.prune([*vertices, *self._retirement])
            self._schedule_recheck()
            if self.pauses.any or self._pause_updates.under_way:
                self._pause_updates.begin(self._graph, "command")
            self._scheduler.pump()
            self._start_task(self._reversals.tidy())
            return len(leaving)

    async def settle(self) -> PassRecord:
        """Wait until nothing is dirty or running; return the record of the last pass."""
        await self._passes.over.wait()
        return self._passes.last

    def pause(self, why: Pause = "operator", said: str = "") -> None:
        """Start no run until `resume`; current runs may end.

        While the system goes down, a run that fails counts as interrupted, not as failed. `said` gives the end and the
        reason of the pause; with it, a pause that holds already is reported again.
        """
        if why in self._scheduler.paused and not said:
            return
        self._scheduler.pause(why)
        self._emit(Notice("info", "paused", "", f"{said}: {PAUSED[why].partition(': ')[2]}" if said else PAUSED[why]))

    def resume(self, why: Pause = "operator") -> None:
        """End a pause; runs start again if no other pause is left."""
        if why not in self._scheduler.paused:
            return
        self._emit(Notice("info", "resumed", "", RESUMED[why]))
        self._scheduler.resume(why)

    def _pause_began(self, paused: Paused) -> None:
        """Handle a pause that an operator has begun."""
        if paused.pattern:
            self._emit(Notice("info", "paused", "", f"{paused.whole}: drift is noticed, and not repaired"))
        else:
            self.pause(said=paused.said)
        self._begin_pause_updates(paused)

    def _pause_ended(self, paused: Paused) -> None:
        """Handle the end of a pause: check the resources that it has kept from being repaired."""
        if paused.pattern:
            self._emit(Notice("info", "resumed", "", f"{paused.pattern} is resumed"))
            self._resumed.append(paused.pattern)
        else:
            self.resume()
        self._begin_pause_updates(paused)

    def _begin_pause_updates(self, changed: Paused) -> None:
        """Update the vertices for which a pause has begun or ended.

        A pause of everything concerns only vertices that are not as declared or not settled.
        """
        if changed.pattern or self._pause_updates.under_way:
            self._pause_updates.begin(self._graph, "command")
        else:
            self._pause_updates.begin([*self._scheduler.unsettled, *self._runs.differing], "command")

    def _update_paused(self, vertex: Vertex, cause: Cause) -> None:
        """Count a vertex as paused or not, and check it again if a pause of it has ended.

        Whether it may be changed is decided when it runs.
        """
        vertex.paused = self.pauses.named(vertex) is not None
        self._census.note(vertex)
        if any(covers(pattern, vertex) for pattern in self._resumed):
            self._mark(vertex, cause)

    def _slice_updated(self) -> None:
        """Continue after a slice of vertices has been updated."""
        if not self._pause_updates.under_way:
            self._resumed.clear()
        self._scheduler.pump()

    def recheck(self, cause: Cause = "command") -> None:
        """Check each resource again."""
        self._emit(Notice("debug", "recheck", "", "all resources are checked again"))
        self._rechecks.begin(self._graph, cause)
        self._schedule_recheck()

    def trigger(self, identity: str) -> None:
        """Run one resource now, an action even if it is done. Raises `KeyError` for an unknown identity."""
        vertex = self._graph.by_identity[identity]
        if gone(vertex):
            raise KeyError(identity)
        self._scheduler.force(vertex)
        self._woken(vertex, "command")

    async def lend(self, keys: Sequence[str]) -> None:
        """Start no run of these resources, which another process runs; return when their current runs have ended."""
        self._scheduler.lent.update(keys)
        lent = set(keys)
        runs = [
            vertex.run.task
            for vertex in self._scheduler.unsettled
            if vertex.key in lent and vertex.run.task and vertex.run.rest is None
        ]
        if runs:
            await asyncio.wait(runs)

    def take_back(self, keys: Sequence[str]) -> None:
        """Run these resources here again, and make the deliveries that the other process has left pending."""
        self._scheduler.lent.difference_update(keys)
        back = set(keys)
        for vertex in self._graph if back else ():
            if vertex.key in back:
                if self._deliveries.owes(vertex):
                    self._mark(vertex, "refresh")
                self._scheduler.offer(vertex)
        self._scheduler.pump()

    def set_options(self, options: EngineOptions) -> None:
        """Use changed options. All resources are checked again if `noop` or `disabled` has changed."""
        if self._take_over(options):
            self.recheck("states changed")
        self._schedule_recheck()

    async def stop(self, timeout: float | None = None) -> None:
        """Stop the engine. Runs may end within `timeout` seconds (default: `stop_timeout`), then they are cancelled."""
        self._stopped = True
        self._scheduler.pause("stopped")
        self._obstacles.close()
        self.pauses.close()
        self._rechecks.stop()
        self._pause_updates.stop()
        if self._recheck:
            self._recheck.cancel()
        async with self._swapping:
            await self._retire(self._graph.vertices[::-1], self.options.stop_timeout if timeout is None else timeout)
        await self._retirement.over()
        await cancel(self._tasks)
        await self._background_tasks.prune(())
        self._passes.end(len(self._runs.failing), len(self._runs.differing), broken_off=True)

    def hurry(self) -> None:
        """Cancel runs of leaving vertices instead of waiting, in a `stop` that is under way or comes later."""
        self._retirement.hurry()

    @property
    def paused(self) -> bool:
        """Whether an operator has paused the engine."""
        return "operator" in self._scheduler.paused

    @property
    def alone(self) -> bool:
        """Whether at most one run is in progress: then it delays no other run if it waits for the disk."""
        return len(self._scheduler.workers.at_work) <= 1

    @property
    def going_down(self) -> bool:
        """Whether the system goes down, so that nothing is repaired."""
        return "going-down" in self._scheduler.paused

    @property
    def converged(self) -> bool:
        """Whether all resources are watched and as declared, and nothing has happened for `converged_timeout`.

        So no resource is dirty, running, failed, held off, unwatched, or different under noop.
        Routine polls and rechecks do not count as activity unless they find drift.
        """
        quiet, passes = asyncio.get_running_loop().time() - self._passes.ended, self._passes
        wrong = (
            self._runs.failing
            or self._runs.differing
            or self._unwatched
            or any(vertex.queue.noticed_at is not None for vertex in self._held)
        )
        return not wrong and not (passes.running and not passes.calm) and quiet >= self.options.converged_timeout

    @property
    def stuck(self) -> bool:
        """Whether the host will not converge by itself before the next recheck.

        Some resource has failed or differs, nothing runs, and nothing waits for a retry or for the end of a pause.
        """
        if self.paused or self.going_down:
            return (
                not any(each.until is not None for each in self.pauses if not each.pattern)
                and not self._scheduler.workers.at_work
            )
        timed = any(each.until is not None for each in self.pauses)
        wrong = {*self._runs.failing, *self._runs.differing}
        if timed and all(vertex.paused for vertex in wrong):
            return False
        waits = (
            self._passes.running or self._unwatched or self._held or any(vertex.timer is not None for vertex in wrong)
        )
        return bool(wrong) and not waits

    @property
    def view(self) -> View:
        """The parts of the engine, for status and explanations. Callers must not change them."""
        runs = self._runs
        return View(
            self._graph,
            self._scheduler,
            self._deliveries,
            self._passes,
            runs.failing,
            runs.differing,
            self._unwatched,
            self._census,
            self.options,
            self._recheck,
            self.pauses,
        )

    def status(self) -> list[dict[str, Any]]:
        """Return one object for each resource, ready for JSON, in order of execution."""
        return list(rows(lambda: self.view))

    def _hold_back(self, vertex: Vertex, obstacle: Obstacle) -> None:
        self._timers.hold(
            vertex, math.inf if obstacle.until is None else obstacle.until - asyncio.get_running_loop().time(), "retry"
        )
        self._obstacles.hold(vertex, obstacle)

    def _runs_at_all(self, vertex: Vertex) -> bool:
        return self._only is None or vertex.identity in self._only

    def _applies(self, vertex: Vertex) -> bool:
        noop = vertex.call.meta.noop
        return not (self.options.noop if noop is None else noop) and not self.pauses.named(vertex)

    def _disabled(self, vertex: Vertex) -> str:
        """Return the pattern of the option `disabled` that covers the vertex; empty if none does."""
        return (
            next((each for each in self.options.disabled if covers(each, vertex)), "") if self.options.disabled else ""
        )

    def _take_over(self, options: EngineOptions) -> bool:
        """Use these options; return whether all resources have to be checked again."""
        turned = options.noop != self.options.noop
        changed = turned or options.disabled != self.options.disabled
        if turned:
            self._deliveries.listened.clear()  # the run of a listener under noop does not count
        self.options = self._runs.options = options
        self._scheduler.workers.limit = options.workers
        return changed

    # -- swapping ----------------------------------------------------------------------------------------------

    async def _retire(self, vertices: Sequence[Vertex], patience: float) -> None:
        """End the watches of vertices that leave; their runs may take `patience` seconds to finish."""
        self._scheduler.remove(vertices)
        self._timers.drop(vertices)
        await self._retirement.retire(vertices, patience)

    def _adopt(self, calls: Sequence[Call], vertices: Sequence[Vertex], *, whole: bool) -> None:
        """Have the journal adopt these states, and set the keys of the vertices.

        Skips the adoption if it would change nothing.
        """
        if self._journal.at_rest and same_to_remember(self._graph.vertices, calls):
            for vertex, old in zip(vertices, self._graph.vertices, strict=True):
                vertex.key = old.key
            return
        known = remembered(calls)
        adoption = self._journal.adopt(edges(calls), known, others(calls, known), whole=whole)
        for vertex, call in zip(vertices, calls, strict=True):
            vertex.key = adoption.keys.get(call.identity, call.identity)
        self._report_dropped(adoption.dropped)

    def _reusable(self, call: Call) -> Vertex | None:
        """Return the vertex of the current graph that can stay for this call; None if a new one is needed."""
        old = self._graph.by_identity.get(call.identity)
        if old is None or old.call is call:
            return old
        try:
            same = old.resource is call.resource or old.resource.cmp(call.resource) is None
        except Exception:  # noqa: BLE001 - the code of a kind may raise anything; then the resource is replaced
            same = False
        same = same and (old.call.superseded is None) is (call.superseded is None)
        return old if same and (old.call.meta is call.meta or old.call.meta == call.meta) else None

    def _drop_broken_sequences(self, found: list[Vertex | None]) -> list[Vertex | None]:
        """Return `found` with None for each vertex of a sequence that a running vertex leaves.

        These vertices are replaced, because a new vertex waits until the leaving one ends.
        """
        self._sequence_uids = {old: self._sequence_uids[old] for old in self._retirement if old in self._sequence_uids}
        if not self._scheduler.sequences:
            return found
        kept = {vertex for vertex in found if vertex}
        busy = {
            old: self._scheduler.sequences.things(old)
            for old in self._graph
            if (old.run.task or old.probe.task) and old not in kept
        }
        self._sequence_uids |= busy
        things = frozenset().union(*busy.values())
        return [
            None if vertex and things and not things.isdisjoint(vertex.resource.uids()) else vertex for vertex in found
        ]

    def _update_census(self, leaving: Iterable[Vertex], new: Iterable[Vertex]) -> None:
        """Update the census. A one-shot run keeps none, because its status is never requested."""
        if self._daemon:
            self._census.leave(leaving)
            self._census.enter(new)

    def _succeeds(self, new: Vertex, old: Vertex) -> bool:
        """Return whether `new` replaces `old`: the same state, its reversal, or one of the same thing or sequence."""
        same = old.identity in (new.identity, self._reversals.undone_by(new))
        return same or not {*old.resource.uids(), *self._sequence_uids.get(old, ())}.isdisjoint(new.resource.uids())

    def _left(self, vertex: Vertex) -> None:
        """Handle the end of the last task of a vertex that has left the graph.

        Its last run may have made deliveries pending for vertices of the current graph.
        """
        if vertex.links.subscribers:
            self._deliveries.serve(self._graph)
        if isinstance(vertex.resource, Backed) and not self._stopped:
            self._start_task(self._prune())

    async def _prune(self) -> None:
        """End the background tasks that only vertices outside the graph have needed."""
        async with self._swapping:
            await self._background_tasks.prune([*self._graph, *self._retirement])

    def _report_removed(self, declared: Collection[str]) -> None:
        for old in self._graph:
            if old.identity not in declared and old.call.meta is not ONCE:
                then = (
                    "the previous state is restored" if old.identity in self._reversals.under_way else "left as it is"
                )
                self._emit(Notice("info", "left", old.identity, f"is no longer declared; {then}"))

    def _report_dropped(self, dropped: Iterable[Owed]) -> None:
        for upstream, downstream, kind in dropped:
            text = f"a pending notification from {upstream} is dropped: {kind} is no longer declared"
            self._emit(Notice("warning", "owed-dropped", downstream, text))

    def _arm(self, vertex: Vertex) -> None:
        """Start the watch of a vertex, after the vertices that it replaces have ended."""
        if vertex.watching.predecessors:
            self._start_task(self._arm_after(vertex))
        elif not needs_watch(vertex) or not (self._daemon or isinstance(vertex.resource, Backed)):
            self._armed(vertex)
        else:
            vertex.watching.watcher = asyncio.create_task(
                supervise(vertex, self._hooks), name=f"watch {vertex.identity}"
            )

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in a task that `stop` cancels."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _watch(self, vertex: Vertex) -> Watch:
        if not isinstance(vertex.resource, Backed):
            return watch_of(vertex)
        return self._background_tasks.watch(vertex, watch_of if self._daemon else lambda _: idle())

    async def _arm_after(self, vertex: Vertex) -> None:
        await asyncio.wait(vertex.watching.predecessors)
        vertex.watching.predecessors = ()
        if not vertex.queue.removed:
            self._arm(vertex)
            self._scheduler.pump()

    def _armed(self, vertex: Vertex) -> None:
        again = (
            vertex.last.outcome is not None
            and (not vertex.queue.dirty or vertex.queue.listening)
            and not self._is_done_action(vertex)
        )
        vertex.watching.armed = True
        if self._unwatched.pop(vertex, None) is not None:
            self._emit(Notice("info", "watched-again", vertex.identity, "is watched again"))
        self._census.note(vertex)
        self._deliveries.listened.discard(vertex)
        if again:  # the previous watch has failed and may have missed events
            self._mark(vertex, "recovery")
        self._scheduler.offer(vertex)
        if vertex.watching.watcher:
            self._pending_events.soon()

    @staticmethod
    def _is_done_action(vertex: Vertex) -> bool:
        """Return whether the vertex is an action that has run, so that only an event makes it run again."""
        return (
            isinstance(vertex.resource, Reactive)
            and vertex.last.outcome is not None
            and vertex.last.outcome.ran
            and Decisions.is_action(vertex)
        )

    async def _watch_failed(self, vertex: Vertex, why: str, delay: float, error: BaseException | None) -> None:
        """Handle a failed watch: the vertex does not start until the next watch is armed.

        Until then the host is not converged. A current run is cancelled and starts again later. A reactive resource,
        such as a command, ends its run instead: it must not run twice.
        """
        vertex.watching.armed = False
        self._unwatched[vertex] = why
        self._census.note(vertex)
        if vertex.run.task and not isinstance(vertex.resource, Reactive):
            await cancel([vertex.run.task])
        self._emit(
            Notice("warning", "watch-failed", vertex.identity, f"cannot watch: {why}; again in {delay:.3g} s", error)
        )
        if vertex.queue.dirty:
            if vertex.run.rest or vertex.run.obstacle:
                self._timers.clear(vertex)
            self._runs.unwatched(vertex, why)
            self._scheduler.settle(vertex)
            self._scheduler.pump()

    # -- events ------------------------------------------------------------------------------------------------

    def _watch_reported(self, vertex: Vertex) -> None:
        """Handle an event of the vertex's watch."""
        if not vertex.queue.removed:
            self._event(vertex, cause_of(vertex))

    def _event(self, vertex: Vertex, cause: Cause) -> None:
        """Handle an event: mark the vertex, or check it later. A reactive action has to run again."""
        if cause == "drift" and isinstance(vertex.resource, Reactive):
            self._scheduler.force(vertex)
        if vertex.queue.running or (vertex.queue.dirty and vertex.run.rest is None):
            self._mark(vertex, cause)
        elif vertex.run.rest or not vertex.not_before or vertex.not_before <= asyncio.get_running_loop().time():
            self._noticed(vertex, cause)

    def _noticed(self, vertex: Vertex, cause: Cause) -> None:
        """Check a vertex after an event, now or later.

        A rate limit or flapping delays the check, and so does a failed attempt that may have caused the event.
        """
        now = asyncio.get_running_loop().time()
        if self.paused and not vertex.queue.dirty:
            self._emit(Notice("info", "noticed", vertex.identity, "may have drifted; nothing is repaired while paused"))
        echo = limits.own_doing(vertex, cause, now)
        wait = max(limits.hold_off(vertex, now), echo or limits.take(vertex, self.options, now))
        if wait == 0:
            self._mark(vertex, cause)
        elif vertex.run.rest is None:
            known = echo > 0 and vertex.timer is not None
            if echo:
                wait = self._timers.put_off(vertex, wait, cause)
            else:
                self._timers.hold(vertex, wait, cause)
                self._held.add(vertex)
            self._scheduler.notice(vertex)
            if not known:
                self._emit(Notice("info", "held-off", vertex.identity, f"may have drifted; checked in {wait:.3g} s"))

    def _marked_while_running(self, vertex: Vertex, cause: Cause) -> None:
        """Handle the mark that a vertex got during a run that has ended now."""
        if cause in WATCHED and not vertex.queue.removed:
            self._noticed(vertex, cause)
        else:
            self._mark(vertex, cause)

    def _delayed_event(self, vertex: Vertex, cause: Cause) -> None:
        """Handle an event that was delayed after a failed attempt; rate limits apply to it only now."""
        limits.forget_failure(vertex)
        self._timers.clear(vertex)
        self._event(vertex, cause)
        self._pending_events.soon()

    def _woken(self, vertex: Vertex, cause: Cause) -> None:
        """Check a vertex now, whatever held it back."""
        self._timers.clear(vertex)
        self._held.discard(vertex)
        self._deliveries.listened.discard(vertex)
        if cause != "retry" or vertex.run.rest is None:
            self._mark(vertex, cause)
        self._scheduler.offer(vertex)
        self._scheduler.pump()

    def _mark(self, vertex: Vertex, cause: Cause, by: Vertex | None = None) -> None:
        """Make a vertex dirty, and the vertices that name it in a prereq, except `by`, whose run has caused the mark.

        Vertices with a prereq are not marked while the target runs, or if a probe has shown that it would change.
        """
        if self._stopped or self._gave_up or vertex.queue.removed or not self._runs_at_all(vertex):
            return
        if not self._passes.running:
            self._deliveries.listened.clear()
            self._passes.begin(cause)
        self._passes.calm = self._passes.calm and cause in ("poll", "recheck")
        self._passes.asked = self._passes.asked or cause == "command"
        stack = [vertex]
        while stack:
            vertex = stack.pop()
            if not vertex.queue.running:
                found_right = vertex.probe.result is not None and vertex.probe.result.outcome.result is not None
                if vertex.settled or (found_right and self._daemon):
                    probes.forget(vertex)
                    if vertex.links.prereq_owners:
                        stack.extend(
                            before
                            for before in vertex.links.prereq_owners
                            if before is not by and not before.queue.removed
                        )
            if vertex.queue.dirty and not vertex.queue.listening and vertex.run.rest and cause not in ROUTINE:
                self._timers.clear(vertex)  # after this event the next attempt may succeed
                self._scheduler.offer(vertex)
            self._scheduler.mark(vertex, cause)
            if vertex.links.successors and self._runs.to_act(vertex):
                stack.extend(each for each in vertex.links.successors if not each.queue.dirty)

    def _schedule_recheck(self) -> None:
        if self._recheck:
            self._recheck.cancel()
            self._recheck = None
        if self._daemon and self.options.recheck > 0 and not self._stopped:
            delay = self.options.recheck + random.uniform(0, self.options.recheck_splay)  # noqa: S311 - spreads load
            self._recheck = asyncio.get_running_loop().call_later(delay, self.recheck, "recheck")

    # -- passes -------------------------------------------------------------------------------------------

    def _finished(self, vertex: Vertex, waits: bool, again: Cause | None) -> None:
        """Handle the end of a run."""
        self._scheduler.finished(vertex, waits=waits, again=again)
        if not self._stopped:
            self._scheduler.pump()

    def _give_up(self) -> None:
        """Start no more runs after a failure (`failhard`); listeners still run."""
        self._gave_up = True
        self._scheduler.give_up()

    def _on_idle(self) -> None:
        """Handle that no run is in progress: run listeners, one after the other, then end the pass.

        In the daemon, vertices that wait or hang delay listeners by at most `PATIENCE` seconds. The pass ends when no
        vertex waits any more.
        """
        if not self._passes.running:
            return
        waits, late = bool(self._scheduler.unsettled) or self._rechecks.under_way, self._passes.began + PATIENCE
        if waits and (self._stopped or not self._daemon):
            return
        if waits and asyncio.get_running_loop().time() < late:
            self._scheduler.look_again_at(late)
            return
        due = self._deliveries.heard()
        if not due or self._stopped:
            if not waits:
                self._passes.end(len(self._runs.failing), len(self._runs.differing))
            return
        self._deliveries.listened.update(due)
        for vertex in due:
            self._scheduler.listen(vertex)
        self._scheduler.pump()
