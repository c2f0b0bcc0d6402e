"""Measures the cache of the northbound store at 100 000 records with 4 indexes.

Prints one line of JSON with medians: `get_us`, `index_us`, `tuple_us`, microseconds of a read by ID, by an index that
one record matches, and by an index of two paths; `update_us` and `held_update_us`, microseconds to write one record,
without and with a reader that holds an older view; `batch_ms`, milliseconds to write 1 000 records; `record_bytes`,
memory of the cache for each record, without the record itself; `import_ms`, milliseconds to import the store after the
models.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from harness import median

from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.store.base import DbStore, StoreChange, Stored, StoreView
from holdfast.agent.northbound.store.indexed import IndexedStore

RECORDS, BATCH, REPEAT = 100_000, 1_000, 9
OWNERS, KINDS, RESULTS = 1_000, 20, 4
IMPORT = "import time, {first}; began = time.perf_counter(); import {then}; print(time.perf_counter() - began)"


class Measured(Model, table="bench-records"):
    """One index with a record for each value, two with many, and one of two paths."""

    indexes = {"name": "name", "kind": "kind", "result": "result", "place": ("owner", "name")}  # noqa: RUF012
    name: str
    kind: str
    result: str
    owner: str


def record(number: int, turn: int = 0) -> Measured:
    """Return a record; another `turn` changes its value in each index."""
    here = number + turn
    return Measured(
        id=f"record-{number}",
        name=f"name-{number}-{turn}",
        kind=f"kind-{here % KINDS}",
        result=f"result-{here % RESULTS}",
        owner=f"owner-{here % OWNERS}",
    )


class Writer:
    """Writes batches of records, each at the next revision."""

    def __init__(self, store: DbStore) -> None:
        self._store, self._revision = store, 0

    def changes(self, records: list[Measured]) -> list[StoreChange]:
        """Return the batch that writes these records."""
        self._revision += 1
        return [StoreChange(Measured, each.id, Stored(each, self._revision, 1)) for each in records]

    def write(self, changes: list[StoreChange]) -> None:
        """Write a batch."""
        self._store.apply(changes[0].stored.revision, changes)  # type: ignore[union-attr]


def timed(action: Callable[[Any], object], values: list[Any]) -> float:
    """Return the median time of one call in microseconds: of REPEAT rounds through all values."""
    rounds = []
    for _ in range(REPEAT):
        began = time.process_time()
        for value in values:
            action(value)
        rounds.append(1e6 * (time.process_time() - began) / len(values))
    return round(median(rounds), 2)


def each_timed(action: Callable[[Any], object], values: list[Any]) -> float:
    """Return the median time of one call in microseconds."""
    spent = []
    for value in values:
        began = time.process_time()
        action(value)
        spent.append(1e6 * (time.process_time() - began))
    return round(median(spent), 2)


def filled(writer: Writer) -> int:
    """Write all records; return the memory of the store for each of them, without the record."""
    records = [record(number) for number in range(RECORDS)]
    gc.collect()
    tracemalloc.start()
    for start in range(0, RECORDS, BATCH):
        writer.write(writer.changes(records[start : start + BATCH]))
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return used // RECORDS


def reads(view: StoreView, numbers: list[int]) -> dict[str, float]:
    """Return the figures of reads."""
    names = [f"name-{each}-0" for each in numbers]
    pairs = [(f"owner-{each % OWNERS}", f"name-{each}-0") for each in numbers]
    return {
        "get_us": timed(lambda key: view.get(Measured, key), [f"record-{each}" for each in numbers]),
        "index_us": timed(lambda name: view.get_one(Measured, "name", name=name), names),
        "tuple_us": timed(lambda pair: view.get_one(Measured, "place", owner=pair[0], name=pair[1]), pairs),
    }


def measure() -> dict[str, float]:
    """Return all figures."""
    store = IndexedStore()
    writer = Writer(store)
    found: dict[str, float] = {"record_bytes": filled(writer)}
    numbers = [number * 7919 % RECORDS for number in range(BATCH)]
    found |= reads(store.view, numbers)
    found["update_us"] = each_timed(writer.write, [writer.changes([record(each, 1)]) for each in numbers])
    held = store.view
    found["held_update_us"] = each_timed(writer.write, [writer.changes([record(each, 2)]) for each in numbers])
    assert held.revision < store.view.revision
    del held
    batches = [writer.changes([record(each, turn) for each in numbers]) for turn in range(3, 3 + REPEAT)]
    found["batch_ms"] = round(each_timed(writer.write, batches) / 1000, 2)
    return found | {"import_ms": import_ms()}


def import_ms() -> float:
    """Return the milliseconds to import the store when the models are there already."""
    names = {"first": "holdfast.agent.northbound.model", "then": "holdfast.agent.northbound.store.indexed"}
    spent = [
        float(subprocess.run([sys.executable, "-c", IMPORT.format(**names)], stdout=subprocess.PIPE, check=True).stdout)
        for _ in range(REPEAT)
    ]
    return round(1000 * median(spent), 2)


def main() -> None:
    """Measure and print."""
    print(json.dumps(measure()))


if __name__ == "__main__":
    main()
