"""How long records are kept: age, size, and what the removal of old ones leaves alone."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest

from holdfast.agent import disk_room
from holdfast.agent.engine.model.events import PassEnded, PassRecord, PassStarted
from holdfast.agent.northbound.drivers.base import DbTransaction, Put
from holdfast.agent.northbound.errors import NorthboundError
from holdfast.agent.records import recorder, retention
from holdfast.agent.records.models import UNCACHED, Change, Note, Pass, ResourceChange
from holdfast.agent.records.retention import DAY, Retention
from holdfast.agent.settings import RecordSettings
from holdfast_process import DEADLINE
from record_desk import Desk, failure, outcome


@pytest.fixture(autouse=True)
def _in_quick_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PAUSE", 0.0)
    monkeypatch.setattr(retention, "STEP", 20)


def limits(desk: Desk, **values: float) -> Retention:
    """Return a retention with these settings; sizes below those that agent.yaml may name are possible."""
    return Retention(desk.records, lambda: RecordSettings.model_construct(**{"days": 90.0, "size": 256, **values}))


async def written_at(desk: Desk, monkeypatch: pytest.MonkeyPatch, days_ago: float, count: int = 50) -> None:
    """Write a pass with so many changes, a failure and a note, as of an earlier day."""
    with monkeypatch.context() as patch:
        then = time.time() - days_ago * DAY
        patch.setattr(recorder, "time", SimpleNamespace(time=lambda: then))
        desk.recorder = desk.new_recorder()
        desk.recorder.note("pause", (), f"{days_ago:g} days ago", None)
        changes = [outcome(f"file.managed[{number} of {days_ago:g} days ago]") for number in range(count)]
        ended = PassEnded(PassRecord(1, "drift", then))
        await desk.written(PassStarted(1, "drift"), *changes, failure(comment=f"since {days_ago:g} days"), ended)


async def test_records_are_removed_when_they_are_too_old(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes, changes with the rows of their resources, and notes; younger ones and statuses stay."""
    for days in (100, 91, 89):
        await written_at(desk, monkeypatch, days)
    assert await limits(desk).apply() == 2 * 53
    api = await desk.records.api()

    assert [each.text for each in await api.page(Note)] == ["89 days ago"]
    assert len(await api.page(Pass)) == 1
    assert len(await api.page(Change)) == len(await api.page(ResourceChange)) == 51
    assert len((await desk.records.driver.read(["resources"])).rows) == 1
    assert await limits(desk).apply() == 0


async def test_the_oldest_records_make_room(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as needed are removed, oldest first, even if all are young."""
    for days in (3, 2, 1):
        await written_at(desk, monkeypatch, days, 400)
    used = await desk.records.driver.used()
    removed = await limits(desk, size=used * 0.8 / retention.MIB).apply()
    api = await desk.records.api()

    assert 20 <= removed < 1200
    assert await desk.records.driver.used() <= used * 0.8
    kept = {model: await api.page(model, limit=10_000) for model in UNCACHED}
    assert sum(len(kept[model]) for model in (Pass, Change, Note)) == 3 * 403 - removed
    assert len(kept[Change]) == len(kept[ResourceChange])
    assert kept[Change][-1].resource == "file.managed[x]"
    assert kept[Change][-2].resource == "file.managed[399 of 1 days ago]"


async def test_on_a_small_file_system_the_records_take_a_quarter(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit applies even if the settings allow more."""
    assert desk.records.most == disk_room.share(desk.records.path.parent)
    for days in (2, 1):
        await written_at(desk, monkeypatch, days, 400)
    desk.records.most = int(await desk.records.driver.used() * 0.8)

    assert await limits(desk).apply()
    assert await desk.records.driver.used() <= desk.records.most


async def test_a_limit_that_nothing_can_meet_ends_with_no_records(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The removal ends when no record is left."""
    await written_at(desk, monkeypatch, 1)
    await limits(desk, size=0).apply()

    assert (await desk.records.driver.read([model.table for model in UNCACHED])).rows == []


async def test_a_record_that_cannot_be_read_is_removed_too(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The position in the order of IDs shows the age of the record."""
    await written_at(desk, monkeypatch, 100, 1)
    rows = await desk.records.driver.scan("changes")
    broken = [each._replace(data=data) for each, data in zip(rows, (b"\xff", b"[]"), strict=True)]
    puts = [Put(each.table, each.id, each.data) for each in broken]
    await desk.records.driver.commit(DbTransaction(puts))
    await limits(desk).apply()

    assert await desk.records.driver.scan("changes") == []


async def running(
    limit: Retention, monkeypatch: pytest.MonkeyPatch
) -> tuple[asyncio.Task[None], asyncio.Queue[object]]:
    """Return the task of a retention without rests, and what its rounds end with."""
    monkeypatch.setattr(retention, "REST", 0.0)
    monkeypatch.setattr(retention, "STRETCH_TIME", 0.0)
    rounds: asyncio.Queue[object] = asyncio.Queue()
    look = limit.look

    async def told() -> int:
        try:
            removed = await look()
        except NorthboundError as error:
            await rounds.put(str(error))
            raise
        await rounds.put(removed)
        return removed

    monkeypatch.setattr(limit, "look", told)
    return asyncio.create_task(limit.run()), rounds


async def test_the_agent_removes_records_after_writes(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task checks again only after a write."""
    task, rounds = await running(limits(desk), monkeypatch)
    assert await rounds.get() == 0
    await written_at(desk, monkeypatch, 100)
    assert await rounds.get() == 53
    assert await desk.records.driver.scan("changes") == []
    assert rounds.empty()
    task.cancel()
    await asyncio.wait([task])


async def test_a_database_that_cannot_be_written_does_not_end_the_task(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next round tries again."""
    await written_at(desk, monkeypatch, 100)
    with monkeypatch.context() as patch:

        async def refuse(*_: object) -> int:
            raise NorthboundError("the disk is full")

        patch.setattr(desk.records.driver, "commit", refuse)
        task, rounds = await running(limits(desk), monkeypatch)
        assert await rounds.get() == "the disk is full"
    desk.records.grown.set()
    assert await rounds.get() == 53
    task.cancel()
    await asyncio.wait([task])


async def test_a_clock_that_is_ahead_for_a_while_costs_a_stretch_of_history(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not all of it: at most one day of records is removed in an hour of real time, whatever the system time says."""
    for days in (40, 39.5, 30, 20, 10):
        await written_at(desk, monkeypatch, days, 10)
    clock, real = time.time() + 300 * DAY, 0.0
    monkeypatch.setattr(retention, "time", SimpleNamespace(time=lambda: clock))
    monkeypatch.setattr(retention, "boottime", lambda: real)
    limit = limits(desk)
    assert await limit.look() == 0

    removed = []
    for _ in range(3):
        real += retention.STRETCH_TIME
        removed += [await limit.look(), await limit.look()]
    assert removed == [2 * 13, 0, 13, 0, 13, 0]
    clock -= 300 * DAY
    real += retention.STRETCH_TIME
    assert await limit.look() == 0
    assert len(await desk.records.driver.scan("passes")) == 1


async def test_an_agent_that_never_runs_long_bounds_the_size_at_its_start(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first check does not wait for the interval."""
    await written_at(desk, monkeypatch, 1, 400)
    most = await desk.records.driver.used() * 0.8
    desk.records.most = int(most)
    looked = asyncio.Event()
    limit = limits(desk)
    look = limit.look

    async def told() -> int:
        removed = await look()
        looked.set()
        return removed

    monkeypatch.setattr(limit, "look", told)
    task = asyncio.create_task(limit.run())
    await asyncio.wait_for(looked.wait(), DEADLINE)
    task.cancel()
    await asyncio.wait([task])
    assert await desk.records.driver.used() <= most
