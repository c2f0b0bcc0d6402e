"""Looks ahead: what the targets of a prereq would do if they ran now, found before the prereq itself may run.

A look belongs to its target, whoever asked for it: two that ask at the same time share one, a target that runs is looked at when its
run has ended, and what was found is kept until the target runs, or something happens to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.agent.engine.model.events import Outcome
from holdfast.agent.engine.model.failure import Failure
from holdfast.agent.engine.model.graph import ProbeResult, Vertex

Probes = dict[Vertex, ProbeResult]
"""Targets of prereqs, each with what was found."""


class Prober:
    """Looks for one engine.

    `probe` looks at a target, given what was found of its own prereqs' targets. `found` is told of a target that turned out to be
    wrong though nobody had marked it, and on whose account that was found.
    """

    def __init__(
        self,
        probe: Callable[[Vertex, Probes], Awaitable[tuple[Outcome, Failure | None]]],
        found: Callable[[Vertex, Vertex], None],
    ) -> None:
        self._probe = probe
        self._found = found

    async def ahead(self, vertex: Vertex) -> Probes:
        """What the targets of its prereqs, and theirs in turn, would do if they ran now."""
        while True:
            requisites = vertex.requisites  # a swap replaces them
            probes: Probes = {}
            for target in _targets(vertex):
                if look := _kept(target) or await self._look(target, probes):
                    probes[target] = look
            if vertex.requisites is requisites and not any(_stale(target, look) for target, look in probes.items()):
                break
        for target, look in probes.items():
            if (
                look.outcome.result is not True and not target.dirty and not target.would_change
            ):  # noop: that is known, and stays so
                self._found(target, vertex)
            if target.dirty:
                target.probe = look._replace(marks=target.generation)
        return probes

    async def _look(self, target: Vertex, probes: Probes) -> ProbeResult | None:
        """None: it is leaving the graph, and whoever takes its place is looked at later."""
        while target.task and not target.probe_task:
            await asyncio.wait([target.task])
        if target.probe_task is None and target.removed:
            return None
        if target.probe_task is None:
            target.probe_task = asyncio.create_task(self._see(target, probes), name=f"look at {target.identity}")
            target.probe_task.add_done_callback(lambda _: setattr(target, "probe_task", None))
        look = target.probe_task
        await asyncio.wait([look])
        return look.result()

    async def _see(self, target: Vertex, probes: Probes) -> ProbeResult:
        if target.predecessors:
            await asyncio.wait(target.predecessors)
        marks = target.generation
        return ProbeResult(*await self._probe(target, probes), marks)


def _targets(vertex: Vertex) -> list[Vertex]:
    """All that its prereqs lead to, those first that others depend on: targets come later in the order than their prereqs."""
    reached: set[Vertex] = set()
    stack = list(vertex.requisites.get("prereq", ()))
    while stack:
        target = stack.pop()
        if target not in reached:
            reached.add(target)
            stack.extend(() if _kept(target) else target.requisites.get("prereq", ()))
    return sorted(reached, key=lambda target: -target.position)


def _kept(target: Vertex) -> ProbeResult | None:
    """What was found of it before and holds still."""
    return target.probe if target.dirty else None


def _stale(target: Vertex, look: ProbeResult) -> bool:
    """Something happened to it during the look; that it would change is true all the same."""
    return look is not target.probe and look.outcome.result is not None and look.marks != target.generation
