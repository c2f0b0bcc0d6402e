"""Measures the costs of automatic edges: 10 000 files in 1 000 directories, each with a user.

Prints one line of JSON: `graph_s`, seconds to find the edges and to build the graph; `again_ms`, milliseconds to find
the edges again when one of the files has changed.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path

from harness import median

from holdfast.agent.engine.model.autoedges import AutoEdges
from holdfast.agent.engine.model.connect import connect
from holdfast.agent.engine.model.vertex import Vertex
from holdfast.agent.host.host import LocalHost
from holdfast.resources import registry
from holdfast.resources.meta import Meta
from holdfast.states.data import Call
from holdfast.states.gc_pause import gc_paused
from holdfast.states.parse.marks import Document, Spot

DIRECTORIES, EACH, REPEAT = 1000, 9, 7


def declared() -> list[Call]:
    """Return the calls, in order of execution."""
    calls: list[Call] = []

    def add(kind: str, name: str) -> None:
        cls = registry.find(kind)
        assert cls is not None
        resource = cls.declare(name, user="app", group="app")
        low = {"state": "file", "fun": kind.partition(".")[2], "name": name, "__id__": name, "__sls__": "bench"}
        calls.append(Call(len(calls), f"{kind}[{name}]", low, Spot(Document("bench.sls", "")), resource, Meta(), {}))

    for number in range(DIRECTORIES):
        directory = f"/srv/app/data/d{number:04}"
        add("file.directory", directory)
        for index in range(EACH):
            add("file.managed", f"{directory}/deep/er/f{index}")
    return calls


async def measure(calls: list[Call]) -> dict[str, float]:
    """Return all figures."""
    host = LocalHost(states=Path("/nonexistent"), var_dir=Path("/nonexistent"))
    first, again = [], []
    for _ in range(REPEAT):
        with gc_paused():
            began = time.perf_counter()
            finder = AutoEdges(host.context, lambda _: None)
            edges = await finder.find(calls)
            graph = connect([Vertex(call, host.context(call.identity)) for call in calls], edges)
            first.append(time.perf_counter() - began)
        assert len(graph) == DIRECTORIES * (EACH + 1)
        assert len(edges) == DIRECTORIES * EACH
        changed = [*calls]
        changed[len(calls) // 2] = replace(calls[len(calls) // 2])
        began = time.perf_counter()
        await finder.find(changed)
        again.append(time.perf_counter() - began)
    return {"graph_s": round(median(first), 3), "again_ms": round(1000 * median(again), 2)}


def main() -> None:
    """Measure and print."""
    print(json.dumps(asyncio.run(measure(declared()))))


if __name__ == "__main__":
    main()
