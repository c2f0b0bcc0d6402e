"""Probes for prereqs: what a target of a prereq would do if it ran now.

A vertex with a prereq runs only if the target would change, so the target is probed first. A probe belongs to its
target: two vertices that need the same probe share it. A running target is probed after its run. The result
is kept until the target runs or is marked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from holdfast.agent.engine.model.outcome import Cause, Outcome
from holdfast.agent.engine.model.vertex import ProbeResult, Vertex
from holdfast.states.requisite_kinds import PROBED, targets_of

Probes = dict[Vertex, ProbeResult]
"""Target of a prereq -> the result of its probe."""


class VertexMarker(Protocol):
    """The part of the engine that probes use."""

    def mark(self, vertex: Vertex, cause: Cause, by: Vertex | None = None) -> None:
        """Make a vertex dirty, because of a run of `by`."""


class Prober:
    """Probes targets for one engine.

    `probe` probes a target, given the results for the targets of its own prereqs. A target that is not as declared
    although it was not dirty becomes dirty.
    """

    def __init__(self, probe: Callable[[Vertex, Probes], Awaitable[Outcome]], marker: VertexMarker) -> None:
        self._probe = probe
        self._marker = marker

    async def ahead(self, vertex: Vertex) -> Probes:
        """Probe the targets of the vertex's prereqs, and the targets of their prereqs in turn."""
        while True:
            requisites = vertex.links.requisites  # a swap replaces them
            probes: Probes = {}
            for target in _targets(vertex):
                if result := _kept(target) or await self._probe_once(target, probes):
                    probes[target] = result
            stale = any(_stale(target, result) for target, result in probes.items())
            if vertex.links.requisites is requisites and not stale:
                break
        for target, result in probes.items():
            self._note(target, result, vertex)
        return probes

    def _note(self, target: Vertex, result: ProbeResult, vertex: Vertex) -> None:
        """Make a target dirty that is not as declared; keep the result of its probe while it is dirty."""
        # Under noop, a target with `would_change` is already known to differ.
        if result.outcome.result is not True and not target.queue.dirty and not target.last.would_change:
            self._marker.mark(target, "drift", by=vertex)
        if target.queue.dirty:
            target.probe = target.probe._replace(result=result._replace(generation=target.queue.generation))

    async def _probe_once(self, target: Vertex, probes: Probes) -> ProbeResult | None:
        """Probe a target, or join its current probe.

        Returns None if the target is being removed; its replacement is probed later.
        """
        while target.run.task and not target.probe.task:
            await asyncio.wait([target.run.task])
        if target.probe.task is None and target.queue.removed:
            return None
        task = target.probe.task or self._start(target, probes)
        await asyncio.wait([task])
        return task.result()

    def _start(self, target: Vertex, probes: Probes) -> asyncio.Task[ProbeResult]:
        task = asyncio.create_task(self._run(target, probes), name=f"probe {target.identity}")
        task.add_done_callback(partial(_ended, target))
        target.probe = target.probe._replace(task=task)
        return task

    async def _run(self, target: Vertex, probes: Probes) -> ProbeResult:
        if target.watching.predecessors:
            await asyncio.wait(target.watching.predecessors)
        generation = target.queue.generation
        return ProbeResult(await self._probe(target, probes), generation)


def forget(vertex: Vertex) -> None:
    """Forget the result of the probe: the vertex runs, or something may have changed."""
    vertex.probe = vertex.probe._replace(result=None)


def _ended(vertex: Vertex, _: asyncio.Task[ProbeResult]) -> None:
    vertex.probe = vertex.probe._replace(task=None)


def _targets(vertex: Vertex) -> list[Vertex]:
    """Return all targets that a vertex reaches through prereqs, in reverse order of execution.

    A target comes after its prereqs in order of execution, so each target is probed before the targets that need it.
    """
    reached: set[Vertex] = set()
    stack = list(targets_of(vertex.links.requisites, PROBED))
    while stack:
        target = stack.pop()
        if target not in reached:
            reached.add(target)
            stack.extend(() if _kept(target) else targets_of(target.links.requisites, PROBED))
    return sorted(reached, key=lambda target: -target.position)


def _kept(target: Vertex) -> ProbeResult | None:
    """Return the earlier result for a target if it is still valid."""
    return target.probe.result if target.queue.dirty else None


def _stale(target: Vertex, result: ProbeResult) -> bool:
    """Return whether the target was marked during the probe. A result that the target would change stays valid."""
    return (
        result is not target.probe.result
        and result.outcome.result is not None
        and result.generation != target.queue.generation
    )
