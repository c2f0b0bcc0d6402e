"""What the engine itself costs, on resources that cost nothing: graphs of 100 to 100 000. Prints one line of JSON.

Each resource has a watch of its own. A tenth of the resources have no requisites, the others form chains of nine.
`event_us` is the time for one event: from the report of the watch, through the check that finds no change, to the end
of the pass. `chain_us` is the same for the last resource of a graph that is one chain. Neither may depend on the size
of the graph.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Iterator
from typing import Any, ClassVar

from harness import median, process_figures

from holdfast import Context, Resource, Watch
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.events import Event, PassEnded
from holdfast.agent.engine.model.options import EngineOptions
from holdfast.resources.context import Report
from holdfast.resources.meta import Meta
from holdfast.states.data import Call, Compilation
from holdfast.states.parse.marks import Document, Spot

SIZES = (100, 1000, 10_000, 100_000)
CHAIN, EVENTS, REPEAT = 10, 300, 5


class Thing(Resource, kind="zbench.thing"):
    """Always right; its watch speaks when it is told to."""

    bells: ClassVar[dict[str, asyncio.Event]] = {}

    async def check_apply(self, ctx: Context, apply: bool) -> bool:  # noqa: ARG002 - the contract's
        """Right."""
        return True

    async def watch(self, ctx: Context) -> Watch:  # noqa: ARG002 - the contract's
        """Tell of each ring."""
        bell = self.bells[self.name] = asyncio.Event()
        yield None
        while True:
            await bell.wait()
            bell.clear()
            yield None


class Place0:
    """The least of a context."""

    __slots__ = ("identity", "report")

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.report = Report()


class Nowhere:
    """The least of a host."""

    def context(self, identity: str) -> Any:
        """A context."""
        return Place0(identity)


def calls(size: int, *, chain: int) -> Iterator[Call]:
    """So many, in chains of so many; the first of each chain requires nothing."""
    meta, spot = Meta(), Spot(Document("bench.sls", ""))
    for i in range(size):
        low = {
            "state": "zbench",
            "fun": "thing",
            "name": f"t{i}",
            "__id__": f"t{i}",
            "__sls__": "bench",
            "__env__": "base",
            "order": i,
        }
        requisites = {"require": (i - 1,)} if i % chain > 1 or (chain > CHAIN and i) else {}
        yield Call(i, f"zbench.thing[t{i}]", low, spot, Thing(name=f"t{i}"), meta, requisites)


class Bench:
    """An engine, and when its last pass ended."""

    def __init__(self) -> None:
        self.engine = Engine(Nowhere(), EngineOptions(recheck=0), Journal(), self._hear)
        self.over = asyncio.Event()

    def _hear(self, event: Event) -> None:
        if isinstance(event, PassEnded):
            self.over.set()

    async def converge(self, graph: list[Call]) -> float:
        """Seconds of the first pass."""
        began = time.perf_counter()
        await self.engine.swap(Compilation(tuple(graph)), "start")
        await self.engine.settle()
        return time.perf_counter() - began

    async def ring(self, names: list[str]) -> float:
        """Median seconds from an event to the end of the pass that it starts."""
        taken = []
        for name in names:
            self.over.clear()
            began = time.perf_counter()
            Thing.bells[name].set()
            await self.over.wait()
            taken.append(time.perf_counter() - began)
        return median(taken)


async def measure(size: int) -> dict[str, float]:
    """All figures of one size."""
    graph = list(calls(size, chain=CHAIN))
    gc.collect()
    before = process_figures()["rss_mib"]
    bench = Bench()
    first = await bench.converge(graph)
    gc.collect()
    memory = process_figures()["rss_mib"] - before
    event = min([await bench.ring([f"t{i * size // EVENTS}" for i in range(EVENTS)]) for _ in range(REPEAT)])
    again = []
    for _ in range(REPEAT):
        same = list(calls(size, chain=CHAIN))
        began = time.perf_counter()
        await bench.engine.swap(Compilation(tuple(same)))
        again.append(time.perf_counter() - began)
    await bench.engine.stop(1)
    bench = Bench()
    await bench.converge(list(calls(size, chain=size)))
    chain = min([await bench.ring([f"t{size - 1}"] * EVENTS) for _ in range(REPEAT)])
    await bench.engine.stop(1)
    return {
        "first_us": 1e6 * first / size,
        "event_us": 1e6 * event,
        "chain_us": 1e6 * chain,
        "equal_swap_ms": 1e3 * median(again),
        "memory_kib": 1024 * memory / size,
    }


def main() -> None:
    """Measure and print; sizes may be given as arguments."""
    sizes = tuple(map(int, sys.argv[1:])) or SIZES
    found = {size: asyncio.run(measure(size)) for size in sizes}
    row = {f"{key}_{size}": round(value, 2) for size, figures in found.items() for key, value in figures.items()}
    for key in ("first_us", "event_us", "chain_us"):
        row[f"{key}_growth"] = round(found[sizes[-1]][key] / found[sizes[0]][key], 2)
    print(json.dumps(row))


if __name__ == "__main__":
    main()
