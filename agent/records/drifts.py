"""Drifts, which an operator reviews: each is new, seen or done. Read and marked without the agent, or beside it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from holdfast.agent.northbound.drivers.base import ConditionFailed, DbTransaction, Expect, Put, TableRow
from holdfast.agent.northbound.drivers.sqlite import SqliteDriver
from holdfast.agent.phrases import first_of
from holdfast.agent.records import rows
from holdfast.agent.records.history import Chosen, HistoryRecord, changes
from holdfast.agent.records.ids import LENGTH, TimeIds
from holdfast.agent.records.reading import RecordReader
from holdfast.resources.errors import Permanent

NEW, SEEN, DONE = "new", "seen", "done"
"""The states of a review, in their order."""
ORDER = (NEW, SEEN, DONE)
CREATIONS = ("created", "would create")
"""Words for a change before which nothing existed."""
TRIES = 10
"""Most attempts to mark a drift while others write its record."""


def drifts(
    reader: RecordReader, *, resource: str = "", since: float = 0.0, review: str = ""
) -> Iterator[HistoryRecord]:
    """Yield the drifts of resources that match, newest first; `since`: Unix time. Raises `Unavailable`."""
    for each in changes(reader, Chosen(resource, origin="drift", since=since, review=review)):
        if each.values.get("review") in ORDER:
            yield each


def find(reader: RecordReader, word: str) -> HistoryRecord:
    """Return the change with this ID, or the newest drift of the resource that the word names.

    Raises `Permanent` if there is none, or if the word names several resources; and `Unavailable`.
    """
    row = reader.get("changes", word.lower()) if len(word) == LENGTH and word.isascii() else None
    if row is not None:
        return HistoryRecord(row.table, row.id, _values(row))
    newest: dict[str, HistoryRecord] = {}
    for each in drifts(reader, resource=word):
        newest.setdefault(str(each.values["resource"]), each)
    if not newest:
        raise Permanent(f"there is no drift {word}: `holdfast drift list --all` lists IDs and resources")
    if len(newest) > 1:
        raise Permanent(f"{word} may be {first_of(sorted(newest))}: name one, or the ID of a drift")
    return next(iter(newest.values()))


def mark(path: Path, drift: HistoryRecord, review: str, note: str = "") -> None:
    """Mark a drift as seen or done, never back to an earlier state; `note` is written to the history. Blocks.

    A change that is no drift is not marked. Raises `Unavailable`.
    """
    asyncio.run(_mark(path, drift, review, note))


async def _mark(path: Path, drift: HistoryRecord, review: str, note: str) -> None:
    driver = SqliteDriver(path)
    await driver.open()
    try:
        for _ in range(TRIES):
            row = await driver.get("changes", drift.id)
            values = _values(row) if row else {}
            known = values.get("review", "")
            marked = max(review, known, key=ORDER.index) if known else ""
            if row is None or (marked == known and not note):
                return
            writes = [rows.row("changes", {**values, "review": marked})] if marked != known else []
            if note:
                writes.append(_note(values, note))
            try:
                await driver.commit(DbTransaction(writes, [Expect("changes", drift.id, row.revision)]))
            except ConditionFailed:  # another process has just written the record
                continue
            return
    finally:
        await driver.close()


def _note(values: Mapping[str, Any], text: str) -> Put:
    at = time.time()
    by = {"pid": os.getpid(), "uid": os.getuid(), "name": "holdfast"}
    known = {"id": TimeIds(agent=False).new(at), "host": values["host"], "at": at, "by": by}
    return rows.row("notes", {**known, "what": "drift", "about": (values["resource"],), "text": text})


def _values(row: TableRow) -> dict[str, Any]:
    """Return the fields of a record. Raises `Permanent` for one that cannot be read."""
    values = rows.read(row)
    if not values:
        raise Permanent("the record of this drift cannot be read: see `holdfast db check`")
    return values


def was_absent(values: Mapping[str, Any]) -> bool:
    """Return whether nothing existed before a change. The repair of a drift is always called `repaired`."""
    return values.get("what") in CREATIONS or str(values.get("comment", "")).startswith(CREATIONS)


def overwriting(reader: RecordReader, drift: HistoryRecord) -> HistoryRecord | None:
    """Return the first later change of the resource that has overwritten a file; None if there is none."""
    name, found = drift.values["resource"], None
    for each in changes(reader, Chosen(resource=name, after=drift.id)):
        if each.values.get("resource") == name and each.values.get("replaced"):
            found = each
    return found


def demand_drift(found: HistoryRecord) -> HistoryRecord:
    """Return the record if it is that of a drift; else raise `Permanent`."""
    if found.values.get("review") not in ORDER:
        raise Permanent(
            f"{found.id} is not a drift but a change with the origin {found.values.get('origin')}: `holdfast history` "
            "shows it"
        )
    return found
