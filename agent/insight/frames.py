"""Frames of the live view (`holdfast watch`): the present state, bounded in size for any graph."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from holdfast.agent.engine.inspect.status import View, gone, state_of
from holdfast.agent.engine.model.states import State
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.insight.traces import Traces
from holdfast.agent.records.recent import Recent

ROWS = 200
"""Most resources in one frame; in a larger graph those with current or recent activity."""
REPAIRS = 20
COMMENT = 400
"""Most characters of the comment of a resource."""
COUNTED: tuple[State, ...] = ("running", "waiting", "unwatched", "drifted", "would", "flapping", "failed", "blocked")
"""States that have a count of their own. Each resource counts once, in the state that its row shows."""


def frame(view: View, recent: Recent, traces: Traces, running_for: Callable[[str], float | None]) -> dict[str, Any]:
    """Return the present state, ready for JSON; times are in seconds."""
    now = asyncio.get_running_loop().time()
    chosen = _chosen(view, recent)
    return {
        "counts": {"resources": len(view.graph), **_counts(view)},
        "pass": _pass(traces),
        "rows": [_row(vertex, view, now, running_for) for vertex in chosen],
        "recent": [
            {
                "identity": identity,
                "at": each.at,
                "what": what,
                "cause": each.cause,
                "duration": each.duration,
                "times": each.times,
            }
            for (identity, what), each in list(recent.changes.items())[-REPAIRS:]
        ],
    }


def _counts(view: View) -> dict[str, int]:
    """Return the number of resources in each of the states in `COUNTED`."""
    states = view.census.states()
    return {word: states[word] for word in COUNTED}


def _chosen(view: View, recent: Recent) -> list[Vertex]:
    """Return the resources of a frame, in order of execution."""
    if len(view.graph) <= ROWS:
        return list(view.present)
    chosen: dict[Vertex, None] = {}
    for vertex in _in_turn(view, recent):
        chosen[vertex] = None
        if len(chosen) == ROWS:
            break
    return sorted(chosen, key=_position)


def _in_turn(view: View, recent: Recent) -> Iterator[Vertex]:
    """Yield the resources by urgency, the most urgent first."""
    yield from view.census.urgent()
    found = (view.graph.by_identity.get(identity) for identity, _ in recent.changes)
    yield from (vertex for vertex in found if vertex and not gone(vertex))
    yield from view.present


def _position(vertex: Vertex) -> int:
    return vertex.position


def _row(vertex: Vertex, view: View, now: float, running_for: Callable[[str], float | None]) -> dict[str, Any]:
    row: dict[str, Any] = {"identity": vertex.identity, "state": state_of(vertex, view, now)}
    if vertex.queue.running:
        row["for"] = running_for(vertex.identity)
    elif vertex.last.outcome and (vertex.failed or vertex.last.outcome.result is None):
        comment = vertex.last.outcome.comment
        row["comment"] = comment if len(comment) <= COMMENT else f"{comment[:COMMENT]}…"
        row["public"] = vertex.last.outcome.public
    return row


def _pass(traces: Traces) -> dict[str, Any] | None:
    """Return the running pass, or the last one."""
    last = traces.current or traces.find()
    if last is None:
        return None
    row: dict[str, Any] = {
        "number": last.number,
        "cause": last.cause,
        "at": last.started,
        "running": last.duration is None,
    }
    return (
        {**row, "text": last.said}
        if last.said
        else {**row, "for": round(traces.lasts(last), 2), "done": len(last.runs) + last.dropped}
    )
