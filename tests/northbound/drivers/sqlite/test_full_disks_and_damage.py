"""A full disk, faults of the disk and damaged files stop no agent, and lose no record that can be read."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.drivers import sqlite_file, sqlite_lock
from holdfast.agent.northbound.drivers.base import DbTransaction, Put, WatchBatch
from holdfast.agent.northbound.drivers.sqlite import SqliteDriver
from holdfast.agent.northbound.errors import Compacted, Unavailable
from holdfast.agent.northbound.store.indexed import IndexedStore
from northbound_models import Site
from sqlite_rows import keys, put, until


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


# -- the disk --------------------------------------------------------------------------------------------------


async def test_a_full_disk_stops_writes_until_there_is_room(opened, small):
    """The error says so, nothing is written, and reads succeed. The next write notices that there is room again."""
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
    """The agent reads at once, and writes as soon as there is room."""
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
    """The file system may be read-only before the start. Writes fail with the reason."""
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
    """The next write or check recreates it.

    Watches notice nothing, health reports it, and the next process finds everything.
    """
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
    """The agent starts with an empty database, reports this, and keeps the old file.

    Old revisions are not valid in the new one.
    """
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
    """The read or write that finds the damage does this. Watches report that the history is lost."""
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
    """The process continues with the new file."""
    agent, beside = await opened(path), await opened(path, agent=False)
    await put(beside, "a")
    path.unlink()
    await put(agent, "b")
    await put(beside, "c")
    assert await keys(agent) == await keys(beside) == ["a", "b", "c"]
    assert await keys(agent) == ["a", "b", "c"]


async def test_a_directory_that_was_removed(opened, tmp_path):
    """Writes fail, and reads succeed. When the directory exists again, so do the records."""
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
    """The error is that of an unavailable database; the next attempt may succeed."""
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
    """Its ID is not text, or its data are not bytes; the API names the row."""
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
    """The first of them may fail to open the new file, which has the records; the second one keeps it."""
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
