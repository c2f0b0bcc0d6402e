"""Transactions, watches and leases of every driver."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from deadline import DEADLINE
from holdfast.agent.northbound.drivers.base import (
    ConditionFailed,
    DbTransaction,
    Delete,
    Driver,
    Expect,
    LeaseEnded,
    Put,
    RowChange,
    Snapshot,
    TableRow,
    Unchanged,
    WatchBatch,
)
from holdfast.agent.northbound.errors import Compacted, Invalid
from northbound_databases import TestedDatabase


async def write(driver: Driver, *writes: Put | Delete, conditions: Sequence[Expect | Unchanged] = ()) -> int:
    """Commit a transaction."""
    return await driver.commit(DbTransaction(writes, conditions))


async def put(driver: Driver, key: str, data: bytes = b"", *, table: str = "t", lease: int = 0) -> int:
    """Write one row."""
    return await write(driver, Put(table, key, data, lease))


async def content(driver: Driver, *tables: str) -> dict[tuple[str, str], bytes]:
    """Return all data, or that of some tables."""
    return {(row.table, row.id): row.data for row in (await driver.read(tables or None)).rows}


class Watcher:
    """Collects the batches of a watch."""

    def __init__(self, watch: AsyncIterator[WatchBatch]) -> None:
        self.batches: list[WatchBatch] = []
        self._got = asyncio.Event()
        self.task = asyncio.create_task(self._collect(watch))

    async def _collect(self, watch: AsyncIterator[WatchBatch]) -> None:
        try:
            async for batch in watch:
                self.batches.append(batch)
                self._got.set()
        finally:
            self._got.set()

    @property
    def changes(self) -> list[RowChange]:
        """All changes."""
        return [change for batch in self.batches for change in batch.changes]

    @property
    def told(self) -> list[tuple[str, bytes | None]]:
        """ID and data of all changes."""
        return [(change.id, change.row.data if change.row else None) for change in self.changes]

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait for something that the batches show."""
        async with asyncio.timeout(DEADLINE):
            while not holds():
                if self.task.done():
                    self.task.result()
                    raise AssertionError("the watch has ended")
                self._got.clear()
                await self._got.wait()

    async def reached(self, revision: int) -> None:
        """Wait until the watch has told everything up to a revision."""
        await self.until(lambda: self.batches and self.batches[-1].revision >= revision)


@asynccontextmanager
async def watching(driver: Driver, after: int, tables: Sequence[str] | None = None) -> AsyncIterator[Watcher]:
    """Watch during a block, from the moment at which the watch is armed."""
    watcher = Watcher(driver.watch(after, tables))
    await watcher.until(lambda: watcher.batches)
    try:
        yield watcher
    finally:
        watcher.task.cancel()
        await asyncio.wait([watcher.task])


async def read_on(watch: AsyncIterator[WatchBatch]) -> None:
    """Read a watch to its end."""
    async for _ in watch:
        pass


async def until(holds: Callable[[], Awaitable[object]]) -> None:
    """Wait for something that no watch shows."""
    async with asyncio.timeout(DEADLINE):
        while not await holds():
            await asyncio.sleep(0.01)


# -- transactions ----------------------------------------------------------------------------------------------


async def test_a_row_has_the_revisions_of_its_first_and_last_write(driver: Driver) -> None:
    """The first write after a deletion counts as the first."""
    first = await put(driver, "a", b"one")
    other = await put(driver, "b")
    second = await put(driver, "a", b"two")
    assert first < other < second
    assert await driver.get("t", "a") == TableRow("t", "a", b"two", second, first)
    await write(driver, Delete("t", "a"))
    assert await driver.get("t", "a") is None
    third = await put(driver, "a", b"")
    assert await driver.get("t", "a") == TableRow("t", "a", b"", third, third)


async def test_all_writes_of_a_transaction_have_one_revision(driver: Driver) -> None:
    """The revision is the one that `commit` returns, and that of the database."""
    await put(driver, "gone")
    revision = await write(driver, Put("t", "a", b"1"), Put("u", "a", b"2"), Delete("t", "gone"))
    snapshot = await driver.read()
    assert snapshot.revision == revision
    assert sorted(snapshot.rows) == [
        TableRow("t", "a", b"1", revision, revision),
        TableRow("u", "a", b"2", revision, revision),
    ]


async def test_reading_no_table_tells_the_revision(driver: Driver) -> None:
    """A watch of everything from now on begins at this revision."""
    revision = await driver.commit(DbTransaction([Put("hosts", "a", b"1")]))

    assert await driver.read([]) == Snapshot(revision, [])


async def test_reading_some_tables_leaves_the_others_out(driver: Driver) -> None:
    """A table whose name begins another table's name is a different table."""
    await write(driver, Put("t", "a", b"1"), Put("tt", "a", b"2"), Put("u", "a", b"3"))
    assert await content(driver, "t", "u") == {("t", "a"): b"1", ("u", "a"): b"3"}
    assert await content(driver, "none") == {}


async def test_a_scan_returns_a_page_of_a_table(driver: Driver) -> None:
    """The page has the order of the bytes of the IDs, from either end, between two IDs."""
    keys = ["A", "a", "a/b", "aa", "b", "ü", "☃", "𝄞"]
    await write(driver, *(Put("t", key, b"") for key in reversed(keys)), Put("tt", "b", b""), Put("s", "b", b""))

    async def ids(**page: Any) -> list[str]:
        return [row.id for row in await driver.scan("t", **page)]

    assert await ids() == keys
    assert await ids(newest=True) == keys[::-1]
    assert await ids(after="a", limit=2) == ["a/b", "aa"]
    assert await ids(before="b", newest=True, limit=2) == ["aa", "a/b"]
    assert await ids(after="A", before="aa") == ["a", "a/b"]
    assert await ids(after="☃") == ["𝄞"]
    assert list(await driver.scan("none")) == []


@pytest.mark.parametrize("id", ["", "a/b", "ü ☃", "a'b\"c", "%2f", "x" * 200], ids=str)
async def test_ids_are_any_text(driver: Driver, id: str) -> None:
    """IDs may be any text, and data any bytes."""
    await put(driver, id, b"\0\xff")
    row = await driver.get("t", id)
    assert row is not None
    assert (row.id, row.data) == (id, b"\0\xff")
    assert await content(driver) == {("t", id): b"\0\xff"}


async def test_a_transaction_that_changes_nothing_has_no_revision_of_its_own(driver: Driver) -> None:
    """Such a transaction writes nothing, or only deletes missing rows."""
    revision = await put(driver, "a")
    assert await write(driver) == revision
    assert await write(driver, Delete("t", "b")) == revision


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (lambda first, last: Expect("t", "a", last), True),
        (lambda first, last: Expect("t", "a", first), False),
        (lambda first, last: Expect("t", "a", last + 1), False),
        (lambda first, last: Expect("t", "a", -1), True),
        (lambda first, last: Expect("t", "a", 0), False),
        (lambda first, last: Expect("t", "b", 0), True),
        (lambda first, last: Expect("t", "b", -1), False),
        (lambda first, last: Expect("t", "b", last), False),
        (lambda first, last: Unchanged("t", last), True),
        (lambda first, last: Unchanged("t", last + 1), True),
        (lambda first, last: Unchanged("t", last - 1), False),
        (lambda first, last: Unchanged("u", first), True),
        (lambda first, last: Unchanged("never", 0), True),
    ],
)
@pytest.mark.parametrize("compacted", [False, True])
async def test_conditions(
    driver: Driver, condition: Callable[[int, int], Expect | Unchanged], holds: bool, compacted: bool
) -> None:
    """A transaction is made if all hold, otherwise not; the error names the condition and the present revision."""
    first = await write(driver, Put("t", "a", b""), Put("u", "x", b""))
    last = await put(driver, "a")
    await write(driver, Delete("u", "x"))  # deleted rows do not count
    if compacted:
        await driver.compact((await driver.read()).revision)
    wanted = condition(first, last)
    present = {("t", "a"): last}.get((wanted.table, wanted.id), 0) if isinstance(wanted, Expect) else last
    if holds:
        await write(driver, Put("new", "n", b""), conditions=[wanted])
    else:
        with pytest.raises(ConditionFailed) as raised:
            await write(driver, Put("new", "n", b""), conditions=[wanted])
        assert (raised.value.condition, raised.value.current) == (wanted, present)
    assert ("new", "n") in await content(driver) or not holds
    assert ("new", "n") not in await content(driver) or holds


async def test_a_transaction_is_made_whole_or_not_at_all(driver: Driver) -> None:
    """If one of several conditions does not hold, nothing is written, and no watch reports anything."""
    revision = await put(driver, "a")
    async with watching(driver, revision) as watcher:
        with pytest.raises(ConditionFailed) as raised:
            await write(
                driver,
                Put("t", "b", b""),
                Delete("t", "a"),
                conditions=[Expect("t", "b", 0), Expect("t", "a", 0), Expect("t", "c", -1)],
            )
        assert raised.value.condition == Expect("t", "a", 0)
        assert await content(driver) == {("t", "a"): b""}
        await watcher.reached(await put(driver, "end"))
        assert watcher.told == [("end", b"")]


async def test_a_row_that_is_written_twice_is_refused(driver: Driver) -> None:
    """Its second write would have no revision of its own."""
    with pytest.raises(Invalid, match="the transaction writes t 'a' twice"):
        await write(driver, Put("t", "a", b""), Put("t", "b", b""), Delete("t", "a"))
    assert await content(driver) == {}


async def test_limits_are_checked_before_anything_is_sent(driver: Driver) -> None:
    """The limits are for the number of operations and for bytes; the error has both."""
    most = driver.limits
    with pytest.raises(Invalid, match=f"has {most.operations + 1} operations with 0 bytes; the database takes"):
        await write(driver, *(Delete("t", str(number)) for number in range(most.operations + 1)))
    with pytest.raises(Invalid, match=f"has 1 operations with {most.bytes + 1} bytes"):
        await put(driver, "a", bytes(most.bytes + 1))
    assert await content(driver) == {}


async def test_what_is_no_text_is_refused(driver: Driver) -> None:
    """A file name may have bytes that are not text. Other writes are not affected."""
    good, bad = await asyncio.gather(put(driver, "a"), put(driver, "\udcff"), return_exceptions=True)
    assert isinstance(good, int)
    assert isinstance(bad, Invalid)


async def test_counters_of_many_writers_lose_nothing(database: TestedDatabase) -> None:
    """Each writer reads, adds one, and writes on the condition that no other has; the writers use two drivers."""
    drivers = [await database.driver(), await database.driver()]
    seen: list[int] = []

    async def count(driver: Driver, key: str) -> None:
        while True:
            row = await driver.get("t", key)
            value, revision = (int(row.data), row.revision) if row else (0, 0)
            try:
                seen.append(
                    await write(driver, Put("t", key, b"%d" % (value + 1)), conditions=[Expect("t", key, revision)])
                )
            except ConditionFailed:
                continue
            return

    await asyncio.gather(*(count(drivers[number % 2], f"k{number % 3}") for number in range(48)))
    assert await content(drivers[0]) == {("t", f"k{number}"): b"16" for number in range(3)}
    assert len(set(seen)) == 48, "each write has a revision of its own"


# -- watches ---------------------------------------------------------------------------------------------------


async def test_a_watch_says_that_it_is_armed_and_then_tells_each_change_once(driver: Driver) -> None:
    """Changes are reported in order, from the revision after the given one."""
    await put(driver, "before")
    after = await put(driver, "a", b"0")
    await put(driver, "a", b"1")
    async with watching(driver, after) as watcher:
        await write(driver, Delete("t", "a"))
        end = await put(driver, "b", b"2")
        await watcher.reached(end)
        assert watcher.told == [("a", b"1"), ("a", None), ("b", b"2")]
        assert watcher.changes[-1].row == TableRow("t", "b", b"2", end, end)
        assert [batch.revision for batch in watcher.batches] == sorted({batch.revision for batch in watcher.batches})


async def test_the_first_batch_comes_without_a_change(driver: Driver) -> None:
    """By the first batch, a caller knows that the watch is armed."""
    after = await put(driver, "a")
    async with watching(driver, after) as watcher:
        assert [(batch.revision, *batch.changes) for batch in watcher.batches] == [(after,)]


async def test_a_transaction_is_not_divided(driver: Driver) -> None:
    """Transactions with many writes are reported in one batch, from the history and while they happen."""
    size = min(driver.limits.operations, 1500)
    before = await put(driver, "a")
    first = await write(driver, *(Put("t", str(number), b"") for number in range(size)))
    async with watching(driver, before) as watcher:
        second = await write(driver, *(Put("t", str(number), b"") for number in range(size)))
        await watcher.reached(second)
        for batch in watcher.batches:
            assert len(batch.changes) % size == 0
        assert [change.row.revision for change in watcher.changes if change.row] == [first] * size + [second] * size


async def test_a_watch_resumes_after_any_revision(driver: Driver) -> None:
    """It reports exactly the later changes, from a distant and from a recent revision."""
    revisions = [await put(driver, str(number)) for number in range(40)]
    for position in (0, 1, 20, 38, 39):
        async with watching(driver, revisions[position]) as watcher:
            await watcher.reached(revisions[-1])
            assert [key for key, _ in watcher.told] == [str(number) for number in range(position + 1, 40)]


async def test_a_watch_of_some_tables_leaves_the_others_out(driver: Driver) -> None:
    """Its revision also includes the other tables."""
    after = (await driver.read()).revision
    async with watching(driver, after, ["t"]) as watcher:
        await put(driver, "a")
        await write(driver, Put("u", "b", b""), Put("t", "c", b""), Put("tt", "d", b""))
        await watcher.until(lambda: len(watcher.told) == 2)
        assert [key for key, _ in watcher.told] == ["a", "c"]


async def test_a_watch_of_forgotten_changes_is_refused(driver: Driver) -> None:
    """The change at the revision of the compaction is still known, and all rows are."""
    early, middle, late = await put(driver, "a"), await put(driver, "b"), await put(driver, "c")
    await driver.compact(late)
    await driver.compact(middle)  # nothing is remembered again
    with pytest.raises(Compacted, match=f"the changes since revision {early} are no longer kept") as raised:
        async with asyncio.timeout(DEADLINE), watching(driver, early) as watcher:
            await watcher.task
    assert (raised.value.after, raised.value.kept) == (early, late - 1)
    async with watching(driver, raised.value.kept) as watcher:
        await watcher.reached(await put(driver, "d"))
        assert [key for key, _ in watcher.told] == ["c", "d"]
    assert len(await content(driver)) == 4


async def test_a_watch_from_a_revision_of_another_database_is_refused(database: TestedDatabase) -> None:
    """The database was recreated, so its changes would seem older than known ones."""
    driver = await database.driver()
    revision = await put(driver, "a")
    with pytest.raises(Compacted):
        await asyncio.wait_for(read_on(driver.watch(revision + 1_000_000)), DEADLINE)


async def test_close_ends_all_watches(driver: Driver) -> None:
    """Watches that wait, and watches in the middle of a batch, end."""
    after = await put(driver, "a")
    await put(driver, "b")
    in_the_middle = aiter(driver.watch(after))
    await anext(in_the_middle)
    async with watching(driver, after) as one, watching(driver, after) as other:
        await one.until(lambda: one.told)
        await driver.close()
        async with asyncio.timeout(DEADLINE):
            await asyncio.gather(one.task, other.task)
            assert [batch async for batch in in_the_middle if batch.revision > after + 1] == []


async def test_many_watches_see_the_same(driver: Driver) -> None:
    """Watches that start later see the same."""
    after = await put(driver, "begin")
    watchers = []
    for number in range(20):
        await put(driver, str(number))
        watchers.append(Watcher(driver.watch(after)))
    end = await put(driver, "end")
    for watcher in watchers:
        await watcher.reached(end)
        assert [key for key, _ in watcher.told] == [*map(str, range(20)), "end"]
        watcher.task.cancel()
    await asyncio.wait([watcher.task for watcher in watchers])


async def test_a_watch_that_is_not_read_holds_up_nothing(driver: Driver) -> None:
    """Later, the watch continues where it was."""
    after = await put(driver, "begin")
    slow = aiter(driver.watch(after))
    await anext(slow)
    async with watching(driver, after) as fast:
        for number in range(50):
            await put(driver, str(number), bytes(1000))
        await fast.until(lambda: len(fast.told) == 50)
    seen: list[str] = []
    async with asyncio.timeout(DEADLINE):
        while len(seen) < 50:
            seen += [change.id for change in (await anext(slow)).changes]
    assert seen == [*map(str, range(50))]


async def test_a_watch_sees_the_commits_of_other_processes(database: TestedDatabase) -> None:
    """The commits are in the order of their revisions, among those of its own process."""
    drivers = [await database.driver(), await database.driver()]
    after = (await drivers[0].read()).revision
    async with watching(drivers[0], after) as one, watching(drivers[1], after) as other:
        for number in range(20):
            end = await put(drivers[number % 2], str(number))
        await one.reached(end)
        await other.reached(end)
        assert [key for key, _ in one.told] == [key for key, _ in other.told] == [*map(str, range(20))]


@pytest.mark.parametrize("seed", range(3))
async def test_the_changes_of_a_watch_lead_to_the_content(database: TestedDatabase, seed: int) -> None:
    """Random transactions from two drivers at once, some with conditions that fail."""
    drivers = [await database.driver(), await database.driver()]
    after = (await drivers[0].read()).revision
    choice = random.Random(seed)

    async def work(driver: Driver) -> None:
        for _ in range(20):
            keys = choice.sample("abcdefgh", choice.randint(1, 4))
            writes = [
                Put(choice.choice("tu"), key, b"%d" % choice.randint(0, 99))
                if choice.random() < 0.7
                else Delete("t", key)
                for key in keys
            ]
            condition = Expect("t", choice.choice("abcdefgh"), choice.choice((0, -1)))
            try:
                await write(driver, *writes, conditions=[condition] if choice.random() < 0.5 else [])
            except ConditionFailed:
                continue

    async with watching(drivers[0], after) as one, watching(drivers[1], after, ["t"]) as other:
        await asyncio.gather(*(work(drivers[number % 2]) for number in range(4)))
        end = await put(drivers[0], "end")
        for watcher, tables in ((one, ()), (other, ("t",))):
            await watcher.reached(end)
            replayed: dict[tuple[str, str], TableRow] = {}
            for change in watcher.changes:
                replayed.pop((change.table, change.id), None)
                if change.row:
                    replayed[change.table, change.id] = change.row
            assert sorted(replayed.values()) == sorted((await drivers[1].read(tables or None)).rows)


# -- leases ----------------------------------------------------------------------------------------------------


async def test_the_rows_of_a_lease_disappear_when_it_ends(database: TestedDatabase) -> None:
    """Watches report this; other rows stay."""
    driver = await database.driver()
    lease = await driver.grant(database.ttl)
    after = await put(driver, "stays")
    async with watching(driver, after) as watcher:
        await write(driver, Put("t", "a", b"", lease), Put("u", "b", b"", lease))
        await watcher.until(lambda: len(watcher.told) == 4)
        assert sorted(watcher.told[2:]) == [("a", None), ("b", None)]
    assert await content(driver) == {("t", "stays"): b""}
    with pytest.raises(LeaseEnded):
        await driver.keep_alive(lease)
    with pytest.raises(LeaseEnded):
        await put(driver, "late", lease=lease)
    await driver.revoke(lease)
    assert await content(driver) == {("t", "stays"): b""}


async def test_a_lease_that_is_kept_alive_goes_on(database: TestedDatabase) -> None:
    """It lasts for several times its length. Another one that is not kept alive ends meanwhile."""
    driver = await database.driver()
    kept = await driver.grant(database.ttl)
    after = await put(driver, "kept", lease=kept)
    async with watching(driver, after) as watcher:
        for _ in range(3):
            left = await driver.grant(database.ttl)
            await put(driver, "left", lease=left)
            begun = len(watcher.told)
            while ("left", None) not in watcher.told[begun:]:
                await driver.keep_alive(kept)
                await asyncio.sleep(database.ttl / 10)
        assert ("kept", None) not in watcher.told
        await watcher.until(lambda: ("kept", None) in watcher.told)


async def test_revoke_ends_a_lease_at_once(driver: Driver) -> None:
    """A lease that has ended is not an error; other leases continue."""
    lease, other = await driver.grant(60), await driver.grant(60)
    assert lease != other
    await put(driver, "a", lease=lease)
    await put(driver, "b", lease=other)
    await driver.revoke(lease)
    await driver.revoke(lease)
    assert await content(driver) == {("t", "b"): b""}
    await driver.keep_alive(other)


async def test_a_row_that_is_written_anew_leaves_its_lease(driver: Driver) -> None:
    """The row may be written without a lease, or with another one."""
    lease, other = await driver.grant(60), await driver.grant(60)
    for key in "abc":
        await put(driver, key, lease=lease)
    await put(driver, "b")
    await put(driver, "c", lease=other)
    await driver.revoke(lease)
    assert await content(driver) == {("t", "b"): b"", ("t", "c"): b""}
    await driver.revoke(other)
    assert await content(driver) == {("t", "b"): b""}


async def test_a_transaction_can_require_a_lease(driver: Driver) -> None:
    """The transaction writes nothing if the lease has ended or never existed."""
    lease = await driver.grant(60)
    await driver.commit(DbTransaction([Put("t", "a", b"")], require_lease=lease))
    await driver.revoke(lease)
    for ended in (lease, 12345):
        with pytest.raises(LeaseEnded):
            await driver.commit(DbTransaction([Put("t", "b", b"")], require_lease=ended))
    assert await content(driver) == {("t", "a"): b""}


async def test_other_processes_know_a_lease(database: TestedDatabase) -> None:
    """They can write with the lease, and notice its end."""
    granting, other = await database.driver(), await database.driver()
    lease = await granting.grant(60)
    await put(other, "a", lease=lease)
    await other.keep_alive(lease)
    await granting.revoke(lease)
    assert await content(other) == {}
    with pytest.raises(LeaseEnded):
        await put(other, "a", lease=lease)


async def test_a_lease_ends_after_the_process_that_granted_it(database: TestedDatabase) -> None:
    """Another one removes its rows."""
    granting, other = await database.driver(), await database.driver()
    lease = await granting.grant(database.ttl)
    await put(granting, "a", lease=lease)
    await granting.close()

    async def gone() -> bool:
        return await content(other) == {}

    await until(gone)


async def test_a_closed_driver_can_be_opened_again(database: TestedDatabase) -> None:
    """The content of the database is the same. Other drivers are not affected."""
    driver, other = await database.driver(), await database.driver()
    revision = await put(driver, "a", b"x")
    await driver.close()
    await put(other, "b", b"y")
    await driver.open()
    assert await content(driver) == {("t", "a"): b"x", ("t", "b"): b"y"}
    async with watching(driver, revision) as watcher:
        await watcher.until(lambda: watcher.told == [("b", b"y")])
