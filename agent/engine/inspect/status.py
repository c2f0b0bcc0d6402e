"""The rows of `holdfast status`, ready for JSON, and the state of one resource."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from holdfast.agent.engine.deliver.deliveries import Deliveries
from holdfast.agent.engine.execute.reversals import ONCE
from holdfast.agent.engine.inspect.census import Census, word
from holdfast.agent.engine.model.graph import Graph
from holdfast.agent.engine.model.pause import Paused
from holdfast.agent.engine.model.states import State
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.engine.policy import Policy
from holdfast.agent.engine.schedule import limits
from holdfast.agent.engine.schedule.passes import Passes
from holdfast.agent.engine.schedule.scheduler import Scheduler
from holdfast.resources.secrets import MASK


class View(NamedTuple):
    """The parts of an engine that status and explanations read."""

    graph: Graph
    scheduler: Scheduler
    deliveries: Deliveries
    passes: Passes
    failing: set[Vertex]
    differing: set[Vertex]
    unwatched: Mapping[Vertex, str]
    census: Census
    policy: Policy
    recheck: asyncio.TimerHandle | None

    @property
    def present(self) -> Iterator[Vertex]:
        """Vertices in order of execution, without reversals that are done."""
        return (vertex for vertex in self.graph if not gone(vertex))


def gone(vertex: Vertex) -> bool:
    """Return whether the vertex is a reversal that is done."""
    return vertex.queue.removed and vertex.call.meta is ONCE


def state_of(vertex: Vertex, view: View, now: float) -> State:
    """Return the state of a vertex; `now` is loop time."""
    flapping = bool(vertex.rate.flapping) and limits.flaps(vertex, view.policy.options, now)
    return word(vertex, unwatched=vertex in view.unwatched, paused=view.policy.known_paused(vertex), flapping=flapping)


def describe(vertex: Vertex, view: View) -> dict[str, Any]:
    """Return the row of one resource.

    `next` is the number of seconds until a timer or a recheck runs the resource again without an event; None: no timer.
    """
    now, options = asyncio.get_running_loop().time(), view.policy.options
    times = [timer.when() for timer in (vertex.timer, view.recheck if vertex.failed else None) if timer is not None]
    outcome, change, low = vertex.last.outcome, vertex.last.change, vertex.call.low
    file, line, _ = vertex.call.location if vertex.failed else ("", 0, 0)
    return {
        "identity": vertex.identity,
        "kind": vertex.call.kind,
        "id": low["__id__"],
        "name": MASK if vertex.call.meta.no_log else low["name"],
        "sls": low["__sls__"],
        "state": state_of(vertex, view, now),
        "result": outcome.result if outcome else None,
        "reason": outcome.reason if outcome else "",
        **_comment(vertex, view),
        "dirty": vertex.queue.dirty,
        "running": vertex.queue.running,
        "waiting": vertex.timer is not None,
        "failed": vertex.failed,
        "file": file,
        "line": line,
        "flapping": limits.flaps(vertex, options, now),
        "next": round(max(0.0, min(times) - now), 1) if times else None,
        "last_change": change
        and {
            "at": change.started,
            "comment": change.comment(vertex.identity),
            "cause": change.cause,
            "public": change.public,
            "by": change.by and change.by.fields(),
            "ended": change.ended,
        },
        "pending_refresh": view.deliveries.pending(vertex),
        "paused": paused(each) if (each := view.policy.pause_of(vertex)) else None,
    }


def paused(pause: Paused) -> dict[str, Any]:
    """Return a pause, ready for JSON; `text` is for people."""
    return {**pause._asdict(), "text": pause.said}


def rows(look: Callable[[], View], most: int | None = None) -> Iterator[dict[str, Any]]:
    """Return the rows of all resources in order of execution.

    If there are more than `most` resources, return at most `most` rows: the most urgent ones that need attention.
    `look` returns the current view. Rows may be taken slowly: a resource that leaves the graph meanwhile is skipped.
    """
    view = look()
    if most is None or len(view.graph) <= most:
        chosen = list(view.graph)
    else:
        chosen = sorted(islice(view.census.urgent(), most), key=lambda vertex: vertex.position)
    for known in chosen:
        view = look()
        vertex = view.graph.by_identity.get(known.identity)
        if vertex is not None and not gone(vertex):
            yield describe(vertex, view)


def _comment(vertex: Vertex, view: View) -> dict[str, Any]:
    """Return how the last attempt ended, or why the vertex is not watched or is left alone.

    `public` says whether every user could read that.
    """
    if vertex in view.unwatched and not vertex.failed:
        return {"comment": f"cannot watch: {view.unwatched[vertex]}", "public": False}
    if vertex.run.obstacle:
        return {"comment": f"left alone for now: {vertex.run.obstacle.text}", "public": False}
    if vertex.run.retry_wait:
        return {"comment": vertex.run.retry_wait.comment, "public": False}
    last = vertex.last.outcome
    return {"comment": last.said, "public": last.public} if last else {"comment": "not checked yet", "public": True}
