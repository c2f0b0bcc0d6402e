"""The graph: one vertex for each compiled call, with everything that the engine knows about the resource.

Edges come from requisites, or are automatic edges. Each edge points forward in the order of execution, which the
compiler has found, so the graph has no cycle. A vertex is plain data; only modules of the engine change it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from holdfast.agent.engine.model.batch import Batch
from holdfast.agent.engine.model.edge_keys import Edge, thing
from holdfast.agent.engine.model.events import Cause, Obstacle, Outcome, Rest
from holdfast.agent.engine.model.failure import Failure
from holdfast.agent.engine.model.states import CensusGroup
from holdfast.resources.context import Context
from holdfast.resources.contract import Resource, acts
from holdfast.resources.traits import Groupable, Refreshable
from holdfast.resources.watches import Closable
from holdfast.states.data import Call
from holdfast.states.requisite_kinds import CARRIES, ON_FAILURE, RECV


class ProbeResult(NamedTuple):
    """What the target of a prereq would do if it ran now."""

    outcome: Outcome
    failure: Failure | None
    """Set if the probe failed: whether to try again."""
    marks: int
    """Generation of the target when the probe began."""


Requisites: TypeAlias = "Mapping[str, tuple[Vertex, ...]]"
Automatic: TypeAlias = "Mapping[int, tuple[int, ...]]"
"""Position of a vertex -> positions of the vertices for which it waits by automatic edges."""
NONE: Requisites = MappingProxyType({})
"""Shared by all vertices without requisites, which most are."""


@dataclass(slots=True, eq=False)
class Vertex:
    """One resource in the graph."""

    call: Call
    ctx: Context
    key: str = ""
    """The key of the resource in the journal."""
    requisites: Requisites = field(default_factory=lambda: NONE)
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
    satisfied_prereqs: frozenset[tuple[Vertex, int]] = frozenset()
    """(target, its generation) of the prereqs for which this vertex has run."""
    successors: tuple[Vertex, ...] = ()
    """Later states of the same thing that supersede this one.

    A superseded vertex runs once for each version of its sequence; the last of these vertices is maintained.
    """
    closes: bool = True
    """The vertex has not run since it entered the graph, or since one that it supersedes has run.

    Until it runs, it waits for all vertices between the first of its sequence and itself.
    """
    probe_position: int = 0
    """Position of the first vertex that probes this one, through any number of prereqs; its own if none does."""

    dirty: bool = False
    cause: Cause = "start"
    """Why the vertex is dirty, or why it ran last."""
    round: int = 0
    """Number of the scheduler's pump in which the vertex became dirty."""
    armed: bool = False
    """The watch is armed, or the vertex needs none."""
    paused: bool = False
    """A pause with a pattern covers the vertex; updated when a pause begins or ends."""
    new: bool = True
    """The vertex has neither settled nor failed since it entered the graph.

    While this is so, definition order applies to this vertex and to the vertices after it.
    """
    running: bool = False
    rest: Rest | None = None
    """The vertex is dirty and waits for its next attempt."""
    before: Rest | None = None
    """The wait that preceded the current or last attempt."""
    pending_cause: Cause | None = None
    """Why the vertex was marked while it ran: it becomes dirty again when the run ends."""
    removed: bool = False
    """The vertex is leaving the graph and must not start."""
    applying: bool = True
    """The current or last run may change the machine. Kept here because options may change during the run."""
    listening: bool = False
    """The next run is that of a listener: only the refresh, whatever the requisites say."""
    force_next: bool = False
    """The next run must execute the action, even if the journal has it as done."""
    forced: bool = False
    """`force_next` was set when the current run started."""
    would_change: bool = False
    """The last run was noop and found something to change."""
    noticed_at: float | None = None
    """Loop time of the first event that no run has handled yet."""
    not_before: float = 0.0
    """Loop time before which the vertex must not start: rate limit, flapping, retry wait, obstacle."""
    erred: float | None = None
    """Loop time at which the last attempt failed; None: it did not fail."""
    outcome: Outcome | None = None
    probe: ProbeResult | None = None
    """What the vertex would do, probed for `prereq_owners`; kept while the vertex is dirty."""
    probe_task: asyncio.Task[ProbeResult] | None = None
    """The task that probes for `prereq_owners`; never runs at the same time as `task`."""
    generation: int = 0
    """Counts events that may have changed the resource: a probe is stale if this changed meanwhile."""
    clear_epoch: int = -1
    """Epoch of the scheduler in which all vertices above this one were found settled."""
    last_change: Outcome | None = None
    failures: int = 0
    """Number of failed attempts in a row."""
    repairs: tuple[float, ...] = ()
    """Loop times of the last repairs of drift, failed ones included; at most `flap_limit` of them."""
    flapping: float = 0.0
    """Seconds between repairs while the vertex flaps; 0: it does not flap."""
    tokens: float = -1.0
    """Runs left in the token bucket of the rate limit; -1: not used yet."""
    refilled: float = 0.0
    """Loop time at which the bucket was last refilled."""
    counted: CensusGroup | None = None
    """Group in which the census counts the vertex; None: it does not count it."""
    waiters: list[Vertex] | None = None
    """Dirty vertices that wait for this one to settle."""
    predecessors: tuple[asyncio.Task[None], ...] = ()
    """Tasks that end the vertices that this one replaces; nothing runs for this vertex before they are done."""
    obstacle: Obstacle | None = None
    """What prevented the last run: the vertex stays dirty and waits until the obstacle ends."""
    batch: Batch | None = None
    """The batch in which the vertex runs, to be repaired together with others."""
    task: asyncio.Task[None] | None = None
    watcher: asyncio.Task[None] | Closable | None = None
    """The watch: a task, or the subscription of a callback."""
    timer: asyncio.TimerHandle | None = None
    """Checks the vertex again: after a retry wait or a period (`rerun`), or once it is no longer held back."""

    @property
    def identity(self) -> str:
        """`kind[id]`."""
        return self.call.identity

    @property
    def position(self) -> int:
        """Place in the order of execution."""
        return self.call.position

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
        """Key of the group with which the vertex may run as one batch; None: it runs alone.

        A vertex with its own `timeout` runs alone, because the other members would use up its time.
        """
        meta, resource = self.call.meta, self.call.resource
        if (
            not isinstance(resource, Groupable)
            or not meta.autogroup
            or meta.aggregate is False
            or meta.timeout is not None
        ):
            return None
        try:
            key = resource.group()
            hash(key)
        except Exception:  # noqa: BLE001 - the code of a kind may raise anything; then the vertex runs alone
            return None
        return None if key is None else (type(resource), key)

    @property
    def settled(self) -> bool:
        """Whether the vertex is neither dirty nor running: vertices after it may start."""
        return not self.dirty and not self.running

    @property
    def failed(self) -> bool:
        """Whether the last run failed."""
        return self.outcome is not None and self.outcome.result is False

    def carriers(self, *, failure: bool = False) -> list[Edge]:
        """Return the edges that carry changes of this vertex or, with `failure`, its failures."""
        return [(self.key, each.key, kind) for each, kind in self.subscribers if (kind in ON_FAILURE) is failure]


class Graph:
    """All vertices in order of execution, and by identity."""

    def __init__(self, vertices: Sequence[Vertex] = (), automatic: Automatic = MappingProxyType({})) -> None:
        self.vertices = list(vertices)
        self.automatic = automatic
        """The automatic edges, by positions."""
        self.by_identity = {vertex.identity: vertex for vertex in vertices}

    def __iter__(self) -> Iterator[Vertex]:
        """Iterate over the vertices in order of execution."""
        return iter(self.vertices)

    def __len__(self) -> int:
        """Number of vertices."""
        return len(self.vertices)


def edges(calls: Sequence[Call]) -> Iterator[Edge]:
    """Return each edge that carries changes or failures, by identities. `calls` are in order of execution."""
    for call in calls:
        for kind, targets in call.requisites.items():
            if kind in CARRIES:
                for target in targets:
                    yield calls[target].identity, call.identity, CARRIES[kind]


def remembered(calls: Sequence[Call]) -> dict[str, str]:
    """Return identity -> thing of the calls that the journal remembers.

    These are actions, superseded states, and the ends of edges that carry changes, failures or values.
    """
    found: dict[str, str] = {}
    for call in calls:
        carriers = [targets for kind, targets in call.requisites.items() if kind in CARRIES or kind == RECV]
        if carriers or call.superseded or acts(call.resource):
            for each in (call, *(calls[target] for targets in carriers for target in targets)):
                if each.identity not in found:
                    found[each.identity] = thing(each.kind, each.resource.name)
    return found


def others(calls: Sequence[Call], known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Return (identity, thing) of all calls that are not in `known`."""
    return ((call.identity, thing(call.kind, call.resource.name)) for call in calls if call.identity not in known)


def same_to_remember(vertices: Sequence[Vertex], calls: Sequence[Call]) -> bool:
    """Return whether `edges`, `remembered` and `others` are equal for these calls and for those of the vertices."""
    return len(vertices) == len(calls) and all(map(_same_to_remember, vertices, calls))


def _same_to_remember(vertex: Vertex, new: Call) -> bool:
    old = vertex.call
    if old is new:
        return True
    one, other = old.resource, new.resource
    same = old.identity == new.identity and one.name == other.name and old.requisites == new.requisites
    return same and (one is other or acts(one) == acts(other))


def blames_others(vertex: Vertex) -> bool:
    """Return whether the vertex did not run because of a resource that it no longer depends on."""
    if vertex.outcome is None or not vertex.outcome.because:
        return False
    near = {each.identity for each in (*vertex.upstream, *vertex.prereq_owners, *chain(*vertex.requisites.values()))}
    return not near.issuperset(vertex.outcome.because)
