"""Conditions that must hold when nothing is broken any more and nothing runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fake_machine import Setting
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.vertex import Vertex
from simulated.rules import Rules
from simulated.world import Lined, Speaker, World


def unhealed(engine: Engine, rules: Rules, world: World) -> Iterator[str]:
    """Yield each condition that does not hold."""
    there = [vertex for vertex in engine.view.graph if not vertex.queue.removed]  # without reversals that have ended
    helpless = _helpless(there)
    for row, vertex in zip(engine.status(), there, strict=True):
        yield from _unsettled(row, vertex, rules, world, helpless=vertex in helpless)
    if bool(world.line) is not any(isinstance(vertex.resource, Lined) for vertex in there):
        yield f"the line is {'up' if world.line else 'down'}"
    if left := {identity for identity, _ in engine._parts.journal.reversals} - engine.view.graph.by_identity.keys():
        yield f"not undone: {left}"
    if not engine.converged and not helpless:
        yield "not converged"
    if engine._scheduler.workers.at_work or engine._scheduler.unsettled:
        yield "the scheduler is busy"


def _unsettled(row: Mapping[str, Any], vertex: Vertex, rules: Rules, world: World, *, helpless: bool) -> Iterator[str]:
    """Yield the reasons why a vertex is not settled, or not as declared."""
    bad = [key for key in ("dirty", "running", "failed", "pending_refresh") if row[key]]
    if helpless:
        bad = [key for key in bad if key in {"dirty", "running"}]
    if bad or vertex.last.outcome is None or not vertex.watching.armed:
        yield f"{row['identity']} is not settled: {bad}"
    elif not vertex.call.meta.noop and not vertex.failed:
        yield from _not_as_declared(vertex, rules, world)


def reached(engine: Engine, vertex: Vertex) -> set[Vertex]:
    """Return the vertices that a change of this one may concern: subscribers, and targets with a prereq to probe."""
    found, fresh = {vertex}, [vertex]
    while fresh:
        now = fresh.pop()
        near = [who for who in engine.view.graph if any(now in targets for targets in _telling(who))]
        near += now.links.requisites.get("prereq", ())
        fresh += {*near} - found
        found.update(near)
    return found


def _helpless(there: Sequence[Vertex]) -> set[Vertex]:
    """Return the vertices in noop, and those that may wait for ever for the changes or values of such a vertex."""
    helpless = {vertex for vertex in there if vertex.call.meta.noop}
    more = helpless
    while more:
        near = {
            vertex for vertex in there if any(more.intersection(named) for named in vertex.links.requisites.values())
        }
        near.update(before for vertex in more for before in vertex.links.requisites.get("prereq", ()))
        more = {
            vertex
            for vertex in near - helpless
            if not vertex.failed or vertex.call.meta.recv or (vertex.last.outcome and vertex.last.outcome.because)
        }
        helpless |= more
    return helpless


def _not_as_declared(vertex: Vertex, rules: Rules, world: World) -> Iterator[str]:
    values, resource, outcome = rules.values, vertex.resource, vertex.last.outcome
    assert outcome is not None
    if isinstance(resource, Setting) and outcome.ran and not vertex.links.successors:
        wanted = values.wanted(vertex) if vertex.call.meta.recv else resource.value
        if world.settings.get(resource.name) != wanted:
            yield f"{vertex.identity} is not as declared"
    if isinstance(resource, Speaker) and outcome.ran and values.said(vertex) != world.word(resource.name):
        yield f"{vertex.identity} has said {values.said(vertex)!r} last, and would say {world.word(resource.name)!r}"
    if outcome.ran or outcome.reason == "action":
        yield from values.unheard(vertex)
    if rules.deeds.overdue(vertex):
        yield f"{vertex.identity} is overdue"


def _telling(vertex: Vertex) -> Iterator[tuple[Vertex, ...]]:
    """Return the targets whose changes or probes concern this vertex."""
    return (targets for kind, targets in vertex.links.requisites.items() if not kind.startswith("require"))
