"""Measures the cost of the engine itself, with resources that do nothing, in graphs of 100 to 100 000 resources.

Each resource has a watch of its own. A tenth of the resources have no requisites; the others form chains of nine.
`event_us` is the time of one event: the watch reports it, a check finds the resource as declared, the pass ends.
`chain_us` is the same at the end of one chain that contains all resources. Neither should depend on the size of the
graph. Prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

from harness import median, process_figures

from holdfast import Context, Resource, Watch
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.events import Event, PassEnded, Ran
from holdfast.agent.engine.model.options import EngineOptions
from holdfast.resources.assignment import UNASSIGNED
from holdfast.resources.meta import Meta
from holdfast.resources.report import Report
from holdfast.states.data import Call, Compilation
from holdfast.states.parse.marks import Document, Spot

SIZES = (100, 1000, 10_000, 100_000)
CHAIN, EVENTS, REPEAT = 10, 300, 5


class Thing(Resource, kind="zbench.thing"):
    """A resource that is always as declared; its watch reports each event that the benchmark sets."""

    events: ClassVar[dict[str, asyncio.Event]] = {}

    async def check_apply(self, ctx: Context, apply: bool) -> bool:  # noqa: ARG002 - the signature of the contract
        """Report that the resource is as declared."""
        return True

    async def watch(self, ctx: Context) -> Watch:  # noqa: ARG002 - the signature of the contract
        """Report each event."""
        event = self.events[self.name] = asyncio.Event()
        yield None
        while True:
            await event.wait()
            event.clear()
            yield None


class MinimalContext:
    """The part of a context that the engine needs."""

    __slots__ = ("assignment", "identity", "report")

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.assignment, self.report = UNASSIGNED, Report()

    async def blocking(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function without a thread."""
        return call(*arguments)

    def keeping(self, *, private: bool) -> AbstractContextManager[None]:  # noqa: ARG002 - the signature of the context
        """Keep nothing: no file is changed."""
        return nullcontext()

    def redacted(self, value: Any) -> Any:
        """Return a value without its secrets; there are none."""
        return value


class MinimalHost:
    """The part of a host that the engine needs."""

    def context(self, identity: str) -> Any:
        """Return a context."""
        return MinimalContext(identity)


def calls(size: int, *, chain: int) -> Iterator[Call]:
    """Yield `size` calls in chains of `chain`; the first call of each chain has no requisites."""
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
    """An engine, with an event for the end of each pass."""

    def __init__(self) -> None:
        self.engine = Engine(MinimalHost(), EngineOptions(recheck=0), Journal(), self._hear)
        self.pass_ended = asyncio.Event()

    def _hear(self, event: Event) -> None:
        if isinstance(event, PassEnded):
            self.pass_ended.set()
        elif isinstance(event, Ran) and event.outcome.result is False:
            raise SystemExit(f"a run failed, so its time says nothing: {event.outcome.comment}")

    async def converge(self, graph: list[Call]) -> float:
        """Return the seconds of the first pass."""
        began = time.perf_counter()
        await self.engine.swap(Compilation(tuple(graph)), "start")
        await self.engine.settle()
        return time.perf_counter() - began

    async def report_events(self, names: list[str]) -> float:
        """Return the median seconds from an event to the end of the pass that it starts."""
        taken = []
        for name in names:
            self.pass_ended.clear()
            began = time.perf_counter()
            Thing.events[name].set()
            await self.pass_ended.wait()
            taken.append(time.perf_counter() - began)
        return median(taken)


async def measure(size: int) -> dict[str, float]:
    """Return all figures for one size."""
    graph = list(calls(size, chain=CHAIN))
    gc.collect()
    before = process_figures()["rss_mib"]
    bench = Bench()
    first = await bench.converge(graph)
    gc.collect()
    memory = process_figures()["rss_mib"] - before
    event = min([await bench.report_events([f"t{i * size // EVENTS}" for i in range(EVENTS)]) for _ in range(REPEAT)])
    again = []
    for _ in range(REPEAT):
        same = list(calls(size, chain=CHAIN))
        began = time.perf_counter()
        await bench.engine.swap(Compilation(tuple(same)))
        again.append(time.perf_counter() - began)
    await bench.engine.stop(1)
    bench = Bench()
    await bench.converge(list(calls(size, chain=size)))
    chain = min([await bench.report_events([f"t{size - 1}"] * EVENTS) for _ in range(REPEAT)])
    await bench.engine.stop(1)
    return {
        "first_us": 1e6 * first / size,
        "event_us": 1e6 * event,
        "chain_us": 1e6 * chain,
        "equal_swap_ms": 1e3 * median(again),
        "memory_kib": 1024 * memory / size,
    }


def main() -> None:
    """Measure and print. Arguments replace the default sizes."""
    sizes = tuple(map(int, sys.argv[1:])) or SIZES
    found = {size: asyncio.run(measure(size)) for size in sizes}
    row = {f"{key}_{size}": round(value, 2) for size, figures in found.items() for key, value in figures.items()}
    for key in ("first_us", "event_us", "chain_us"):
        row[f"{key}_growth"] = round(found[sizes[-1]][key] / found[sizes[0]][key], 2)
    print(json.dumps(row))


if __name__ == "__main__":
    main()
