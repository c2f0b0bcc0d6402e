"""Compares the outcome of a run with its effects: alone or in a batch, as an action, or as a reversal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fake_machine import Action
from holdfast.agent.engine.decide.done import CLOCK
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.engine.model.vertex import Vertex
from simulated.active import Active
from simulated.world import World

UNDO = "undo "
"""Prefix of the IDs of reversals."""
OWN = ("no", "busy")
"""Errors that the machine raises. A run must report only errors that it has received itself."""


class Deeds:
    """Observes the runs of one engine."""

    def __init__(self, engine: Engine, world: World, wrong: Callable[[Vertex | None, str], None]) -> None:
        self._engine, self._world, self._wrong = engine, world, wrong
        self._succeeded: dict[Vertex, float] = {}
        """Action without related vertices or another reason to run -> loop time of its last success."""
        self._excused: set[Vertex] = set()
        """Vertices that may run for another reason."""
        self._known: set[tuple[str, str]] = set()
        """Keys of the reversals that the journal had after the last step."""

    def step(self) -> None:
        """Record the reversals in the journal after a step of the loop."""
        if self._known or self._engine._parts.journal.reversals:
            self._known = {*self._engine._parts.journal.reversals}

    # -- actions -----------------------------------------------------------------------------------------------

    def excused(self, vertex: Vertex | None) -> None:
        """Permit one more run of an action, which was requested, or whose last run did not succeed."""
        if vertex:
            self._excused.add(vertex)

    def starts(self, active: Active) -> None:
        """Check at its start that a reversal restores the previous value."""
        vertex, world = active.vertex, self._world
        # A request of another vertex may have ended when the run ends.
        active.excused = vertex in self._excused or not _lonely(vertex)
        self._excused.discard(vertex)
        if vertex.call.low["__id__"].startswith(UNDO):
            name, wish = vertex.resource.name, getattr(vertex.resource, "value", None)
            if name not in world.lent or world.lent[name] != wish:
                self._wrong(vertex, f"puts back {wish!r}, which it was not: {world.lent.get(name, 'unknown')!r}")

    def asked(self, vertex: Vertex) -> None:
        """Check that the previous content is requested only once."""
        if (vertex.identity, vertex.resource.name) in self._known:
            self._wrong(vertex, "is asked again what was before")

    def undone(self, identity: str) -> None:
        """Check that the previous value is restored when the engine reports so."""
        name = identity.partition("[")[2].removesuffix("]")
        if self._world.settings.get(name) != self._world.lent.get(name):
            self._wrong(None, f"{identity} is not undone: {name} is not {self._world.lent.get(name)!r}")

    def overdue(self, vertex: Vertex) -> bool:
        """Return whether the period of an action has passed without a run."""
        every = vertex.call.meta.rerun
        now = asyncio.get_running_loop().time()
        return isinstance(every, float) and _lonely(vertex) and self._succeeded.get(vertex, -1.0) < now - every - 1

    def came(self, active: Active, outcome: Outcome) -> None:
        """Check the outcome at the end of a run."""
        vertex, name = active.vertex, active.vertex.resource.name
        if isinstance(vertex.resource, Action) and vertex.run.applying:
            self._again(active, outcome)
        if outcome.result is False:
            if (
                outcome.comment in OWN
                and not self._world.everbroken & {name, f"look {name}", f"refresh {name}"}
                and not _batched(vertex, outcome)
            ):
                self._wrong(vertex, "has failed for what is none of its own")
        elif outcome.result and vertex.run.applying:
            self._true(active, outcome)

    def _again(self, active: Active, outcome: Outcome) -> None:
        """Check that an action runs again only for a reason."""
        vertex = active.vertex
        now, every = asyncio.get_running_loop().time(), vertex.call.meta.rerun
        last = self._succeeded.pop(vertex, None)
        if outcome.result and _lonely(vertex):
            if (
                last is not None
                and not active.excused
                and not (isinstance(every, float) and now >= last + every - CLOCK)
            ):
                self._wrong(vertex, f"has run {now - last:g} s ago, and again for no reason")
            self._succeeded[vertex] = now

    def _true(self, active: Active, outcome: Outcome) -> None:
        """Check that the reported changes are those of this run."""
        name, done = active.vertex.resource.name, self._world.done[active.done_before :]
        did = {what for what in ("change", "run", "refresh") if f"{what} {name}" in done}
        if active.vertex.call.low["__id__"].startswith(UNDO):
            return
        if outcome.refreshed:
            if "refresh" not in did:
                self._wrong(active.vertex, f"tells of a refresh, and did {sorted(did)}")
        elif outcome.changed is not bool(did & {"change", "run"}) and not (
            did and (outcome.touched or outcome.attempts > 1)
        ):
            self._wrong(active.vertex, f"tells of {outcome.changes or 'nothing'}, and did {sorted(did)}")


def _lonely(vertex: Vertex) -> bool:
    """Return whether no other vertex can be the reason of a run."""
    return (
        not vertex.links.requisites
        and not vertex.links.prereq_owners
        and not any(below.call.meta.recv for below in vertex.links.downstream)
    )


def _batched(vertex: Vertex, outcome: Outcome) -> bool:
    """Return whether the run was part of a batch, whose failure may be that of another member."""
    return vertex.queue.batch is not None and outcome.comment.startswith("busy")
