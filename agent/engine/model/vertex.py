"""A vertex: one resource in the graph, with everything that the engine knows about it.

The state of a vertex is divided into parts. Each part, and each field of the vertex itself, is written by one module,
which its docstring names; all other modules only read it (`tests/project/test_one_writer.py`). A part that is
seldom in use is one shared object, which has the same value for all vertices, until its writer replaces it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeAlias

from holdfast.agent.engine import kinds
from holdfast.agent.engine.model.batch import Batch
from holdfast.agent.engine.model.edge_keys import Edge
from holdfast.agent.engine.model.outcome import Cause, LastChange, Outcome
from holdfast.agent.engine.model.states import CensusGroup
from holdfast.agent.engine.model.waits import Obstacle, RetryWait
from holdfast.resources.context import Context
from holdfast.resources.contract import Resource
from holdfast.resources.traits import Refreshable
from holdfast.resources.watches import Listening
from holdfast.states.data import Call
from holdfast.states.errors import Location
from holdfast.states.requisite_kinds import ON_FAILURE

Requisites: TypeAlias = "Mapping[str, tuple[Vertex, ...]]"
NONE: Requisites = MappingProxyType({})
"""Shared by all vertices without requisites, which most are."""


class Links(NamedTuple):
    """The edges of a vertex. Written by `model/connect.py`, when the vertex joins a graph or its neighbours change."""

    requisites: Requisites = NONE
    """Kind of requisite -> targets."""
    upstream: tuple[Vertex, ...] = ()
    """Vertices that must be settled before this one may start."""
    downstream: tuple[Vertex, ...] = ()
    """Vertices that have this one in their `upstream`."""
    auto: tuple[Vertex, ...] = ()
    """Vertices of `upstream` by an automatic edge: this one waits for them, but their failure does not block it."""
    subscribers: tuple[tuple[Vertex, str], ...] = ()
    """(vertex, kind of delivery) of each edge that carries changes or failures of this vertex."""
    prereq_owners: tuple[Vertex, ...] = ()
    """Vertices that name this one in a prereq: they run before it, and only if it would change."""
    successors: tuple[Vertex, ...] = ()
    """Later states of the same thing that supersede this one.

    A superseded vertex runs once for each version of its sequence; the last of these vertices is maintained.
    """
    first_probe: int | None = None
    """Position of the first vertex that probes this one, through any number of prereqs; None: no vertex does."""


@dataclass(slots=True, eq=False, repr=False)
class Queue:
    """Whether a vertex is to run, and why. Written by `schedule/scheduler.py`."""

    dirty: bool = False
    cause: Cause = "start"
    """Why the vertex is dirty, or why it ran last."""
    round: int = 0
    """Number of the scheduler's pump in which the vertex became dirty."""
    new: bool = True
    """The vertex has neither settled nor failed since it entered the graph.

    While this is so, definition order applies to this vertex and to the vertices after it.
    """
    running: bool = False
    pending_cause: Cause | None = None
    """Why the vertex was marked while it ran: it becomes dirty again when the run ends."""
    removed: bool = False
    """The vertex is leaving the graph and must not start."""
    listening: bool = False
    """The next run, or the current one, is that of a listener: only the refresh, without a decision on requisites."""
    force_next: bool = False
    """The next run must execute the action, even if the journal has it as done."""
    noticed_at: float | None = None
    """Loop time of the first event that no run has handled yet."""
    generation: int = 0
    """Counts events that may have changed the resource: a probe is stale if this changed meanwhile."""
    waiters: list[Vertex] | None = None
    """Dirty vertices that wait for this one to settle."""
    batch: Batch | None = None
    """The batch in which the vertex runs, to be repaired together with others."""


@dataclass(slots=True, eq=False, repr=False)
class Watching:
    """The watch of a vertex. Written by `watch/watches.py`."""

    armed: bool = False
    """The watch is armed, or the vertex needs none."""
    failed: str = ""
    """Why the watch has failed; empty: it has not failed, or is armed again."""
    watcher: asyncio.Task[None] | Listening | None = None
    """The watch: a task, or the subscription of a callback."""
    predecessors: tuple[asyncio.Task[None], ...] = ()
    """Tasks that end the vertices that this one replaces; nothing runs for this vertex before they are done."""


@dataclass(slots=True, eq=False, repr=False)
class Run:
    """A run of a vertex, with the wait for its next attempt. Written by `execute/runner.py`."""

    applying: bool = True
    """The run may change the machine. Kept here because options may change during the run."""
    forced: bool = False
    """`Queue.force_next` was set when the run started, and the run has not executed the action yet."""
    before: RetryWait | None = None
    """The wait that preceded the current or last attempt."""
    obstacle: Obstacle | None = None
    """What prevents the run: the vertex stays dirty and waits until the obstacle ends."""
    retry_wait: RetryWait | None = None
    """The vertex is dirty and waits for its next attempt."""
    task: asyncio.Task[None] | None = None


NO_RUN = Run()
"""Shared by all vertices that neither run nor wait for their next attempt. Never written."""


@dataclass(slots=True, eq=False, repr=False)
class Last:
    """The results of a vertex's runs. Written by `execute/outcomes.py`."""

    outcome: Outcome | None = None
    """The last outcome that was not that of a listener."""
    change: LastChange | None = None
    """The last run that changed the resource."""
    failures: int = 0
    """Number of failed attempts in a row."""
    would_change: bool = False
    """The last run was noop and found something to change."""
    closes: bool = True
    """The vertex has not run since it entered the graph, or since one that it supersedes has run.

    Until it runs, it waits for all vertices between the first of its sequence and itself.
    """
    satisfied_prereqs: frozenset[tuple[Vertex, int]] = frozenset()
    """(target, its generation) of the prereqs for which this vertex has run."""


class Rate(NamedTuple):
    """How often a vertex has run. Written by `schedule/limits.py`."""

    tokens: float = -1.0
    """Runs left in the token bucket of the rate limit; -1: not used yet."""
    refilled: float = 0.0
    """Loop time at which the bucket was last refilled."""
    repairs: tuple[float, ...] = ()
    """Loop times of the last repairs of drift, failed ones included; at most `flap_limit` of them."""
    flapping: float = 0.0
    """Seconds between repairs while the vertex flaps; 0: it does not flap."""
    failed_at: float | None = None
    """Loop time at which the last attempt failed; None: it did not fail."""


class ProbeResult(NamedTuple):
    """What the target of a prereq would do if it ran now."""

    outcome: Outcome
    generation: int
    """Generation of the target when the probe began."""


class Probe(NamedTuple):
    """The probe of a vertex for its `prereq_owners`. Written by `decide/probes.py`."""

    result: ProbeResult | None = None
    """Kept while the vertex is dirty."""
    task: asyncio.Task[ProbeResult] | None = None
    """The task that probes; never runs at the same time as the task of a run."""


NO_LINKS, NO_RATE, NO_PROBE = Links(), Rate(), Probe()


@dataclass(slots=True, eq=False, repr=False)
class Vertex:
    """One resource in the graph."""

    call: Call
    """Written by `swap.py`."""
    ctx: Context
    """The services of the resource. `call/attempt.py` writes what a run is given and reports."""
    key: str = ""
    """The key of the resource in the journal. Written by `swap.py`."""
    links: Links = NO_LINKS
    queue: Queue = field(default_factory=Queue)
    watching: Watching = field(default_factory=Watching)
    run: Run = NO_RUN
    last: Last = field(default_factory=Last)
    rate: Rate = NO_RATE
    probe: Probe = NO_PROBE
    timer: asyncio.TimerHandle | None = None
    """Checks the vertex again: after a retry wait or a period (`rerun`), or once it is no longer held back.

    Written by `schedule/timers.py`.
    """
    not_before: float = 0.0
    """Loop time before which the vertex must not start: rate limit, flapping, retry wait, obstacle.

    Written by `schedule/timers.py`.
    """
    clear_epoch: int = -1
    """Epoch in which all vertices above this one were found settled. Written by `schedule/blockers.py`."""
    paused: bool = False
    """A pause with a pattern covers the vertex. Written by `execute/pausing.py` when a pause begins or ends."""
    counted: CensusGroup | None = None
    """Group in which the census counts the vertex; None: it does not count it. Written by `inspect/census.py`."""

    @property
    def identity(self) -> str:
        """`kind[id]`."""
        return self.call.identity

    @property
    def position(self) -> int:
        """Place in the order of execution."""
        return self.call.position

    @property
    def location(self) -> Location:
        """The location of the state in its file."""
        return self.call.location

    @property
    def resource(self) -> Resource:
        """The declared resource."""
        return self.call.resource

    @property
    def refreshable(self) -> Refreshable | None:
        """The resource, if it has a refresh action."""
        resource = self.call.resource
        return resource if isinstance(resource, Refreshable) else None

    @property
    def group(self) -> Hashable:
        """Key of the group with which the vertex may run as one batch; None: it runs alone."""
        return kinds.group(self.call.resource, self.call.meta)

    @property
    def probe_position(self) -> int:
        """Position of the first vertex that probes this one, through any number of prereqs; its own if none does."""
        return self.call.position if self.links.first_probe is None else self.links.first_probe

    @property
    def settled(self) -> bool:
        """Whether the vertex is neither dirty nor running: vertices after it may start."""
        queue = self.queue
        return not queue.dirty and not queue.running

    @property
    def failed(self) -> bool:
        """Whether the last run failed."""
        return self.last.outcome is not None and self.last.outcome.result is False

    @property
    def blocks(self) -> bool:
        """Whether vertices that require this one cannot run."""
        return self.last.outcome is not None and self.last.outcome.blocks

    def carriers(self, *, failure: bool = False) -> list[Edge]:
        """Return the edges that carry changes of this vertex or, with `failure`, its failures."""
        return [(self.key, each.key, kind) for each, kind in self.links.subscribers if (kind in ON_FAILURE) is failure]


class Observer(Protocol):
    """Counts vertices by their state, as the census does."""

    def note(self, vertex: Vertex) -> None:
        """Record that the state of a vertex may have changed."""
