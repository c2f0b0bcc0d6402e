"""Compares the counts of the engine with a count of all vertices."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from holdfast.agent.engine.deliver.deliveries import incoming
from holdfast.agent.engine.inspect.status import View, state_of
from holdfast.agent.engine.model.states import QUIET


def miscounted(view: View, *, settled: bool) -> Iterator[str]:
    """Yield differences between the vertices and the census or the list of pending deliveries.

    `settled` is False during a swap and while removed vertices still run; their changes are delivered later.
    """
    now, census = asyncio.get_running_loop().time(), view.census
    groups = dict(census.counts)
    for vertex in view.graph:
        state, group = state_of(vertex, view, now), vertex.counted
        if group is None:
            if not vertex.queue.removed:
                yield f"{vertex.identity} is not counted"
            continue
        groups[group] = groups.get(group, 0) - 1
        if (group.state, group.dirty, group.watched) != (
            state,
            vertex.queue.dirty,
            vertex.watching.watcher is not None and vertex.watching.armed,
        ):
            yield f"{vertex.identity} is {state}, and counted as {group}"
        if state not in QUIET and vertex not in census.listed(state):
            yield f"{vertex.identity} is {state}, and not listed"
    wrong = {group: number for group, number in groups.items() if number}
    if wrong:
        yield f"the census is wrong by {wrong}"
    if not settled:
        return
    undelivered = {
        vertex: number
        for vertex in view.graph
        if not vertex.queue.removed
        and (number := sum(view.deliveries.behind(edge) > 0 for edge, _ in incoming(vertex)))
    }
    if dict(view.deliveries.undelivered()) != undelivered:
        yield f"undelivered to {[vertex.identity for vertex in undelivered]}, and known only of others"
