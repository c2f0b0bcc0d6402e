"""Measures the cache of the northbound store: reads, writes and memory at 100 000 records with four indexes.

Prints one line of JSON: medians in microseconds, bytes a record.
"""

from __future__ import annotations

import gc
import json
import statistics
import time
import tracemalloc
from collections.abc import Callable

from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.store.base import StoreChange, Stored
from holdfast.agent.northbound.store.indexed import IndexedStore

COUNT, BATCH = 100_000, 1000


class Row(Model, table="bench-rows"):
    """A record of four fields, each with an index, and two of them together."""

    indexes = {"host": "host", "kind": "kind", "name": "name", "both": ("host", "result")}
    host: str
    kind: str
    name: str
    result: str


def row(number: int, result: str = "ok") -> Row:
    """Return a record; each host has a hundred of them, each name one."""
    return Row(id=f"r{number}", host=f"h{number // 100}", kind=f"k{number % 50}", name=f"n{number}", result=result)


def microseconds(work: Callable[[int], object], count: int = 2000) -> float:
    """Return the median of single calls."""
    times = []
    for number in range(count):
        began = time.perf_counter()
        work(number * 7919 % COUNT)
        times.append(time.perf_counter() - began)
    return round(statistics.median(times) * 1e6, 2)


def main() -> None:
    """Measure and print."""
    rows = [row(number) for number in range(COUNT)]
    gc.collect()
    tracemalloc.start()
    store = IndexedStore()
    store.apply(1, [StoreChange(Row, each.id, Stored(each, 1, 1)) for each in rows])
    gc.collect()
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    figures = {
        "get_us": microseconds(lambda number: store.view.get(Row, f"r{number}")),
        "by_index_us": microseconds(lambda number: store.view.get_one(Row, "name", name=f"n{number}")),
        "by_tuple_us": microseconds(lambda number: store.view.keys(Row, "both", host=f"h{number // 100}", result="no")),
        "bytes_above_record": round(memory / COUNT),
    }
    revision = 1

    def update(numbers: range) -> None:
        nonlocal revision
        revision += 1
        held = store.view
        store.apply(revision, [StoreChange(Row, f"r{n}", Stored(row(n, f"r{revision}"), revision, 1)) for n in numbers])
        assert held.revision == revision - 1

    figures["update_us"] = microseconds(lambda number: update(range(number, number + 1)))
    figures["batch_ms"] = microseconds(lambda number: update(range(number % 1000, number % 1000 + BATCH)), 20) / 1000
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
