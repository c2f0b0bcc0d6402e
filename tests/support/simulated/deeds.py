"""What is told of a run against what it has done: alone or in a batch, as an action, or to put back what was before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fake_machine import Action
from holdfast.agent.engine.decide.done import CLOCK
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.events import Outcome
from holdfast.agent.engine.model.vertex import Vertex
from simulated.active import Active
from simulated.world import World

UNDO = "undo "
"""So begin the IDs of what is to put something back."""
OWN = ("no", "busy")
"""Errors of the machine: whoever tells of one has met it himself."""


class Deeds:
    """Keeps account of them for one engine."""

    def __init__(self, engine: Engine, world: World, wrong: Callable[[Vertex | None, str], None]) -> None:
        self._engine, self._world, self._wrong = engine, world, wrong
        self._succeeded: dict[Vertex, float] = {}
        """Actions that nobody else concerns, and have no reason to run again -> loop time of the last success."""
        self._excused: set[Vertex] = set()
        """Those that may run for another reason."""
        self._known: set[tuple[str, str]] = set()
        """What was before, of these, was on record after the last step."""

    def step(self) -> None:
        """The loop has taken one step."""
        if self._known or self._engine._parts.journal.reversals:
            self._known = {*self._engine._parts.journal.reversals}

    # -- actions -----------------------------------------------------------------------------------------------

    def excused(self, vertex: Vertex | None) -> None:
        """It may run once more: somebody wants so, or it did not come to a good end."""
        if vertex:
            self._excused.add(vertex)

    def starts(self, active: Active) -> None:
        """An undoing puts back what was."""
        vertex, world = active.vertex, self._world
        active.excused = vertex in self._excused or not _lonely(
            vertex
        )  # what others want of it may be over when it ends
        self._excused.discard(vertex)
        if vertex.call.low["__id__"].startswith(UNDO):
            name, wish = vertex.resource.name, getattr(vertex.resource, "value", None)
            if name not in world.lent or world.lent[name] != wish:
                self._wrong(vertex, f"puts back {wish!r}, which it was not: {world.lent.get(name, 'unknown')!r}")

    def asked(self, vertex: Vertex) -> None:
        """It is asked what was before: that is asked once."""
        if (vertex.identity, vertex.resource.name) in self._known:
            self._wrong(vertex, "is asked again what was before")

    def undone(self, identity: str) -> None:
        """What it was before is told to be there."""
        name = identity.partition("[")[2].removesuffix("]")
        if self._world.settings.get(name) != self._world.lent.get(name):
            self._wrong(None, f"{identity} is not undone: {name} is not {self._world.lent.get(name)!r}")

    def overdue(self, vertex: Vertex) -> bool:
        """It is to run every so many seconds, and has not."""
        every = vertex.call.meta.rerun
        now = asyncio.get_running_loop().time()
        return isinstance(every, float) and _lonely(vertex) and self._succeeded.get(vertex, -1.0) < now - every - 1

    def came(self, active: Active, outcome: Outcome) -> None:
        """A run has come to its end."""
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
        """An action runs again when there is a reason."""
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
        """What it says to have done is what was done, by it and since it began."""
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
    """Nothing but itself can be why it runs."""
    return (
        not vertex.links.requisites
        and not vertex.links.prereq_owners
        and not any(below.call.meta.recv for below in vertex.links.downstream)
    )


def _batched(vertex: Vertex, outcome: Outcome) -> bool:
    """It was tried with others, and what came of that is a matter of the moment."""
    return vertex.queue.batch is not None and outcome.comment.startswith("busy")
