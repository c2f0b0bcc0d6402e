"""Drifts are marked by other processes than the agent, which may write at the same time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.agent.northbound.drivers.sqlite import SqliteDriver
from holdfast.agent.records import drifts as module
from holdfast.agent.records.drifts import DONE, SEEN, find, mark
from holdfast.agent.records.models import Change, Note
from holdfast.agent.records.reading import RecordReader
from holdfast.resources.errors import Permanent
from record_desk import FILE, Desk, outcome


async def marked(desk: Desk, review: str, note: str = "") -> Change:
    """Mark the only drift from another process's point of view; return its record."""

    def work() -> None:
        with RecordReader(desk.records.path) as reader:
            found = find(reader, FILE)
        mark(desk.records.path, found, review, note)

    await asyncio.to_thread(work)
    (change,) = await (await desk.records.api()).page(Change)
    return change


async def test_a_mark_never_goes_back(desk: Desk) -> None:
    """A done drift stays done, and all other fields stay as they were."""
    (before,) = await desk.changes(outcome(diff="-a\n+b\n"))
    assert (await marked(desk, SEEN)).review == "seen"
    done = await marked(desk, DONE, "it stands")
    assert done.model_dump() == {**before.model_dump(), "review": "done"}
    assert (await marked(desk, SEEN)).review == "done"
    (note,) = await (await desk.records.api()).page(Note)
    assert (note.what, note.about, note.text) == ("drift", (FILE,), "it stands")


async def test_two_marks_at_once_are_both_made(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second writer reads the record again. In either order, the greater mark wins."""
    (before,) = await desk.changes(outcome())
    get, first = SqliteDriver.get, [True]

    async def interrupted(self: SqliteDriver, table: str, id: str) -> object:
        row = await get(self, table, id)
        if first and table == "changes":
            first.clear()
            await asyncio.to_thread(mark, desk.records.path, found, DONE)
        return row

    with RecordReader(desk.records.path) as reader:
        found = find(reader, before.id)
    monkeypatch.setattr(module.SqliteDriver, "get", interrupted)
    await asyncio.to_thread(mark, desk.records.path, found, SEEN)

    monkeypatch.undo()
    (after,) = await (await desk.records.api()).page(Change)
    assert after.review == "done"


async def test_a_change_that_is_no_drift_is_not_marked(desk: Desk) -> None:
    """Its content can still be restored."""
    (before,) = await desk.changes(outcome(cause="command"))
    with RecordReader(desk.records.path) as reader:
        found = find(reader, before.id)
    await asyncio.to_thread(mark, desk.records.path, found, SEEN)
    (after,) = await (await desk.records.api()).page(Change)
    assert after.review == ""


async def test_a_record_that_was_removed_meanwhile_is_not_marked(desk: Desk, tmp_path: Path) -> None:
    """An unreadable record is not found either."""
    (before,) = await desk.changes(outcome())
    with RecordReader(desk.records.path) as reader:
        found = find(reader, before.id)
        api = await desk.records.api()
        await api.delete(before)
        await asyncio.to_thread(mark, desk.records.path, found, DONE)
        assert await api.page(Change) == []
        with pytest.raises(Permanent, match="there is no drift"):
            find(reader, before.id)
