"""The graph: one vertex for each compiled call, and everything the engine knows about it.

Edges come from requisites and always point forward in the order of execution, so the graph has no cycle by construction:
the compiler has ordered the calls already. Vertices are plain state; only the engine's own modules change them.
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
from holdfast.agent.engine.model.states import Group
from holdfast.resources.context import Context
from holdfast.resources.contract import Resource, acts
from holdfast.resources.traits import Groupable, Refreshable
from holdfast.resources.watches import Closable
from holdfast.states.data import RECV, Call

CARRIES = {
    **dict.fromkeys(("watch", "watch_any"), "watch"),
    **dict.fromkeys(("onchanges", "onchanges_any"), "onchanges"),
    **dict.fromkeys(("onfail", "onfail_any", "onfail_all"), "onfail"),
    "listen": "listen",
}
"""Requisites that carry a change (for onfail: a failure) downstream -> the name their deliveries are counted under."""


class ProbeResult(NamedTuple):
    """What the target of a prereq would do."""

    outcome: Outcome
    failure: Failure | None
    """The look itself failed: whether to try again."""
    marks: int
    """The target's when this was seen."""


Requisites: TypeAlias = "Mapping[str, tuple[Vertex, ...]]"
Automatic: TypeAlias = "Mapping[int, tuple[int, ...]]"
"""Position -> those that it waits for though nobody wrote it down."""
NONE: Requisites = MappingProxyType({})
"""One for all: most vertices have no requisites."""


@dataclass(slots=True, eq=False)
class Vertex:
    """One resource in the graph."""

    call: Call
    ctx: Context
    key: str = ""
    """What the journal calls it."""
    requisites: Requisites = field(default_factory=lambda: NONE)
    """Kind of requisite -> its targets."""
    upstream: tuple[Vertex, ...] = ()
    """Whatever must be settled before this may start."""
    downstream: tuple[Vertex, ...] = ()
    """The other end of `upstream`."""
    auto: tuple[Vertex, ...] = ()
    """Those of `upstream` that nobody wrote down: it waits for them, and they never keep it from running."""
    subscribers: tuple[tuple[Vertex, str], ...] = ()
    """(who, counted name) of every edge that carries its changes or failures."""
    prereq_owners: tuple[Vertex, ...] = ()
    """Those that have this as their prereq: they run before it, and only if it would change."""
    satisfied_prereqs: frozenset[tuple[Vertex, int]] = frozenset()
    """Targets of its prereqs for which it has run, each with its marks at that time."""
    successors: tuple[Vertex, ...] = ()
    """Those that say something else of the same thing and come later: it acts once for each version of the sequence, and they are kept."""
    closes: bool = True
    """It has not run since one that it supersedes has acted, or since it came into the graph: it waits for all between."""
    probe_position: int = 0
    """Position of the first that looks at it, through prereqs near or far; its own where none does."""

    dirty: bool = False
    cause: Cause = "start"
    """Why it is dirty, or why it ran last."""
    round: int = 0
    """When it was marked, in pumps of the scheduler."""
    armed: bool = False
    """Its watch has said "armed" (or it needs none)."""
    paused: bool = False
    """A pause whose pattern names it is known to hold."""
    new: bool = True
    """It came into the graph and has neither settled nor failed since, so definition order still binds it, and those after it."""
    running: bool = False
    rest: Rest | None = None
    """It is dirty, and waits for its next attempt."""
    before: Rest | None = None
    """The wait that its present, or last, attempt came after."""
    pending_cause: Cause | None = None
    """Why it was marked while it ran: it is dirty again when the run ends."""
    removed: bool = False
    """It is leaving the graph and must not start any more."""
    applying: bool = True
    """Its present, or last, run may change the machine: settings may change while it runs."""
    listening: bool = False
    """Its next run is that of a listener: the refresh alone, whatever its requisites."""
    force_next: bool = False
    """An action that must run, whatever the journal remembers."""
    forced: bool = False
    """It was due when its present run started."""
    would_change: bool = False
    """Its last run was noop and found something to change."""
    noticed_at: float | None = None
    """Loop time of the first event that no run has answered yet."""
    not_before: float = 0.0
    """Loop time before which it must not start (rate limit, flapping, the next attempt): that of its timer."""
    erred: float | None = None
    """Loop time at which its last attempt failed; None: it did not."""
    outcome: Outcome | None = None
    probe: ProbeResult | None = None
    """What it would do, found for those that have it as their prereq; kept while it is dirty."""
    probe_task: asyncio.Task[ProbeResult] | None = None
    """Finds that out; never while `task` runs."""
    generation: int = 0
    """How often something may have happened to it: a look that saw this grow is stale."""
    clear_epoch: int = -1
    """The scheduler's epoch in which nothing unsettled was found above it."""
    last_change: Outcome | None = None
    failures: int = 0
    """Failed attempts in a row."""
    repairs: tuple[float, ...] = ()
    """Loop times of the last repairs of drift, and attempts at them; as many as the flap limit."""
    flapping: float = 0.0
    """Seconds between repairs while it flaps; 0: it does not."""
    tokens: float = -1.0
    """Runs left in the bucket of its rate limit; -1: not used yet."""
    refilled: float = 0.0
    """Loop time at which the bucket was last filled up."""
    counted: Group | None = None
    """Where the census counts it; None: it does not."""
    waiters: list[Vertex] | None = None
    """Dirty vertices that wait for this one to settle."""
    predecessors: tuple[asyncio.Task[None], ...] = ()
    """What ends those whose place it takes: until then nothing may be done to it."""
    obstacle: Obstacle | None = None
    """What was in the way when it was to run last: it is dirty, and left alone until that is over."""
    batch: Batch | None = None
    """Those with whom it runs, to put things right in one go."""
    task: asyncio.Task[None] | None = None
    watcher: asyncio.Task[None] | Closable | None = None
    """Watches it: a task, or what tells by a callback."""
    timer: asyncio.TimerHandle | None = None
    """Has it looked at again: for a retry, a rerun, or because it was held back until then."""

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
        """What it manages."""
        return self.call.resource

    @property
    def refreshable(self) -> Refreshable | None:
        """The resource, if it has a refresh action."""
        resource = self.call.resource
        return resource if isinstance(resource, Refreshable) else None

    @property
    def group(self) -> Hashable:
        """Those with an equal key may run as one batch; None: it runs alone, as one with a deadline of its own does, which others would use up."""
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
        except Exception:  # noqa: BLE001 - the code of a kind may raise anything; it is put right alone then
            return None
        return None if key is None else (type(resource), key)

    @property
    def settled(self) -> bool:
        """Not dirty and not running: those after it may start."""
        return not self.dirty and not self.running

    @property
    def failed(self) -> bool:
        """Its last run failed."""
        return self.outcome is not None and self.outcome.result is False

    def carriers(self, *, failure: bool = False) -> list[Edge]:
        """The edges that carry its changes, or its failures."""
        return [(self.key, who.key, kind) for who, kind in self.subscribers if (kind == "onfail") is failure]


class Graph:
    """All vertices in order of execution, and by identity."""

    def __init__(self, vertices: Sequence[Vertex] = (), automatic: Automatic = MappingProxyType({})) -> None:
        self.vertices = list(vertices)
        self.automatic = automatic
        """The edges that nobody wrote down, by positions."""
        self.by_identity = {vertex.identity: vertex for vertex in vertices}

    def __iter__(self) -> Iterator[Vertex]:
        """In order of execution."""
        return iter(self.vertices)

    def __len__(self) -> int:
        """Number of vertices."""
        return len(self.vertices)


def edges(calls: Sequence[Call]) -> Iterator[Edge]:
    """Every edge that carries changes or failures, by identities, of calls that stand in order of execution."""
    for call in calls:
        for kind, targets in call.requisites.items():
            if kind in CARRIES:
                for target in targets:
                    yield calls[target].identity, call.identity, CARRIES[kind]


def remembered(calls: Sequence[Call]) -> dict[str, str]:
    """Identity -> thing of each call about which the journal has something to remember: actions, superseded ones, and ends of edges that carry something."""
    found: dict[str, str] = {}
    for call in calls:
        carriers = [targets for kind, targets in call.requisites.items() if kind in CARRIES or kind == RECV]
        if carriers or call.superseded or acts(call.resource):
            for each in (call, *(calls[target] for targets in carriers for target in targets)):
                if each.identity not in found:
                    found[each.identity] = thing(each.kind, each.resource.name)
    return found


def others(calls: Sequence[Call], known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(identity, thing) of all other calls."""
    return ((call.identity, thing(call.kind, call.resource.name)) for call in calls if call.identity not in known)


def same_to_remember(vertices: Sequence[Vertex], calls: Sequence[Call]) -> bool:
    """Whether `edges`, `remembered` and `others` find the same in these calls as in those of a graph: what was edited is something else."""
    return len(vertices) == len(calls) and all(map(_same_to_remember, vertices, calls))


def _same_to_remember(vertex: Vertex, new: Call) -> bool:
    old = vertex.call
    if old is new:
        return True
    one, other = old.resource, new.resource
    same = old.identity == new.identity and one.name == other.name and old.requisites == new.requisites
    return same and (one is other or acts(one) == acts(other))


def blames_others(vertex: Vertex) -> bool:
    """Whether it did not run because of something that it has nothing to do with any more."""
    if vertex.outcome is None or not vertex.outcome.because:
        return False
    near = {each.identity for each in (*vertex.upstream, *vertex.prereq_owners, *chain(*vertex.requisites.values()))}
    return not near.issuperset(vertex.outcome.because)
