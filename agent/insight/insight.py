"""Listens to the engine, keeps a bounded record, and answers operators' questions about the running agent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from holdfast.agent.control.schema import ControlError
from holdfast.agent.engine.inspect.explain import explain, requisites
from holdfast.agent.engine.inspect.status import View, state_of
from holdfast.agent.engine.model.events import Event, Notice, PassEnded, PassStarted, Ran, Started
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.insight import process
from holdfast.agent.insight.frames import frame
from holdfast.agent.insight.metrics import RunCounters, kind_of
from holdfast.agent.insight.search import matching
from holdfast.agent.insight.traces import Traces, chrome
from holdfast.agent.records.recent import Recent
from holdfast.states.requisite_kinds import PROBED

EXPLAINED = 20
"""Most resources of one name that an answer explains."""


async def _nothing(identity: str) -> list[dict[str, Any]]:  # noqa: ARG001 - the form of `history`
    """Return no changes, for an agent without records."""
    return []


class Insight:
    """The record of one agent.

    `status` returns the agent's own state (health, paused, converged) for monitoring, `deprecated_calls` the number of
    deprecated calls by module and function, `more` the text of further metrics. `recent` has the last changes of all
    resources, `history` returns those of one resource, newest first.
    """

    def __init__(
        self,
        status: Callable[[], dict[str, Any]],
        clock: Callable[[], float] = time.monotonic,
        *,
        deprecated_calls: Callable[[], Mapping[tuple[str, str], int]] = dict,
        more: Callable[[], str] = str,
        recent: Recent | None = None,
        history: Callable[[str], Awaitable[list[dict[str, Any]]]] = _nothing,
    ) -> None:
        self._recent, self._history = recent or Recent(), history
        self.traces = Traces(clock)
        self.metrics = RunCounters(deprecated_calls)
        self._more = more
        self._status = status
        self._clock = clock
        self._running: dict[str, tuple[float, float]] = {}
        """Running resource -> time at which it started by our clock, and how long it had waited."""

    def tell(self, event: Event) -> None:
        """Record an event of the engine."""
        match event:
            case Started(identity, waited):
                self._running[identity] = (self._clock(), waited)
            case Ran(_, outcome):
                self._ran(outcome)
            case PassStarted():
                self.traces.begin(event)
            case PassEnded(record):
                self._running.clear()
                self.traces.end(record)
                self.metrics.ended(record)
            case Notice(code="flapping"):
                self.metrics.flaps[kind_of(event.identity)] += 1

    def _ran(self, outcome: Outcome) -> None:
        now = self._clock()
        begun, waited = self._running.pop(outcome.identity, (now - outcome.duration, 0.0))
        self.traces.add(outcome, begun, waited, now)
        self.metrics.tell(outcome, now - begun + waited)

    def text(self, view: View) -> str:
        """Return all metrics except those of the process."""
        return self.metrics.text(view, self._status()) + self._more()

    @staticmethod
    def graph(view: View) -> dict[str, Any]:
        """Return iterators over the resources of the running graph with their state, and the requisites between them.

        Rows may be taken slowly: a resource that leaves the graph meanwhile is skipped.
        """
        now = asyncio.get_running_loop().time()
        vertices = [*view.present]

        def present() -> Iterator[Vertex]:
            return (each for each in vertices if view.graph.by_identity.get(each.identity) is each)

        nodes = (
            {
                "identity": each.identity,
                "kind": each.call.kind,
                "sls": each.call.low["__sls__"],
                "state": state_of(each, view, now),
            }
            for each in present()
        )
        edges = (
            {"from": vertex.identity, "to": target.identity, "kind": kind}
            if kind in PROBED
            else {"from": target.identity, "to": vertex.identity, "kind": kind}
            for vertex in present()
            for kind, target in requisites(vertex)
        )
        return {"nodes": nodes, "edges": edges}

    def full_text(self, view: View) -> str:
        """Return all metrics."""
        return self.text(view) + process.text()

    def frame(self, view: View) -> dict[str, Any]:
        """Return the present state, for the live view."""
        return {**self._status(), **frame(view, self._recent, self.traces, self._running_for)}

    def _running_for(self, identity: str) -> float | None:
        known = self._running.get(identity)
        return None if known is None else self._clock() - known[0]

    async def why(self, identity: str, view: View) -> dict[str, Any]:
        """Return the explanation of the named resource.

        If several match, `matches` has the first ones and `more` counts the rest. Raises `ControlError` if none does.
        """
        found = await matching(identity, view, "explain")
        if len(found) == 1:
            return await self._explained(found[0], view)
        return {
            "matches": [await self._explained(each, view) for each in found[:EXPLAINED]],
            "more": max(0, len(found) - EXPLAINED),
        }

    async def _explained(self, vertex: Vertex, view: View) -> dict[str, Any]:
        history = await self._history(vertex.identity)
        running_for = self._running_for(vertex.identity) if vertex.queue.running else None
        return {**explain(vertex, view), "running_for": running_for, "history": history}

    def trace(self, number: int | None, view: View) -> dict[str, Any]:
        """Return the pass of this number, or the last one, for a viewer of traces.

        Raises `ControlError` if it is not kept.
        """
        found = self.traces.find(number)
        if found is None:
            kept = ", ".join(map(str, self.traces.numbers))
            what = (
                "there was no pass yet" if number is None else f"pass {number} is not kept; available: {kept or 'none'}"
            )
            raise ControlError(f"cannot show the trace: {what}")
        return chrome(found, view.graph)
