"""What only the database in an SQLite file has: other processes, faults of the disk, damage, a bounded history."""

from __future__ import annotations

import _sqlite3
import asyncio
import ctypes
import os
import shutil
import socket
import sqlite3
import stat
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import chdir, closing, suppress
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.drivers import sqlite, sqlite_file, sqlite_groups, sqlite_lock, sqlite_tables
from holdfast.agent.northbound.drivers.base import (
    ConditionFailed,
    DbTransaction,
    Delete,
    Driver,
    Expect,
    LeaseEnded,
    Put,
    TableRow,
    Unchanged,
    WatchBatch,
)
from holdfast.agent.northbound.drivers.sqlite import SqliteDriver
from holdfast.agent.northbound.drivers.sqlite_tables import Bounds
from holdfast.agent.northbound.errors import Compacted, Unavailable
from holdfast.agent.northbound.store.indexed import IndexedStore
from northbound_models import Site


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the waits of seconds."""
    monkeypatch.setattr(sqlite_groups, "PATIENCE", 0.5)
    monkeypatch.setattr(sqlite_lock, "WAITING", 0.1)
    monkeypatch.setattr(sqlite, "POLL", 0.02)
    monkeypatch.setattr(sqlite, "AGENT_POLL", 0.02)
    monkeypatch.setattr(sqlite, "RETRY", 0.05)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the database."""
    return tmp_path / "northbound.db"


@pytest.fixture
async def opened() -> AsyncIterator[Callable[..., object]]:
    """Return a function that opens a driver; all are closed at the end."""
    drivers = []

    async def opened(path: Path, *, agent: bool = True, **options: object) -> SqliteDriver:
        driver = SqliteDriver(path, agent=agent, durable=False, **options)
        drivers.append(driver)
        await driver.open()
        return driver

    yield opened
    for driver in drivers:
        await driver.close()


async def put(driver: Driver, key: str, data: bytes = b"", lease: int = 0) -> int:
    """Write a row."""
    return await driver.commit(DbTransaction([Put("t", key, data, lease)]))


async def keys(driver: Driver) -> list[str]:
    """Return the IDs of all rows."""
    return sorted(row.id for row in (await driver.read()).rows)


async def until(holds: Callable[[], object]) -> None:
    """Wait for something that nobody announces."""
    async with asyncio.timeout(DEADLINE):
        while not holds():
            await asyncio.sleep(0.01)


async def read_on(watch: AsyncIterator[WatchBatch]) -> None:
    """Read a watch to its end."""
    async for _ in watch:
        pass


def run(*command: object) -> bool:
    """Run a command, and return whether it succeeded."""
    return subprocess.run([*map(str, command)], check=False, capture_output=True).returncode == 0


def fill(path: Path) -> None:
    """Use all free space of the file system."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 1 MB."""
    directory = tmp_path / "small"
    directory.mkdir()
    if not run("mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "none", directory):
        pytest.skip("only root can mount a file system")
    yield directory
    assert run("umount", "--lazy", directory)


@pytest.fixture
def failing(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Mount a disk; return its directory and the file by which a test causes an error of its file system."""
    image, directory = tmp_path / "image", tmp_path / "failing"
    directory.mkdir()
    image.write_bytes(b"")
    os.truncate(image, 8 << 20)
    for command in (["mkfs.ext4", "-q", image], ["mount", "-o", "loop,errors=remount-ro", image, directory]):
        if not run(*command):
            pytest.skip("only root can mount an image of a disk")
    source = subprocess.run(
        ["findmnt", "-no", "SOURCE", directory], check=True, capture_output=True, text=True
    ).stdout.strip()
    yield directory, Path("/sys/fs/ext4", Path(source).name, "trigger_fs_error")
    assert run("umount", "--lazy", directory)


# -- memory ----------------------------------------------------------------------------------------------------


def sqlite_memory() -> int:
    """Return the number of bytes that SQLite has allocated in this process."""
    used = ctypes.CDLL(_sqlite3.__file__).sqlite3_memory_used  # a symbol of the library that the module is linked to
    used.restype = ctypes.c_int64
    return int(used())


async def test_memory_for_faster_access_can_be_freed(opened, path):
    """Then the file is used as before. There is nothing to free before it is opened and after it is closed."""
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
    """Its writes raise the revision, also alone, and conditions see them, also after the file is opened again."""
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
    """Of a transaction that writes both, it gets the other writes; then it has the revision of one without others."""
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
    """They are made in the next group."""
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
    """A write fails after a limited time; whether it was made is unknown. Then all goes on."""
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
    """It need not poll: an idle agent does nothing. A socket that is gone, or is no socket, harms nobody."""
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
    """The agent empties the log at its end, which is no damage."""
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
    """A short one is waited for; after a long one the error tells what to do. Reads go on."""
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
    """One timer watches over all of them: a later write has its whole time, and is given up as well."""
    driver, loop, later = await opened(path), asyncio.get_running_loop(), asyncio.Event()

    async def waited(key: str) -> float:
        began = loop.time()
        with pytest.raises(Unavailable):
            await put(driver, key)
        return loop.time() - began

    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        loop.call_later(sqlite_groups.PATIENCE / 2, later.set)
        async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
            first = group.create_task(waited("first"))
            await later.wait()
            second = group.create_task(waited("second"))
        other.execute("rollback")
    assert min(first.result(), second.result()) > sqlite_groups.PATIENCE * 0.9
    await put(driver, "third")


# -- the disk --------------------------------------------------------------------------------------------------


async def test_a_full_disk_stops_writes_until_there_is_room(opened, small):
    """The error says so; nothing was written; reads go on; a write by itself finds out that there is room again."""
    driver = await opened(small / "northbound.db")
    await put(driver, "a", bytes(1000))
    fill(small / "filler")
    told = []
    driver.listen = lambda: told.append(driver.trouble)

    async def fill_database() -> None:
        for number in range(200):
            await put(driver, f"b{number}", bytes(10_000))

    with pytest.raises(Unavailable, match="disk is full: free some space on its file system") as raised:
        await fill_database()
    assert not raised.value.unsure
    known = await keys(driver)
    assert "a" in known
    (small / "filler").unlink()
    await until(lambda: driver.trouble == "")
    assert "disk is full" in told[0]
    await put(driver, "z")
    assert await keys(driver) == [*known, "z"]


async def test_an_agent_that_starts_on_a_full_disk_can_read(opened, small):
    """And it writes as soon as there is room."""
    driver = await opened(small / "northbound.db")
    await put(driver, "a", bytes(1000))
    await driver.close()
    for end in ("-wal", "-shm"):
        (small / f"northbound.db{end}").unlink(missing_ok=True)
    fill(small / "filler")
    driver = await opened(small / "northbound.db")
    assert await keys(driver) == ["a"]
    assert driver.trouble
    (small / "filler").unlink()
    await put(driver, "b")
    assert await keys(driver) == ["a", "b"]
    assert driver.trouble == ""


async def test_an_error_of_the_file_system_stops_writes(opened, failing):
    """The kernel makes the file system read-only."""
    directory, trigger = failing
    driver = await opened(directory / "northbound.db")
    await put(driver, "a")
    trigger.write_text("1")
    with pytest.raises(Unavailable, match=r"cannot write .*file system is writable|make the file"):
        await put(driver, "b")
    assert driver.trouble
    assert await keys(driver) == ["a"]


async def test_a_read_only_file_system_can_be_read(opened, tmp_path):
    """Also one that was made so before the start; writes fail with the reason."""
    directory = tmp_path / "mounted"
    directory.mkdir()
    if not run("mount", "-t", "tmpfs", "none", directory):
        pytest.skip("only root can mount a file system")
    try:
        driver = await opened(directory / "northbound.db", agent=False)
        await put(driver, "a")
        await driver.close()
        assert run("mount", "-o", "remount,ro", directory)
        driver = await opened(directory / "northbound.db", agent=False)
        assert await keys(driver) == ["a"]
        with pytest.raises(Unavailable, match="readonly database: make the file and its file system writable"):
            await put(driver, "b")
        assert await keys(driver) == ["a"]
        assert run("mount", "-o", "remount,rw", directory)
        await put(driver, "b")
        assert await keys(driver) == ["a", "b"]
        await driver.close()
    finally:
        assert run("umount", "--lazy", directory)


# -- damage ----------------------------------------------------------------------------------------------------


def remove(path):
    """Remove the database, but not its log."""
    path.unlink()


def remove_log(path):
    """Remove the log."""
    path.with_name(f"{path.name}-wal").unlink()


def remove_all(path):
    """Remove everything but the lock."""
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink()


def replace(path):
    """Put another file in place."""
    path.with_name("other").write_bytes(b"x" * 8192)
    path.with_name("other").replace(path)


def replace_by_directory(path):
    """Put a directory in place."""
    path.unlink()
    path.mkdir()


def truncate_memory(path):
    """Truncate the shared memory, which would kill a process that reads it."""
    os.truncate(path.with_name(f"{path.name}-shm"), 0)


@pytest.mark.parametrize("write", [True, False])
@pytest.mark.parametrize("harm", [remove, remove_log, remove_all, replace, replace_by_directory, truncate_memory])
async def test_a_file_that_is_lost_while_it_is_open_is_recreated_with_its_records(opened, path, harm, write):
    """At the next write or look. Watches notice nothing, health is told, and the next process finds everything."""
    driver = await opened(path)
    first = await put(driver, "a", b"1")
    watch = aiter(driver.watch(first))
    await anext(watch)
    harm(path)
    if write:
        await put(driver, "b")
    else:
        await until(lambda: driver.renewed)
        await put(driver, "b")
    assert f"{path}" in driver.renewed
    assert "it was recreated, and its records were kept" in driver.renewed
    assert [change.id for change in (await anext(watch)).changes] == ["b"]
    assert await keys(driver) == ["a", "b"]
    await driver.close()
    after = await opened(path)
    assert await keys(after) == ["a", "b"]
    assert after.renewed == ""


def truncate(path):
    """Truncate the database to half of its size."""
    os.truncate(path, path.stat().st_size // 2 // 4096 * 4096)


def empty(path):
    """Truncate the database."""
    os.truncate(path, 0)


def overwrite(path):
    """Overwrite all pages but the first one."""
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xaa" * (path.stat().st_size - 4096))


def overwrite_all(path):
    """Overwrite everything."""
    path.write_bytes(b"no database at all " * 1000)


async def filled(opened, path):
    """Return a driver of a database of many pages, which are not in a log."""
    driver = await opened(path)
    await driver.commit(DbTransaction([Put("t", f"k{number}", bytes(1000)) for number in range(200)]))
    await driver.close()
    return SqliteDriver(path, agent=True, durable=False)


@pytest.mark.parametrize("harm", [truncate, empty, overwrite, overwrite_all, replace, replace_by_directory])
async def test_a_file_that_is_damaged_before_the_start_is_set_aside(opened, path, harm):
    """The agent starts with an empty database, says so, and keeps the old file. Old revisions are not taken for new."""
    driver = await filled(opened, path)
    await driver.open()
    revision = (await driver.read()).revision
    await driver.close()
    harm(path)
    driver = await opened(path)
    assert await keys(driver) == []
    assert f"its records were lost; see {path.with_suffix('.damaged')}" in driver.renewed
    assert path.with_suffix(".damaged").exists() or harm is replace_by_directory
    with pytest.raises(Compacted):
        await anext(aiter(driver.watch(revision)))
    assert await put(driver, "a") > revision


@pytest.mark.parametrize("harm", [truncate, empty, overwrite, overwrite_all])
async def test_a_file_that_is_damaged_while_it_is_open_is_set_aside(opened, path, harm):
    """At the read or write that finds the damage. Watches are told that history is gone."""
    driver = await filled(opened, path)
    await driver.open()
    revision = (await driver.read()).revision
    watch = aiter(driver.watch(revision))
    await anext(watch)
    harm(path)
    later = await driver.commit(DbTransaction([Put("t", f"k{number}", bytes(1100)) for number in range(200)]))
    await driver.read()
    await until(lambda: driver.renewed)
    assert "its records were lost" in driver.renewed
    assert (await driver.read()).revision > revision
    with pytest.raises(Compacted):
        await asyncio.wait_for(read_on(watch), DEADLINE)
    assert later
    await put(driver, "z")
    assert "z" in await keys(driver)
    await driver.close()


async def test_a_process_that_is_not_the_agent_leaves_a_damaged_file_alone(opened, path):
    """While the agent has the database, only the agent recreates the file."""
    agent = await opened(path)
    await put(agent, "a")
    await agent.close()
    lock = sqlite_lock.OwnerLock(path)
    lock.take()
    overwrite_all(path)
    with pytest.raises(Unavailable, match="belongs to a running agent"):
        await opened(path, agent=False)
    lock.release()
    assert await keys(await opened(path, agent=False)) == []


async def test_another_process_follows_a_file_that_the_agent_has_recreated(opened, path):
    """It goes on with the new file."""
    agent, beside = await opened(path), await opened(path, agent=False)
    await put(beside, "a")
    path.unlink()
    await put(agent, "b")
    await put(beside, "c")
    assert await keys(agent) == await keys(beside) == ["a", "b", "c"]
    assert await keys(agent) == ["a", "b", "c"]


async def test_a_directory_that_was_removed(opened, tmp_path):
    """Writes fail, reads go on; when the directory is there again, the records are, too."""
    directory = tmp_path / "state"
    directory.mkdir()
    driver = await opened(directory / "northbound.db")
    await put(driver, "a")
    shutil.rmtree(directory)
    with pytest.raises(Unavailable, match=r"cannot recreate .*: check its directory"):
        await put(driver, "b")
    assert await keys(driver) == ["a"]
    directory.mkdir()
    await until(lambda: driver.renewed)
    await put(driver, "c")
    assert await keys(driver) == ["a", "c"]


async def test_a_new_file_that_is_damaged_as_well(opened, path, monkeypatch):
    """The error is that of a database that does not answer; the next try may succeed."""
    driver = await opened(path)
    await put(driver, "a")
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_file, "LAYOUT", 5)
        remove(path)
        with pytest.raises(Unavailable, match="is not a database of this program"):
            await put(driver, "b")
    await until(lambda: driver.trouble == "")
    await put(driver, "c")
    assert await keys(driver) == ["a", "c"]


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("drop table rows", "no such table: rows"),
        ("drop table changes", "no such table: changes"),
        ("drop table state", "no such table: state"),
        ("delete from state", "does not have one revision"),
        ("insert into state values (1, 1)", "does not have one revision"),
        ("update state set revision = 'x'", "does not have one revision"),
        ("update state set revision = -1", "does not have one revision"),
    ],
)
async def test_a_file_whose_content_was_changed_is_set_aside(opened, path, statement, told):
    """SQLite finds no damage in it, but nothing could be read or written."""
    driver = await opened(path)
    await put(driver, "a")
    await driver.close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)
    driver = await opened(path)
    assert told in driver.renewed
    await put(driver, "b")
    assert await keys(driver) == ["b"]


async def test_a_table_that_disappears_while_the_file_is_open(opened, path):
    """The next write finds that; the file is set aside."""
    driver = await opened(path)
    await put(driver, "a")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("drop table changes")
    await put(driver, "b")
    assert "no such table: changes" in driver.renewed
    assert await keys(driver) == ["b"]


@pytest.mark.parametrize(
    "value",
    ["cast(x'ff41' as text)", "x'ff41'", "'text'", "5", "1.5", "''"],
    ids=["no-unicode", "blob", "text", "integer", "real", "empty"],
)
@pytest.mark.parametrize("column", ["id", "data"])
async def test_a_row_of_another_program_hides_no_others(opened, path, column, value):
    """Its ID is no text, or its data are no bytes; the API names it."""
    async with NbApi(SqliteDriver(path, agent=True, durable=False), IndexedStore()) as api:
        await api.create(Site(id="a", name="x"))
    values = {"id": "'h'", "data": "x'7b7d'"} | {column: value}
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"insert into rows values ('test-sites', {values['id']}, {values['data']}, 2, 2, 0)")
    async with NbApi(SqliteDriver(path, agent=True, durable=False), IndexedStore()) as api:
        await api.create(Site(id="b", name="x"))
        assert api.view.keys(Site) == ["a", "b"]
        assert "cannot read test-sites" in api.problems()[0]


async def test_two_that_find_the_same_damage_do_not_recreate_the_file_twice(opened, path, monkeypatch):
    """Even if the first of them could not open the file that it put in place: the records are in it."""
    driver = await opened(path)
    await put(driver, "a")
    path.unlink()
    damage = driver._file.changed()
    with monkeypatch.context() as patch:
        patch.setattr(driver._file, "_connect_to_write", lambda **_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            driver._file.renew(damage)
    driver._file.renew(damage)
    assert await keys(driver) == ["a"]
    assert not path.with_suffix(".damaged").exists()


async def test_a_newer_layout_is_refused(opened, path):
    """The file is left as it is."""
    await (await opened(path)).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("pragma user_version = 2")
    with pytest.raises(Unavailable, match=r"written by a newer version \(layout 2; this version knows 1\)"):
        await opened(path)
    assert not path.with_suffix(".damaged").exists()


# -- history, leases and clocks --------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [Bounds(changes=20), Bounds(changes=200, bytes=2000), Bounds(seconds=100)])
async def test_the_history_is_bounded(opened, path, bounds, monkeypatch):
    """By number, bytes and age. Rows stay, and a watch from before is refused."""
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
    """What does not fit is read from the file later."""
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
    """Forward or back, in this process and after a restart."""
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
    """Compaction forgets the data of rows that are gone; the file holds no copy in its tables."""
    driver = await opened(path)
    await put(driver, "secret", b"to be forgotten")
    await driver.commit(DbTransaction([Delete("t", "secret")]))
    await driver.compact(await put(driver, "end"))
    await driver.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("select count(*) from changes").fetchone() == (1,)
        assert db.execute("select id from rows").fetchall() == [("end",)]
