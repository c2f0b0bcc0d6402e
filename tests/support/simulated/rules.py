"""Invariants of a life, checked against the machine and the declared requisites, not against the engine's data."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fake_machine import Action, Placed
from holdfast.agent.engine.deliver.tables import Counts
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.edge_keys import Adoption, Edge
from holdfast.agent.engine.model.events import Event, Notice, Ran
from holdfast.agent.engine.model.graph import Graph
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.engine.schedule.definition_order import TIMEOUT
from holdfast.agent.engine.schedule.workers import LONG
from holdfast.states.requisite_kinds import EARLIER
from simulated.active import Active
from simulated.called import Called
from simulated.counts import miscounted
from simulated.deeds import Deeds
from simulated.values import Values
from simulated.world import FULL, Lined, World

GATES = ("require", "watch", "recv")
"""Requisites that forbid a run when what they name has failed."""
MOST_REPAIRS = 12
"""Greatest number of repairs in twenty seconds: the five without a limit, one more, and those at growing intervals.

This limit and the rate limit apply to drift of a resource itself. A resource that has a prereq, or is the target of
one, also runs because of others.
"""

TICK = 1e-6
"""Greatest error, in seconds, of a time that is a sum."""
COUNTED = 4
"""Number of steps between two counts of all vertices: a count takes as long as two steps."""


class Rules:
    """Checks one engine, and adds faults to `found`."""

    def __init__(self, engine: Engine, machine: World, found: list[str]) -> None:
        self._engine, self._machine, self._found = engine, machine, found
        self._active: dict[Vertex, Active] = {}
        self._starts: dict[Vertex, list[float]] = {}
        """Times of the runs caused by events, for vertices with a rate limit."""
        self._repairs: dict[Vertex, list[float]] = {}
        self._graph: Graph | None = None
        """The graph for which `_above` is cached."""
        self._known: dict[Vertex, set[Vertex]] = {}
        self._ran: set[Vertex] = set()
        """Vertices with an attempt that has ended, or with an outcome without an attempt."""
        self._since: dict[Vertex, float] = {}
        """Vertex -> loop time at which others first waited for it by definition order."""
        self.paused = self.stopped = False
        """Whether operators have paused or stopped the engine."""
        self.called = Called(self._wrong, self._active)
        self.values = Values(engine, machine, self._wrong)
        self.deeds = Deeds(engine, machine, self._wrong)
        self._read, self._overlapped = len(machine.log), len(machine.overlaps)
        self._steps = 0
        self._adopt = engine._parts.journal.adopt
        engine._parts.journal.adopt = self.changes_hands
        self._start = engine._parts.runner.start
        engine._parts.runner.start = self.starts

    def _wrong(self, vertex: Vertex | None, what: str) -> None:
        self._found.append(
            f"at {asyncio.get_running_loop().time():.2f}: {vertex.identity + ' ' if vertex else ''}{what}"
        )

    def changes_hands(
        self, edges: Iterable[Edge], declared: Mapping[str, str], others: Iterable[tuple[str, str]], *, whole: bool
    ) -> Adoption:
        """Note that the journal takes over new states."""
        rest, now = dict(others), asyncio.get_running_loop().time()
        # A vertex that waited for a released one does not constrain the new graph, either.
        self._ran.update(
            [
                vertex
                for vertex in self._engine.view.graph
                if not (vertex.queue.new or vertex.settled) and self._lets_pass(vertex, now)
            ]
        )
        adoption = self._adopt(edges, declared, rest.items(), whole=whole)
        self.values.adopted(declared.keys() | rest.keys())
        return adoption

    # -- at the start of a run ---------------------------------------------------------------------------------

    def starts(self, vertex: Vertex) -> None:
        """Check that a run may start."""
        self._read_on()  # the end of another run may have started this one: check the effects of the other first
        self._let_go()
        for what in self._against(vertex):
            self._wrong(vertex, what)
        active = self._active[vertex] = Active(vertex, len(self._machine.done), since=asyncio.get_running_loop().time())
        for kind in GATES:
            active.failed.update({up: up.last.outcome for up in vertex.links.requisites.get(kind, ()) if up.failed})
        self.values.starts(active)
        self.deeds.starts(active)
        self._start(vertex)
        active.task = vertex.run.task
        if self._noop(vertex):
            active.counts = self._counts(vertex)
        self._count_units()

    def _against(self, vertex: Vertex) -> Iterator[str]:
        """Yield the reasons against a start."""
        now = asyncio.get_running_loop().time()
        yield from self._unready(vertex, now)
        yield from (f"starts before {up.identity} is settled" for up in self._above(vertex) if not up.settled)
        yield from self._out_of_sequence(vertex)
        yield from self.called.against(vertex)
        yield from self._out_of_order(vertex, now)
        fresh = vertex.run.retry_wait is None  # otherwise it is a further attempt, whose time depends on `retry`
        watched = vertex.queue.cause in {"drift", "poll"} and not vertex.queue.listening
        if vertex.call.meta.limit and fresh and watched and _alone(vertex):
            yield from self._too_often(vertex, now)

    def _unready(self, vertex: Vertex, now: float) -> Iterator[str]:
        """Yield the reasons against a start that concern only the vertex."""
        if self.paused or self.stopped or vertex.queue.removed:
            yield "starts though nothing may"
        if vertex.run.task or vertex in self._active:
            yield "runs already"
        if not vertex.watching.armed or not self._watched(vertex, now):
            yield "starts without a watch"
        if vertex.not_before > now:
            yield f"starts {vertex.not_before - now:g} s too early"
        line = self._machine.line or None
        if isinstance(vertex.resource, Lined) and self._machine.lost != now and vertex.ctx.background != line:
            yield f"starts with the line {vertex.ctx.background}, but there is {self._machine.line}"

    def _out_of_order(self, vertex: Vertex, now: float) -> Iterator[str]:
        """Yield each earlier vertex for which a new one has to wait by definition order."""
        queue, engine = vertex.queue, self._engine
        forward = vertex.call.meta.aggregate and queue.batch is not None
        if not queue.new or engine.options.ordering != "definition" or queue.listening or forward:
            return
        for up in engine.view.graph.vertices[: vertex.position]:
            if not (up.settled or self._together(up, vertex) or self._lets_pass(up, now)):
                yield f"jumps the queue before {up.identity}"

    @staticmethod
    def _together(up: Vertex, vertex: Vertex) -> bool:
        """Return whether an earlier vertex runs in a way that lets this one start."""
        if up.queue.running and (
            up.call.meta.parallel or (up.queue.batch is None and up.group == vertex.group is not None)
        ):
            return True
        return up.queue.batch is not None and up.queue.batch is vertex.queue.batch

    def call_ends(self, name: str) -> None:
        """Note the end of a call: resources that waited for the call do not make others wait."""
        self.called.ends(name)
        self._ran.update(vertex for vertex in self._engine.view.graph if vertex.resource.name == name)

    def _out_of_sequence(self, vertex: Vertex) -> Iterator[str]:
        """Yield each first state of a sequence for which the vertex does not wait, unless it is retried without end."""
        for earlier in self._begin(vertex):
            endless = (
                earlier.run.retry_wait is not None
                and earlier.call.meta.retry is not None
                and earlier.call.meta.retry.attempts < 0
            )
            if not (earlier.settled or endless):
                yield f"does not wait for {earlier.identity}, which begins a sequence"

    def _begin(self, vertex: Vertex) -> list[Vertex]:
        """Return the first states of the sequences that contain the vertex."""
        earlier = self._engine.view.graph.vertices[: vertex.position]
        return [
            each for each in earlier if each.links.successors and vertex.position <= each.links.successors[-1].position
        ]

    def _lets_pass(self, vertex: Vertex, now: float) -> bool:
        """Return whether later vertices may start: this one ran, has an obstacle, was slow, or waits for such a one."""
        waiting = [vertex]
        seen = {vertex}
        for one in waiting:  # the set grows: two owners of prereqs may wait for each other
            if (
                one in self._ran
                or one.run.obstacle
                or one in self.called
                or now - self._since.setdefault(one, now) >= TIMEOUT
            ):
                return True
            if not one.queue.new:
                new = self._above(one).union(self._begin(one), *map(self._above, _wanted(one))) - seen
                seen |= new
                waiting += new
        return False

    def _watched(self, vertex: Vertex, now: float) -> bool:
        """Return whether the vertex is watched, was watched until now, or need not be watched."""
        name, machine = vertex.resource.name, self._machine
        return (
            isinstance(vertex.resource, Action)
            or bool(vertex.links.successors)
            or bool(vertex.call.meta.poll)
            or name in machine.armed
            or machine.fallen.get(name) == now
        )

    def _too_often(self, vertex: Vertex, now: float) -> Iterator[str]:
        """Yield a violation of the rate limit: a bucket allows its content, its inflow, and one delayed run."""
        rate, burst = vertex.call.meta.limit or 0.0, vertex.call.meta.burst or self._engine.options.burst
        starts = self._starts.setdefault(vertex, [])
        starts.append(now)
        for count, began in enumerate(reversed(starts), 1):
            if count > burst + 1 + rate * (now - began) + 1e-6:
                yield f"started {count} times within {now - began:g} s"
                break
        if not vertex.rate.flapping and vertex.not_before > now + 1 / rate:
            yield "has debts"

    def _above(self, vertex: Vertex) -> set[Vertex]:
        """Return all vertices that must be settled first: targets, owners of prereqs, and automatic edges."""
        if self._graph is not self._engine.view.graph:
            self._graph, self._known = self._engine.view.graph, {}
        if vertex not in self._known:
            self._known[vertex] = self._found_above(vertex)
        return self._known[vertex]

    def _found_above(self, vertex: Vertex) -> set[Vertex]:
        above: set[Vertex] = set()
        fresh = [vertex]
        while fresh:
            now = fresh.pop()
            near = {up for kind, ups in now.links.requisites.items() if kind in EARLIER for up in ups}
            near |= {who for who in self._engine.view.graph if now in who.links.requisites.get("prereq", ())}.union(
                self._around(now)
            )
            fresh += near - above
            above |= near
        return above

    def _around(self, vertex: Vertex) -> Iterator[Vertex]:
        """Yield the setting that contains this one, if it comes first."""
        if isinstance(vertex.resource, Placed) and vertex.call.meta.autoedge:
            for other in self._engine.view.graph.vertices[: vertex.position]:
                if (
                    isinstance(other.resource, Placed)
                    and other.resource.name == vertex.resource.within
                    and other.call.meta.autoedge
                ):
                    yield other

    def _noop(self, vertex: Vertex) -> bool:
        """Return whether the vertex is in noop; its state overrides the setting of the agent."""
        noop = vertex.call.meta.noop
        return self._engine.options.noop if noop is None else noop

    def _count_units(self) -> None:
        """Check the limits: a batch takes one worker and each semaphore once; slow resources take no worker."""
        running = [active.vertex for active in self._active.values()]
        now = asyncio.get_running_loop().time()
        at_work = {
            id(active.vertex.queue.batch or active.vertex)
            for active in self._active.values()
            if active.since > now - LONG + TICK
        }
        if len(at_work) > self._engine._scheduler.workers.limit:
            self._wrong(
                None,
                f"more than {self._engine._scheduler.workers.limit} run: {[vertex.identity for vertex in running]}",
            )
        units = {(name, id(vertex.queue.batch or vertex)) for vertex in running for name in vertex.call.meta.sema}
        for name, inside in Counter(name for name, _ in units).items():
            if inside > int(name.partition(":")[2] or 1):
                self._wrong(None, f"{inside} are in the semaphore {name}")

    def _counts(self, vertex: Vertex) -> dict[Any, int]:
        journal = self._engine._parts.journal
        into = {edge: count for edge, count in journal._delivered.items() if edge[1] == vertex.identity}
        return {**into, "changes": journal._counters.get(vertex.identity, Counts()).changes}

    # -- after each step ---------------------------------------------------------------------------------------

    def step(self) -> None:
        """Check all rules that hold after each step of the loop."""
        self._read_on()
        if len(self._machine.overlaps) > self._overlapped:
            self._wrong(None, f"two at once: {self._machine.overlaps[self._overlapped :]}")
            self._overlapped = len(self._machine.overlaps)
        if self._active:
            self._let_go()
        self.deeds.step()
        self._steps += 1
        if self._steps % COUNTED:
            return  # one report is enough: a wrong count stays wrong
        settled = not self._engine._swaps.lock.locked() and not any(self._engine._swaps.retirement)
        for what in miscounted(self._engine.view, settled=settled):
            self._wrong(None, what)

    def _read_on(self) -> None:
        """Check the effects on the machine since the last call."""
        log = self._machine.log
        while self._read < len(log):
            self._read += 1
            self._happened(log[self._read - 1])

    def _let_go(self) -> None:
        for vertex, active in list(self._active.items()):
            if vertex.run.task is not active.task or vertex.run.task is None:
                del self._active[vertex]
                self._ran.add(vertex)
                self._ended(active)

    def _happened(self, line: str) -> None:
        """Check that a run that is allowed to have this effect has caused it."""
        what, *names = line.split()
        if what in {"check", "would", "line"}:
            return
        if what == "took" and names[0] != names[1]:
            self._wrong(None, f"took what is another's: {line}")
        if what == "hear":
            self.values.hears(self._running(names[0]), *names)
            return
        for name in names:
            runs = [active.vertex for active in self._active.values() if active.vertex.resource.name == name]
            if what == "inverse":
                self.deeds.asked(runs[0])
            if not runs:
                self._wrong(None, f"{line}, but nothing runs")
            elif all(self._active[vertex].counts for vertex in runs):
                self._wrong(runs[0], f"noop, and yet: {line}")

    def _running(self, name: str) -> Active | None:
        return next((active for active in self._active.values() if active.vertex.resource.name == name), None)

    def _ended(self, active: Active) -> None:
        """Check that a run in noop has neither delivered nor taken a refresh."""
        vertex = active.vertex
        if not active.told:
            self.deeds.excused(vertex)
        now = self._counts(vertex) if active.counts else {}
        if moved := {key for key in now.keys() & active.counts.keys() if now[key] > active.counts[key]}:
            self._wrong(vertex, f"noop, and yet counted: {moved}")

    # -- at each event -----------------------------------------------------------------------------------------

    def told(self, event: Event) -> None:
        """Check an event of the engine."""
        if isinstance(event, Notice) and event.code in {"engine-trouble", "traceback"}:
            self._wrong(None, f"{event.code}: {event.text}")
        if isinstance(event, Notice) and event.code == "undone":
            self.deeds.undone(event.identity)
        if isinstance(event, Ran):
            self._read_on()  # effects come before the event that reports them
            if (vertex := self._engine.view.graph.by_identity.get(event.outcome.identity)) is not None:
                self._ran.add(vertex)
            active = next(
                (each for each in self._active.values() if each.vertex.identity == event.outcome.identity), None
            )
            if active:
                active.told = True
            if active and FULL in event.outcome.comment:
                self.deeds.excused(active.vertex)
            elif active and event.outcome.ran and not event.outcome.listener:
                self._came_of_it(active, event.outcome)
                self.values.came(active, event.outcome)
                self.deeds.came(active, event.outcome)

    def _came_of_it(self, active: Active, outcome: Outcome) -> None:
        requires = {
            up for kind in GATES for up in active.vertex.links.requisites.get(kind, ())
        }  # a swap may have changed them
        for up, how in active.failed.items():
            if up.last.outcome is how and up in requires:
                self._wrong(active.vertex, f"ran though {up.identity} has failed")
        if (
            outcome.cause == "drift"
            and outcome.changed
            and outcome.result
            and active.vertex.run.applying
            and _alone(active.vertex)
        ):
            now = asyncio.get_running_loop().time()
            repairs = self._repairs.setdefault(active.vertex, [])
            repairs.append(now)
            if sum(at > now - self._engine.options.flap_window for at in repairs) > MOST_REPAIRS:
                self._wrong(active.vertex, "is repaired again and again")


def _wanted(vertex: Vertex) -> set[Vertex]:
    """Return the targets of the vertex's prereqs, direct and indirect."""
    found, stack = set(), [vertex]
    while stack:
        new = {*stack.pop().links.requisites.get("prereq", ())} - found
        found |= new
        stack += new
    return found


def _alone(vertex: Vertex) -> bool:
    """Return whether the vertex has no prereq, and is not the target of one."""
    return "prereq" not in vertex.links.requisites and not vertex.links.prereq_owners
