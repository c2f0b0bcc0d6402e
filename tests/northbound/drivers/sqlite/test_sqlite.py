"""Features of the SQLite database alone: transactions in groups, other processes, and a bounded history."""

from __future__ import annotations

import _sqlite3
import asyncio
import ctypes
import os
import socket
import sqlite3
import stat
import threading
import time
from contextlib import chdir, closing
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast.agent.northbound.drivers import sqlite, sqlite_groups, sqlite_tables
from holdfast.agent.northbound.drivers.base import (
    ConditionFailed,
    DbTransaction,
    Delete,
    Expect,
    LeaseEnded,
    Put,
    TableRow,
    Unchanged,
)
from holdfast.agent.northbound.drivers.sqlite import SqliteDriver
from holdfast.agent.northbound.drivers.sqlite_tables import Bounds
from holdfast.agent.northbound.errors import Compacted, Unavailable
from sqlite_rows import keys, put, until

# -- memory ----------------------------------------------------------------------------------------------------


def sqlite_memory() -> int:
    """Return the number of bytes that SQLite has allocated in this process."""
    used = ctypes.CDLL(_sqlite3.__file__).sqlite3_memory_used  # a symbol of the library that the module is linked to
    used.restype = ctypes.c_int64
    return int(used())


async def test_memory_for_faster_access_can_be_freed(opened, path):
    """Afterwards the file is used as before. Before it is opened and after it is closed, there is nothing to free."""
    driver = SqliteDriver(path)
    await driver.shrink()
    driver = await opened(path)
    for number in range(50):
        await put(driver, str(number), bytes(5000))
    before = sqlite_memory()

    await driver.shrink()

    assert sqlite_memory() < before - 50_000
    await put(driver, "later", b"x")
    assert len(await keys(driver)) == 51
    await driver.close()
    await driver.shrink()


# -- tables of which watches are not told ---------------------------------------------------------------------


async def test_an_unwatched_table_is_written_and_read_as_others(opened, path):
    """Its writes increase the revision, and conditions see them, also after the file is opened again."""
    driver = await opened(path, unwatched=("quiet",))
    began = await put(driver, "a")
    first = await driver.commit(DbTransaction([Put("quiet", "q", b"1")]))
    await driver.close()
    driver = await opened(path, unwatched=("quiet",))

    assert first == began + 1 == (await driver.read()).revision
    assert await driver.get("quiet", "q") == TableRow("quiet", "q", b"1", first, first)
    for late in (Expect("quiet", "q", began), Unchanged("quiet", began)):
        with pytest.raises(ConditionFailed):
            await driver.commit(DbTransaction([Delete("quiet", "q")], [late]))
    await driver.commit(DbTransaction([Delete("quiet", "q")], [Unchanged("quiet", first)]))
    assert await driver.get("quiet", "q") is None


@pytest.mark.parametrize("from_file", [False, True], ids=["from memory", "from the file"])
async def test_a_watch_is_told_of_all_other_writes(opened, path, from_file):
    """Of a transaction that writes both, the watch gets the other writes.

    Its revision also includes the unwatched ones.
    """
    driver = await opened(path, unwatched=("quiet",))
    watch = driver.watch(0)
    if not from_file:
        await anext(watch)
    await driver.commit(DbTransaction([Put("quiet", "q", b"1"), Put("t", "a", b"2")]))
    await driver.commit(DbTransaction([Put("quiet", "q", b"3")]))
    await put(driver, "b")

    found = []
    async with asyncio.timeout(DEADLINE):
        while (batch := await anext(watch)).revision < 3:
            found.append(batch)
    changes = [(each.table, each.id) for seen in (*found, batch) for each in seen.changes]
    assert changes == [("t", "a"), ("t", "b")]


# -- groups, threads, files ------------------------------------------------------------------------------------


async def test_transactions_that_wait_together_share_a_flush(opened, path, monkeypatch):
    """Each has a revision of its own, and conditions see the transactions before it in the group."""
    driver = await opened(path)
    groups = []
    write = driver._file.write
    monkeypatch.setattr(driver._file, "write", lambda calls: groups.append(len(calls)) or write(calls))
    revisions = await asyncio.gather(*(put(driver, str(number)) for number in range(100)))
    assert groups == [100]
    assert len(set(revisions)) == 100
    create = DbTransaction([Put("t", "new", b"")], [Expect("t", "new", 0)])
    both = await asyncio.gather(driver.commit(create), driver.commit(create), return_exceptions=True)
    assert [type(each).__name__ for each in both] == ["int", "ConditionFailed"]


async def test_a_group_is_as_its_transactions_one_after_the_other(opened, path):
    """The same row is written, deleted and written again; conditions, leases and compaction see what came before."""
    driver = await opened(path)
    first = await put(driver, "a", b"0")
    lease = await driver.grant(60)
    await asyncio.gather(
        put(driver, "a", b"1"),
        driver.commit(DbTransaction([Delete("t", "a")], [Expect("t", "a", first + 1)])),
        driver.commit(DbTransaction([Put("t", "a", b"2")], [Expect("t", "a", 0)])),
        put(driver, "b", b"", lease),
        driver.revoke(lease),
        driver.commit(DbTransaction([Put("u", "c", b"")], [Unchanged("t", first + 4)])),
        driver.compact(first + 2),
    )
    rows = [TableRow("t", "a", b"2", first + 3, first + 3), TableRow("u", "c", b"", first + 6, first + 6)]
    assert await driver.read() == (first + 6, rows)
    watch = aiter(driver.watch(first + 1))
    await anext(watch)
    with pytest.raises(Compacted):
        await anext(aiter(driver.watch(first)))


async def test_any_number_of_rows_is_known_when_they_are_written_together(opened, path):
    """More than one statement looks up: each row keeps its first revision, and conditions on it hold."""
    driver = await opened(path)
    ids = [f"{number:04}" for number in range(2 * sqlite_tables.ASKED + 1)]
    first = await driver.commit(DbTransaction([Put("t", key, b"1") for key in ids]))
    expected = [Expect("t", key, first) for key in ids]
    second = await driver.commit(DbTransaction([Put("t", key, b"2") for key in ids], expected))
    assert {(row.created, row.revision) for row in (await driver.read()).rows} == {(first, second)}
    with pytest.raises(ConditionFailed):
        await driver.commit(DbTransaction([Put("t", key, b"3") for key in ids], expected))


async def test_a_call_with_a_bug_does_not_fail_the_others(opened, path):
    """The other calls are made in the next group."""
    driver = await opened(path)
    bug = driver._writer.run(lambda _writing: 1 // 0)
    good, bad = await asyncio.gather(put(driver, "a"), bug, return_exceptions=True)
    assert isinstance(good, int)
    assert isinstance(bad, ZeroDivisionError)


async def test_only_the_owner_can_read_the_files(opened, path):
    """All of them have mode 0600."""
    driver = await opened(path)
    await put(driver, "a")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes.keys() >= {"northbound.db", "northbound.db-wal", "northbound.db-shm", "northbound.db.lock"}
    assert set(modes.values()) == {0o600}


async def test_an_idle_driver_has_no_thread(opened, path, monkeypatch):
    """The thread ends when there are no calls, and the next call starts another one."""
    from holdfast.agent.northbound import call_thread

    monkeypatch.setattr(call_thread, "LINGER", 0.01)
    driver = await opened(path)
    await put(driver, "a")
    await until(lambda: not any(thread.name == "northbound" for thread in threading.enumerate()))
    assert await keys(driver) == ["a"]


async def test_a_disk_that_does_not_answer(opened, path, monkeypatch):
    """A write fails after a limited time, with an unknown result. Later writes succeed."""
    driver = await opened(path)
    answers, write = threading.Event(), driver._file.write

    def hangs(calls):
        answers.wait(DEADLINE)
        return write(calls)

    monkeypatch.setattr(driver._file, "write", hangs)
    writing = asyncio.create_task(put(driver, "a"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting = asyncio.create_task(put(driver, "b"))
    for task, unsure in ((writing, True), (waiting, False)):
        with pytest.raises(Unavailable, match=r"the disk has not answered for 0\.5 s") as raised:
            await task
        assert raised.value.unsure is unsure
    assert driver.trouble == "the disk has not answered for 0.5 s"
    answers.set()
    await put(driver, "c")
    assert await keys(driver) == ["a", "c"]
    assert driver.trouble == ""


# -- other processes -------------------------------------------------------------------------------------------


async def test_two_agents_on_one_database_are_refused(opened, path):
    """The error names the other one. Other processes may use the database meanwhile."""
    first = await opened(path)
    with pytest.raises(Unavailable, match=rf"belongs to a running agent \(pid {os.getpid()}\): stop that agent"):
        await opened(path)
    beside = await opened(path, agent=False)
    await put(beside, "a")
    assert await keys(first) == ["a"]
    await beside.close()
    await put(first, "b")
    assert first.renewed == ""
    await first.close()
    assert await keys(await opened(path)) == ["a", "b"]


async def test_a_program_that_reads_all_files_does_not_wait(path: Path) -> None:
    """Opening the file by which the agent is woken fails at once. The agent removes the file at its end."""
    driver = SqliteDriver(path, agent=True)
    await driver.open()
    bell = path.with_name("northbound.db.bell")
    assert stat.S_IMODE(bell.stat().st_mode) == 0o600
    with pytest.raises(OSError, match="No such device"):
        bell.read_bytes()
    await driver.close()

    assert not bell.exists()


async def test_an_agent_is_woken_whose_directory_has_a_long_name(opened, tmp_path, monkeypatch):
    """The address of a socket has at most 107 bytes. What an agent that was killed has left is replaced."""
    monkeypatch.setattr(sqlite, "AGENT_POLL", 1000)
    path = tmp_path / ("long" * 50) / "northbound.db"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left, chdir(path.parent):
        left.bind("northbound.db.bell")
    agent, beside = await opened(path), await opened(path, agent=False)
    watch = aiter(agent.watch(0))
    await anext(watch)
    await put(beside, "a")
    async with asyncio.timeout(DEADLINE):
        assert [change.id for change in (await anext(watch)).changes] == ["a"]


async def test_other_processes_wake_the_agent(opened, path, monkeypatch):
    """The agent need not poll. A missing socket, or another file in its place, is ignored."""
    monkeypatch.setattr(sqlite, "AGENT_POLL", 1000)
    agent, beside = await opened(path), await opened(path, agent=False)
    watch = aiter(agent.watch(0))
    await anext(watch)
    async with asyncio.timeout(DEADLINE):
        for key in "abc":
            await put(beside, key)
            assert [change.id for change in (await anext(watch)).changes] == [key]
    bell = path.with_name("northbound.db.bell")
    bell.unlink()
    await put(beside, "d")
    bell.write_text("kept")
    await put(beside, "e")
    assert bell.read_text() == "kept"
    assert await keys(agent) == ["a", "b", "c", "d", "e"]


async def test_a_process_whose_agent_ends_goes_on(opened, path):
    """The agent empties the log at its end, which does not count as damage."""
    agent, beside = await opened(path), await opened(path, agent=False)
    await put(agent, "a")
    await agent.close()
    await put(beside, "b")
    assert await keys(beside) == ["a", "b"]
    assert beside.renewed == ""
    assert await keys(await opened(path)) == ["a", "b"]


async def test_the_rows_of_a_process_that_died_disappear_with_its_lease(opened, path, monkeypatch):
    """Another process ends a lease that is shorter than its own."""
    agent, beside = await opened(path), await opened(path, agent=False)
    await agent.grant(60)
    lease = await beside.grant(0.1)
    revision = await put(beside, "a", lease=lease)
    watch = aiter(agent.watch(revision))
    await anext(watch)
    await beside.close()
    async with asyncio.timeout(DEADLINE):
        assert [(change.id, change.row) for change in (await anext(watch)).changes] == [("a", None)]


async def test_a_lock_of_another_process_delays_writes_only(opened, path):
    """Writes wait for a short lock; after a long one, the error says what to do. Reads succeed."""
    driver = await opened(path)
    await put(driver, "a")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        waiting = asyncio.create_task(put(driver, "b"))
        assert await keys(driver) == ["a"]
        other.execute("rollback")
        await waiting
        other.execute("begin immediate")
        with pytest.raises(Unavailable, match="database is locked: end the program that has locked it") as raised:
            await put(driver, "c")
        assert not raised.value.unsure
        assert await keys(driver) == ["a", "b"]
        assert "locked" in driver.trouble
        other.execute("rollback")
    await until(lambda: driver.trouble == "")
    assert await keys(driver) == ["a", "b"]


async def test_each_write_is_given_up_at_its_own_time(opened, path):
    """One timer serves all writes. A later write has its full time, and then fails, too."""
    driver, loop, later = await opened(path), asyncio.get_running_loop(), asyncio.Event()

    async def waited(key: str) -> float:
        began = loop.time()
        with pytest.raises(Unavailable):
            await put(driver, key)
        return loop.time() - began

    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        loop.call_later(sqlite_groups.TIMEOUT / 2, later.set)
        async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
            first = group.create_task(waited("first"))
            await later.wait()
            second = group.create_task(waited("second"))
        other.execute("rollback")
    assert min(first.result(), second.result()) > sqlite_groups.TIMEOUT * 0.9
    await put(driver, "third")


# -- history, leases and clocks --------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [Bounds(changes=20), Bounds(changes=200, bytes=2000), Bounds(seconds=100)])
async def test_the_history_is_bounded(opened, path, bounds, monkeypatch):
    """The history is bounded by number, bytes and age. Rows stay, and a watch from an earlier revision is refused."""
    driver = await opened(path, bounds=bounds)
    first = await put(driver, "first")
    now = time.time()
    if bounds.seconds < 1000:
        monkeypatch.setattr(sqlite_tables.time, "time", lambda: now + 200)
    for number in range(60):
        await put(driver, f"{number:02}", bytes(100))
    await driver.close()
    await driver.open()
    with pytest.raises(Compacted):
        await anext(aiter(driver.watch(first - 1)))
    last = (await driver.read()).revision
    await anext(aiter(driver.watch(last - 10)))
    assert len(await keys(driver)) == 61


async def test_a_watch_that_is_not_read_takes_no_memory(opened, path, monkeypatch):
    """Batches that do not fit are read from the file later."""
    monkeypatch.setattr(sqlite, "RECENT", 10_000)
    driver = await opened(path)
    slow = aiter(driver.watch(await put(driver, "begin")))
    await anext(slow)
    for number in range(100):
        await put(driver, f"{number:02}", bytes(1000))
    assert driver._recent._size <= 10_000
    seen = []
    while len(seen) < 100:
        seen += [change.id for change in (await anext(slow)).changes]
    assert seen == [f"{number:02}" for number in range(100)]


async def test_a_step_of_the_system_time_does_not_end_a_lease(opened, path, monkeypatch):
    """The step may be forward or back, in this process or before a restart."""
    driver = await opened(path)
    lease = await driver.grant(60)
    await put(driver, "a", lease=lease)
    now = time.time()
    for step in (86400, -86400):
        monkeypatch.setattr(sqlite_tables.time, "time", lambda step=step: now + step)
        await driver.close()
        await driver.open()
        await driver.keep_alive(lease)
        assert await keys(driver) == ["a"]
    await put(driver, "b")
    assert await keys(driver) == ["a", "b"]


@pytest.mark.parametrize(("step", "left"), [(30, 30), (61, 0), (-1000, 60)])
async def test_after_a_reboot_the_system_time_ends_a_lease(opened, path, monkeypatch, step, left):
    """It lasts for the rest of its time, and never longer than its whole time."""
    driver = await opened(path)
    lease = await driver.grant(60)
    await put(driver, "a", lease=lease)
    await driver.close()
    now = time.time()
    monkeypatch.setattr(sqlite_tables, "boot", lambda: "another")
    monkeypatch.setattr(sqlite_tables, "clock", lambda: 5.0)
    monkeypatch.setattr(sqlite_tables.time, "time", lambda: now + step)
    await driver.open()
    if not left:
        assert await keys(driver) == []
        with pytest.raises(LeaseEnded):
            await driver.keep_alive(lease)
        return
    assert await keys(driver) == ["a"]
    monkeypatch.setattr(sqlite_tables, "clock", lambda: 5.0 + left - 2)
    await driver._end_leases()
    assert await keys(driver) == ["a"]
    monkeypatch.setattr(sqlite_tables, "clock", lambda: 5.0 + left + 2)
    await driver._end_leases()
    assert await keys(driver) == []


async def test_deleted_rows_leave_the_history(opened, path):
    """Compaction removes the data of deleted rows; the tables of the file contain no copy."""
    driver = await opened(path)
    await put(driver, "secret", b"to be forgotten")
    await driver.commit(DbTransaction([Delete("t", "secret")]))
    await driver.compact(await put(driver, "end"))
    await driver.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("select count(*) from changes").fetchone() == (1,)
        assert db.execute("select id from rows").fetchall() == [("end",)]
