"""The engine: keeps a graph of resources right, for one run or for years.

It ties the parts together: a graph is swapped in, watches tell of drift, the scheduler says who may run, the judge whether it has to, `attempt`
runs it, the courier carries what came of it to whoever waits. It has no log, no files and no settings of its own:
everything comes in through the constructor, and goes out through `emit`.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

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
from holdfast.agent.engine.model.graph import Graph, Vertex, blames_others, edges, others, remembered, same_to_remember
from holdfast.agent.engine.model.options import EngineOptions
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
from holdfast.states.data import RECV, Call, Compilation
from holdfast.states.gc_pause import gc_paused

PAUSED: Mapping[Pause, str] = {
    "operator": "paused: drift is noticed, nothing is repaired",
    "going-down": "the system goes down: nothing is repaired any more",
}
"""Pause -> what is said when it begins."""
RESUMED: Mapping[Pause, str] = {
    "operator": "resumed",
    "going-down": "the system does not go down after all: repairs go on",
}
"""Pause -> what is said when it ends."""


class Host(Protocol):
    """The part of `agent/host` that the engine needs."""

    def context(self, identity: str) -> Context:
        """What the resource of this identity sees of the world."""
        ...


class Engine:
    """One host's engine. All methods are called from its event loop."""

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
        """Watches and timers keep the graph right after the first pass; without them: one-shot."""
        self._graph = Graph()
        self.pauses = Pauses(journal, emit, self._pause_began, self._pause_ended)
        """Those of operators, which hold for an engine that watches."""
        self._deliveries = Deliveries(journal, self._applies, self._runs_at_all, daemon=watch)
        self._passes = Passes(emit, KEPT if watch else None)
        self._reversals = Reversals(journal, emit)
        self._autoedges = AutoEdges(host.context, emit)
        self._obstacles = Obstacles(lambda vertex: self._woken(vertex, vertex.cause))
        self._unwatched: dict[Vertex, str] = {}
        """Those whose watch has failed, until it is armed again -> why it failed."""
        self._census = Census(self._unwatched, self.pauses.holds_for, lambda: self.options)
        self._timers = Timers(self._woken, self._put_off_until_now, self._census.note)
        links = Links(
            emit,
            self._mark,
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
            self._quiet,
            self._happened_meanwhile,
            noted=self._census.note,
            patience=PATIENCE if watch else math.inf,
        )
        self._rechecks = Rechecks(self._mark, self._scheduler.pump)
        self._telling = Rechecks(self._tell_whether_paused, self._all_told)
        """Updates the vertices for which a pause has begun or ended."""
        self._resumed: list[str] = []
        """Patterns of pauses that have ended, while the vertices that they name are not all dirty yet."""
        self._background_tasks = BackgroundTasks(host.context, emit)
        self._pending_events = PendingEvents(self._told, self._scheduler.pump)
        self._hooks = Hooks(self._watch, self._armed, self._pending_events.tell, self._watch_failed)
        self._swapping = asyncio.Lock()
        self._retirement = Retirement(self._left)
        self._around: dict[Vertex, frozenset[Uid]] = {}
        """Vertex that left a sequence while it ran -> things that the sequence manages."""
        self._waiting: set[asyncio.Task[None]] = set()
        """What waits for those that leave, for a swap or for the disk."""
        self._held: set[Vertex] = set()
        """Those that may have drifted and are to be looked at later."""
        self._only: Collection[str] | None = None
        """Identities of those that may run; None: of all."""
        self._recheck: asyncio.TimerHandle | None = None
        self._gave_up = False
        self._stopped = False

    # -- what operators and the daemon do ----------------------------------------------------------------------

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
        """Replace the graph by that of a new compilation; whatever is the same in both keeps its watch and its past.

        Resources that leave may finish what runs, for `stop_timeout`; then it is cancelled. Only who takes their place waits for
        that. `anew` are identities of states that are declared as before and made from other sources: they are replaced as well.
        `options` take effect with the new graph. Resources that stay, and are named in `outdated`, are looked at again: what they have
        read elsewhere has changed. So is what has failed, but not when only grains have changed.
        When these are not all states (not `whole`), the journal forgets nothing of the others.
        Resources that are not among `only` do not run; what they are owed is kept.
        Returns how many resources have left the graph, or were replaced.
        """
        async with self._swapping:
            if self._stopped:
                return 0
            automatic = await self._autoedges.find(compilation.calls) if (options or self.options).autoedge else NOTHING
            calls = (
                [*compilation.calls, *self._reversals.calls(compilation.calls)] if self._daemon else compilation.calls
            )
            found = self._apart([None if call.identity in anew else self._keep(call) for call in calls])
            kept = {vertex: vertex.requisites for vertex in found if vertex}
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
            await self._retirement.retire(leaving, self.options.stop_timeout)
            self._tell_who_left(declared)
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
            self._recount(leaving, (vertex for vertex in vertices if vertex not in kept))
            everything = options is not None and self._take_over(options)
            with gc_paused():
                for vertex in vertices:
                    if vertex not in kept:
                        vertex.new = self.options.ordering == "definition" or vertex.call.meta is ONCE
                        vertex.force_next = vertex.identity in anew
                        vertex.predecessors = self._retirement.before(partial(self._succeeds, vertex))
                        self._arm(vertex)
                    failed = vertex.failed and vertex.call.meta.rewatch and vertex.settled and cause != "grains changed"
                    again = (
                        everything
                        or failed
                        or vertex.identity in outdated
                        or blames_others(vertex)
                        or self._runs.to_act(vertex)
                    )
                    if again or vertex not in kept or not same_shape(vertex.requisites, kept[vertex]):
                        self._mark(vertex, cause)
                        for sender in vertex.requisites.get(RECV, ()):
                            self._mark(sender, cause)  # what nobody received so far was not kept
            await self._background_tasks.prune([*vertices, *self._retirement])
            self._schedule_recheck()
            if self.pauses.any or self._telling.under_way:
                self._telling.begin(self._graph, "command")
            self._scheduler.pump()
            self._wait(self._reversals.tidy())
            return len(leaving)

    async def settle(self) -> PassRecord:
        """Wait until nothing is dirty or running; the record of the last pass."""
        await self._passes.over.wait()
        return self._passes.last

    def pause(self, why: Pause = "operator", said: str = "") -> None:
        """Start nothing any more; what runs may end. While the system goes down, a run that fails counts as interrupted, not as failed.

        `said` are its reason and its end, which may be others than before.
        """
        if why in self._scheduler.paused and not said:
            return
        self._scheduler.pause(why)
        self._emit(Notice("info", "paused", "", f"{said}: {PAUSED[why].partition(': ')[2]}" if said else PAUSED[why]))

    def resume(self, why: Pause = "operator") -> None:
        """End a pause; runs start again when no other pause is left."""
        if why not in self._scheduler.paused:
            return
        self._emit(Notice("info", "resumed", "", RESUMED[why]))
        self._scheduler.resume(why)

    def _pause_began(self, paused: Paused) -> None:
        """An operator has paused something."""
        if paused.pattern:
            self._emit(Notice("info", "paused", "", f"{paused.whole}: drift is noticed, and not repaired"))
        else:
            self.pause(said=paused.said)
        self._tell_the_paused(paused)

    def _pause_ended(self, paused: Paused) -> None:
        """It is over: what it has kept from being repaired is looked at."""
        if paused.pattern:
            self._emit(Notice("info", "resumed", "", f"{paused.pattern} is resumed"))
            self._resumed.append(paused.pattern)
        else:
            self.resume()
        self._tell_the_paused(paused)

    def _tell_the_paused(self, changed: Paused) -> None:
        """Update the vertices for which a pause has begun or ended.

        A pause of everything concerns only vertices that are not as declared or not settled.
        """
        if changed.pattern or self._telling.under_way:
            self._telling.begin(self._graph, "command")
        else:
            self._telling.begin([*self._scheduler.unsettled, *self._runs.differing], "command")

    def _tell_whether_paused(self, vertex: Vertex, cause: Cause) -> None:
        """Count a vertex as paused or not, and check it again if a pause of it has ended.

        Whether it may be changed is decided when it runs.
        """
        vertex.paused = self.pauses.named(vertex) is not None
        self._census.note(vertex)
        if any(covers(pattern, vertex) for pattern in self._resumed):
            self._mark(vertex, cause)

    def _all_told(self) -> None:
        """Continue after a slice of vertices has been updated."""
        if not self._telling.under_way:
            self._resumed.clear()
        self._scheduler.pump()

    def recheck(self, cause: Cause = "command") -> None:
        """Look at every resource again."""
        self._emit(Notice("debug", "recheck", "", "everything is looked at again"))
        self._rechecks.begin(self._graph, cause)
        self._schedule_recheck()

    def trigger(self, identity: str) -> None:
        """Run one resource now; an action runs even if it is done already. Raises `KeyError` for an unknown identity."""
        vertex = self._graph.by_identity[identity]
        if gone(vertex):
            raise KeyError(identity)
        vertex.force_next = True
        self._woken(vertex, "command")

    async def lend(self, keys: Sequence[str]) -> None:
        """Leave these to a run beside this engine; when this returns, nothing is done to them here."""
        self._scheduler.lent.update(keys)
        lent = set(keys)
        runs = [
            vertex.task
            for vertex in self._scheduler.unsettled
            if vertex.key in lent and vertex.task and vertex.rest is None
        ]
        if runs:
            await asyncio.wait(runs)

    def take_back(self, keys: Sequence[str]) -> None:
        """Care for them again, and deliver what that run has left undelivered."""
        self._scheduler.lent.difference_update(keys)
        back = set(keys)
        for vertex in self._graph if back else ():
            if vertex.key in back:
                if self._deliveries.owes(vertex):
                    self._mark(vertex, "refresh")
                self._scheduler.offer(vertex)
        self._scheduler.pump()

    def set_options(self, options: EngineOptions) -> None:
        """Take over changed settings; everything is looked at again when noop was turned on or off."""
        if self._take_over(options):
            self.recheck("states changed")
        self._schedule_recheck()

    async def stop(self, timeout: float | None = None) -> None:
        """Stop: nothing new starts, what runs may end within `timeout` (default: stop_timeout), the rest is cancelled."""
        self._stopped = True
        self._scheduler.pause("stopped")
        self._obstacles.close()
        self.pauses.close()
        self._rechecks.stop()
        self._telling.stop()
        if self._recheck:
            self._recheck.cancel()
        async with self._swapping:
            await self._retirement.retire(
                reversed(self._graph.vertices), self.options.stop_timeout if timeout is None else timeout
            )
        await self._retirement.over()
        await cancel(self._waiting)
        await self._background_tasks.prune(())
        self._passes.end(len(self._runs.failing), len(self._runs.differing), broken_off=True)

    def hurry(self) -> None:
        """When it stops, or while it does: what still runs is not waited for, but cancelled."""
        self._retirement.hurry()

    @property
    def paused(self) -> bool:
        """An operator has paused it."""
        return "operator" in self._scheduler.paused

    @property
    def alone(self) -> bool:
        """At most one resource is at work: nothing else is held up while that waits for a disk."""
        return len(self._scheduler.workers.at_work) <= 1

    @property
    def going_down(self) -> bool:
        """The system goes down, so nothing is repaired."""
        return "going-down" in self._scheduler.paused

    @property
    def converged(self) -> bool:
        """Everything is watched and as declared: nothing is dirty, running, failed, held off, unwatched, or different under noop, for `converged_timeout`.

        Routine polls and rechecks do not count as activity unless they find drift.
        """
        quiet, passes = asyncio.get_running_loop().time() - self._passes.ended, self._passes
        wrong = (
            self._runs.failing
            or self._runs.differing
            or self._unwatched
            or any(vertex.noticed_at is not None for vertex in self._held)
        )
        return not wrong and not (passes.running and not passes.calm) and quiet >= self.options.converged_timeout

    @property
    def stuck(self) -> bool:
        """It will not converge by itself before the next recheck: something is wrong, nothing runs, and nothing waits for a retry or the end of a pause."""
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
        """For whoever looks into it; nothing of it may be changed."""
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
        """One JSON-ready object for each resource, in order of execution."""
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
        """The pattern by which it is."""
        return (
            next((each for each in self.options.disabled if covers(each, vertex)), "") if self.options.disabled else ""
        )

    def _take_over(self, options: EngineOptions) -> bool:
        """Use these settings; whether everything has to be looked at again."""
        turned = options.noop != self.options.noop
        changed = turned or options.disabled != self.options.disabled
        if turned:
            self._deliveries.listened.clear()  # a turn that was only a look is none
        self.options = self._runs.options = options
        self._scheduler.workers.limit = options.workers
        return changed

    # -- swapping ----------------------------------------------------------------------------------------------

    def _adopt(self, calls: Sequence[Call], vertices: Sequence[Vertex], *, whole: bool) -> None:
        """Have the journal take over these states, unless it would find the same as before; and give the vertices its keys."""
        if self._journal.at_rest and same_to_remember(self._graph.vertices, calls):
            for vertex, old in zip(vertices, self._graph.vertices, strict=True):
                vertex.key = old.key
            return
        known = remembered(calls)
        adoption = self._journal.adopt(edges(calls), known, others(calls, known), whole=whole)
        for vertex, call in zip(vertices, calls, strict=True):
            vertex.key = adoption.keys.get(call.identity, call.identity)
        self._tell_what_was_dropped(adoption.dropped)

    def _keep(self, call: Call) -> Vertex | None:
        old = self._graph.by_identity.get(call.identity)
        if old is None or old.call is call:
            return old
        try:
            same = old.resource is call.resource or old.resource.cmp(call.resource) is None
        except Exception:  # noqa: BLE001 - the code of a kind may raise anything; then it is another
            same = False
        same = same and (old.call.superseded is None) is (call.superseded is None)
        return old if same and (old.call.meta is call.meta or old.call.meta == call.meta) else None

    def _apart(self, found: list[Vertex | None]) -> list[Vertex | None]:
        """The vertices to keep, without those of a sequence from which a running vertex leaves.

        The vertices that replace them wait until it ends.
        """
        self._around = {old: self._around[old] for old in self._retirement if old in self._around}
        if not self._scheduler.sequences:
            return found
        kept = {vertex for vertex in found if vertex}
        busy = {
            old: self._scheduler.sequences.things(old)
            for old in self._graph
            if (old.task or old.probe_task) and old not in kept
        }
        self._around |= busy
        things = frozenset().union(*busy.values())
        return [
            None if vertex and things and not things.isdisjoint(vertex.resource.uids()) else vertex for vertex in found
        ]

    def _recount(self, leaving: Iterable[Vertex], new: Iterable[Vertex]) -> None:
        """Those that anybody can ask for are counted: not in a one-shot run."""
        if self._daemon:
            self._census.leave(leaving)
            self._census.enter(new)

    def _succeeds(self, new: Vertex, old: Vertex) -> bool:
        """Whether `new` replaces `old`: the same state, another state of the same thing or sequence, or its reversal."""
        same = old.identity in (new.identity, self._reversals.undone_by(new))
        return same or not {*old.resource.uids(), *self._around.get(old, ())}.isdisjoint(new.resource.uids())

    def _left(self, vertex: Vertex) -> None:
        """Nothing of it runs any more. What it has changed at last is owed to those that are in the graph now."""
        if vertex.subscribers:
            self._deliveries.serve(self._graph)
        if isinstance(vertex.resource, Backed) and not self._stopped:
            self._wait(self._prune())

    async def _prune(self) -> None:
        """End the background tasks that were needed only by what has left now."""
        async with self._swapping:
            await self._background_tasks.prune([*self._graph, *self._retirement])

    def _tell_who_left(self, declared: Collection[str]) -> None:
        for old in self._graph:
            if old.identity not in declared and old.call.meta is not ONCE:
                then = "what was before is put back" if old.identity in self._reversals.under_way else "left as it is"
                self._emit(Notice("info", "left", old.identity, f"is declared no more; {then}"))

    def _tell_what_was_dropped(self, dropped: Iterable[Owed]) -> None:
        for upstream, downstream, kind in dropped:
            text = f"is not told any more what was owed for {upstream}: no state says {kind} now"
            self._emit(Notice("warning", "owed-dropped", downstream, text))

    def _arm(self, vertex: Vertex) -> None:
        """Start its watch, once those whose place it takes have come to their end."""
        if vertex.predecessors:
            self._wait(self._arm_after(vertex))
        elif not needs_watch(vertex) or not (self._daemon or isinstance(vertex.resource, Backed)):
            self._armed(vertex)
        else:
            vertex.watcher = asyncio.create_task(supervise(vertex, self._hooks), name=f"watch {vertex.identity}")

    def _wait(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin what nobody waits for."""
        task = asyncio.create_task(work)
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    def _watch(self, vertex: Vertex) -> Watch:
        if not isinstance(vertex.resource, Backed):
            return watch_of(vertex)
        return self._background_tasks.watch(vertex, watch_of if self._daemon else lambda _: idle())

    async def _arm_after(self, vertex: Vertex) -> None:
        await asyncio.wait(vertex.predecessors)
        vertex.predecessors = ()
        if not vertex.removed:
            self._arm(vertex)
            self._scheduler.pump()

    def _armed(self, vertex: Vertex) -> None:
        again = vertex.outcome is not None and (not vertex.dirty or vertex.listening) and not self._cannot_look(vertex)
        vertex.armed = True
        if self._unwatched.pop(vertex, None) is not None:
            self._emit(Notice("info", "watched-again", vertex.identity, "is watched again"))
        self._census.note(vertex)
        self._deliveries.listened.discard(vertex)
        if again:  # the watch of before has failed; nobody knows what it has missed
            self._mark(vertex, "recovery")
        self._scheduler.offer(vertex)
        if vertex.watcher:
            self._pending_events.soon()

    @staticmethod
    def _cannot_look(vertex: Vertex) -> bool:
        """It is a command that has run, and nothing but an event says that it has to run again."""
        return (
            isinstance(vertex.resource, Reactive)
            and vertex.outcome is not None
            and vertex.outcome.ran
            and Decisions.is_action(vertex)
        )

    async def _watch_failed(self, vertex: Vertex, why: str, delay: float, error: BaseException | None) -> None:
        """The watch is down: until the next one is armed nothing starts, and the host has not converged.

        What runs is cancelled, and runs again; but a command ends, for it would be run twice.
        """
        vertex.armed = False
        self._unwatched[vertex] = why
        self._census.note(vertex)
        if vertex.task and not isinstance(vertex.resource, Reactive):
            await cancel([vertex.task])
        vertex.listening = vertex.listening and vertex.running
        self._emit(
            Notice("warning", "watch-failed", vertex.identity, f"cannot watch: {why}; again in {delay:.3g} s", error)
        )
        if vertex.dirty:
            if vertex.rest or vertex.obstacle:
                self._timers.clear(vertex)
            self._runs.unwatched(vertex, why)
            self._scheduler.settle(vertex)
            self._scheduler.pump()

    # -- events ------------------------------------------------------------------------------------------------

    def _told(self, vertex: Vertex) -> None:
        """Handle an event of the vertex's watch."""
        if not vertex.removed:
            self._event(vertex, cause_of(vertex))

    def _event(self, vertex: Vertex, cause: Cause) -> None:
        """Its watch tells that something may have changed; an action that watches something is due again."""
        if cause == "drift" and isinstance(vertex.resource, Reactive):
            vertex.force_next = True
        if vertex.running or (vertex.dirty and vertex.rest is None):
            self._mark(vertex, cause)
        elif vertex.rest or not vertex.not_before or vertex.not_before <= asyncio.get_running_loop().time():
            self._noticed(vertex, cause)

    def _noticed(self, vertex: Vertex, cause: Cause) -> None:
        """One that does not run may have changed: look now, unless that is its own doing, or too many looks or repairs lie behind us."""
        now = asyncio.get_running_loop().time()
        if self.paused and not vertex.dirty:
            self._emit(Notice("info", "noticed", vertex.identity, "may have drifted; nothing is repaired while paused"))
        echo = limits.own_doing(vertex, cause, now)
        wait = max(limits.hold_off(vertex, now), echo or limits.take(vertex, self.options, now))
        if wait == 0:
            self._mark(vertex, cause)
        elif vertex.rest is None:
            known = echo > 0 and vertex.timer is not None
            if echo:
                wait = self._timers.put_off(vertex, wait, cause)
            else:
                self._timers.hold(vertex, wait, cause)
                self._held.add(vertex)
            vertex.noticed_at = now if vertex.noticed_at is None else vertex.noticed_at
            if not known:
                self._emit(Notice("info", "held-off", vertex.identity, f"may have drifted; looked at in {wait:.3g} s"))

    def _happened_meanwhile(self, vertex: Vertex, cause: Cause) -> None:
        """It was marked while it ran, and that has ended."""
        if cause in WATCHED and not vertex.removed:
            self._noticed(vertex, cause)
        else:
            self._mark(vertex, cause)

    def _put_off_until_now(self, vertex: Vertex, cause: Cause) -> None:
        """An event was put off on account of its own failure; whether a limit allows a look is asked now."""
        vertex.erred = None
        self._timers.clear(vertex)
        self._event(vertex, cause)
        self._pending_events.soon()

    def _woken(self, vertex: Vertex, cause: Cause) -> None:
        """Look at it now, whatever held it back."""
        self._timers.clear(vertex)
        self._held.discard(vertex)
        self._deliveries.listened.discard(vertex)
        if cause != "retry" or vertex.rest is None:
            self._mark(vertex, cause)
        self._scheduler.offer(vertex)
        self._scheduler.pump()

    def _mark(self, vertex: Vertex, cause: Cause, by: Vertex | None = None) -> None:
        """Make it dirty, and those that have it as their prereq, for they go first; but not `by`, on whose account it is.

        They need not look again while it runs, or when they have found already that it would change.
        """
        if self._stopped or self._gave_up or vertex.removed or not self._runs_at_all(vertex):
            return
        if not self._passes.running:
            self._deliveries.listened.clear()
            self._passes.begin(cause)
        self._passes.calm = self._passes.calm and cause in ("poll", "recheck")
        self._passes.asked = self._passes.asked or cause == "command"
        stack = [vertex]
        while stack:
            vertex = stack.pop()
            if not vertex.running:
                vertex.generation += 1
                found_right = vertex.probe is not None and vertex.probe.outcome.result is not None
                if vertex.settled or (found_right and self._daemon):
                    vertex.probe = None
                    if vertex.prereq_owners:
                        stack.extend(
                            before for before in vertex.prereq_owners if before is not by and not before.removed
                        )
            if vertex.dirty and vertex.listening:
                vertex.pending_cause = cause  # its next run is a refresh alone; this is for the one after
            elif vertex.dirty and vertex.rest and cause not in ROUTINE:
                self._timers.clear(vertex)  # what has happened may have made possible what has failed
                self._scheduler.offer(vertex)
            self._scheduler.mark(vertex, cause)
            if vertex.successors and self._runs.to_act(vertex):
                stack.extend(each for each in vertex.successors if not each.dirty)

    def _schedule_recheck(self) -> None:
        if self._recheck:
            self._recheck.cancel()
            self._recheck = None
        if self._daemon and self.options.recheck > 0 and not self._stopped:
            delay = self.options.recheck + random.uniform(0, self.options.recheck_splay)  # noqa: S311 - spreads load
            self._recheck = asyncio.get_running_loop().call_later(delay, self.recheck, "recheck")

    # -- passes -------------------------------------------------------------------------------------------

    def _finished(self, vertex: Vertex) -> None:
        """A run has ended."""
        self._scheduler.finished(vertex)
        if not self._stopped:
            self._scheduler.pump()

    def _give_up(self) -> None:
        """Failhard: whatever has not run is not run any more; listeners still have their turn."""
        self._gave_up = True
        for vertex in self._graph:
            vertex.dirty = False
        self._scheduler.rebuild(self._graph.vertices)

    def _quiet(self) -> None:
        """Nothing is at work: listeners have their turn, one after the other, then the pass is over.

        In the daemon what only waits, or hangs, keeps them from that for a minute at most; the pass ends with the last of it.
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
            vertex.listening = vertex.new = True
            self._scheduler.mark(vertex, "refresh")
        self._scheduler.pump()
