"""The file of the journal is locked, full, read-only, removed, replaced or damaged while the agent runs."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast.agent import sqlite_files
from holdfast.agent.engine.deliver import database, store
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.store import Unwritable
from holdfast.agent.engine.deliver.tables import Reversal
from holdfast.agent.health import Health
from holdfast.agent.statedir import open_journal
from holdfast.resources.traits import Declaration

EDGE = ("a", "b", "watch")


class Running:
    """A journal as an agent uses it, with its health."""

    def __init__(self, directory, *, durable=False):
        self.path = directory / "journal.db"
        self.health = Health()
        self.journal = open_journal(self.path, self.health, durable=durable)
        self._told = asyncio.Event()
        self.health.listen = self._told.set
        self.journal.adopt([EDGE], {"a": "a", "b": "b", "act": "act"})

    @property
    def codes(self):
        """The codes of the current health problems."""
        return [condition.code for condition in self.health.conditions]

    async def until(self, *codes):
        """Wait until health has exactly these codes."""
        async with asyncio.timeout(DEADLINE):
            while self.codes != [*codes]:
                self._told.clear()
                await self._told.wait()

    async def live(self):
        """Write a row of each table to the disk."""
        journal = self.journal
        await journal.announce("a", [EDGE])
        journal.changed("a", [EDGE])
        journal.failed("f", [("f", "g", "onfail")])
        journal.done("act", "digest", 5.0)
        journal.send("a", {"said": "hello"})
        journal.receive("b", {"value": "digest"})
        journal.remember(Reversal("r", "name", Declaration("test.nop", {"name": "name"})))
        await journal.announce("interrupted", [])

    def after_a_kill(self, directory):
        """Check that the next agent, after a kill of this one, would know all that this journal knows."""
        directory.mkdir()
        for end in ("", "-wal"):
            file = self.path.with_name(self.path.name + end)
            if file.exists():
                shutil.copy(file, directory)
        after = Journal(directory / self.path.name, durable=False)
        interrupted = sorted(self.journal._intents)
        assert sorted(after.interrupted) == interrupted
        for identity in interrupted:
            self.journal.changed(identity)
        assert content(after) == content(self.journal)
        after.close()


def content(journal):
    """Return all rows of a journal, in a fixed order."""
    return [(statement, sorted(map(tuple, rows))) for statement, rows in journal._everything()]


def fill(path):
    """Use all free space of the file system."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    """Shorten the waits of seconds."""
    monkeypatch.setattr(database, "BUSY", 0.1)
    monkeypatch.setattr(store, "RETRIES", (0.02,))


@pytest.fixture
def small(tmp_path):
    """A file system of 512 kB."""
    directory = tmp_path / "small"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k,mode=0700", "none", directory]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root can mount a file system")
    yield directory
    subprocess.run(["umount", "--lazy", directory], check=True)


async def test_a_locked_journal_delays_only_intents(tmp_path):
    """The event loop continues; an intent fails with the reason; all is written once the lock is released."""
    running = Running(tmp_path)
    await running.live()
    other = sqlite3.connect(running.path, isolation_level=None)
    other.execute("begin exclusive")
    loop = asyncio.get_running_loop()
    began = loop.time()
    longest = steps = 0
    refused = asyncio.create_task(running.journal.announce("a", [EDGE]))
    running.journal.changed("b")
    while not refused.done():
        before = loop.time()
        await asyncio.sleep(0)
        longest, steps = max(longest, loop.time() - before), steps + 1

    with pytest.raises(Unwritable, match="database is locked"):
        await refused
    assert steps > 10
    assert longest < loop.time() - began
    (condition,) = running.health.conditions
    assert (condition.code, condition.severity) == ("journal-unwritable", "error")
    assert "database is locked" in condition.text
    assert condition.text.endswith("end the program that has it open")
    with pytest.raises(Unwritable):
        await running.journal.announce("a", [EDGE])
    assert not running.journal.intended("a")
    other.execute("rollback")
    other.close()
    await running.until()
    await running.journal.announce("a", [EDGE])
    running.after_a_kill(tmp_path / "after")
    running.journal.close()


async def test_records_during_a_full_disk_are_written_later(small, tmp_path):
    """The whole journal is written once there is space."""
    running = Running(small)
    await running.live()
    fill(small / "filler")
    for number in range(500):
        running.journal.done(f"act {number}", "d" * 64, 7.0)
    await running.until("journal-unwritable")
    assert "make room" in running.health.conditions[0].text
    with pytest.raises(Unwritable, match="full"):
        await running.journal.announce("a", [EDGE])
    (small / "filler").unlink()
    await running.until()
    await running.journal.announce("a", [EDGE])
    running.after_a_kill(tmp_path / "after")
    running.journal.close()


async def test_an_agent_that_starts_on_a_full_disk_knows_pending_deliveries(small):
    """The agent reports the problem, and can repair resources without subscribers.

    An agent that does not start repairs nothing.
    """
    before = Running(small)
    await before.live()
    before.journal.close()
    fill(small / "filler")
    running = Running(small)
    assert running.journal.pending(EDGE)
    assert running.journal.interrupted == ("interrupted",)
    running.journal.check()
    await running.until("journal-unwritable")
    with pytest.raises(Unwritable):
        await running.journal.announce("a", [EDGE])
    (small / "filler").unlink()
    await running.until()
    await running.journal.announce("a", [EDGE])
    running.journal.close()


@pytest.fixture
def failing(tmp_path):
    """A directory on a disk, and the file by which a test causes a file system error in the kernel."""
    image, directory = tmp_path / "image", tmp_path / "failing"
    directory.mkdir()
    image.write_bytes(b"")
    os.truncate(image, 8 << 20)
    for command in (["mkfs.ext4", "-q", image], ["mount", "-o", "loop,errors=remount-ro", image, directory]):
        if subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip("only root can mount an image of a disk")
    source = subprocess.run(
        ["findmnt", "-no", "SOURCE", directory], check=True, capture_output=True, text=True
    ).stdout.strip()
    yield directory, Path("/sys/fs/ext4", Path(source).name, "trigger_fs_error")
    subprocess.run(["umount", "--lazy", directory], check=True)


async def test_an_error_of_the_file_system_makes_the_journal_unwritable(failing):
    """The kernel makes the file system read-only. Health reports this, and nothing hangs."""
    directory, trigger = failing
    running = Running(directory)
    await running.live()
    trigger.write_text("1")
    with pytest.raises(Unwritable):
        await running.journal.announce("a", [EDGE])
    assert running.codes == ["journal-unwritable"]
    assert (
        "check that its disk works and has room, and that its file system is writable"
        in running.health.conditions[0].text
    )
    running.journal.close()


def remove(path):
    """Remove the database, but not its log."""
    path.unlink()


def remove_log(path):
    """Remove the latest writes."""
    path.with_name("journal.db-wal").unlink()


def remove_all(path):
    """Remove the database and all files beside it."""
    for each in path.parent.iterdir():
        each.unlink()


def truncate_all(path):
    """Truncate all files; reading the shared memory file of SQLite afterwards would kill the process."""
    for each in path.parent.iterdir():
        os.truncate(each, 0)


def overwrite(path):
    """Overwrite the database in place."""
    with path.open("r+b") as file:
        file.write(b"no page of a database" * 100)


def overwrite_log(path):
    """Overwrite the log in place."""
    path.with_name("journal.db-wal").write_bytes(b"no log" * 1000)


def restore_a_backup(path):
    """Replace the file by another one with the same content."""
    shutil.copy(path, path.with_name("backup"))
    path.with_name("backup").replace(path)


def make_a_directory(path):
    """Replace the file by a directory that is not empty."""
    path.unlink()
    path.mkdir()
    (path / "note").write_text("mine")


def make_a_link(path):
    """Replace the file by a link to a file that must not be touched."""
    path.unlink()
    path.symlink_to(path.parent.parent / "precious")


def make_a_pipe(path):
    """Replace the file by a pipe: opening it could block for ever."""
    path.unlink()
    os.mkfifo(path)


DAMAGES = [
    remove,
    remove_log,
    remove_all,
    truncate_all,
    overwrite,
    overwrite_log,
    restore_a_backup,
    make_a_directory,
    make_a_link,
    make_a_pipe,
]


@pytest.mark.parametrize("notice", ["a check", "the next intent"])
@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_file_is_restored_from_memory(damage, notice, tmp_path):
    """The file is restored before anything changes. Health reports it, and files of others are not touched."""
    directory, precious = tmp_path / "state", tmp_path / "precious"
    directory.mkdir()
    precious.write_text("precious")
    running = Running(directory, durable=True)
    await running.live()
    damage(running.path)
    if notice == "a check":
        running.journal.check()
    else:
        await running.journal.announce("b", [])
    await running.until("journal-renewed")

    assert "journal.db" in running.health.conditions[0].text
    running.after_a_kill(tmp_path / "after")
    await running.live()
    running.after_a_kill(tmp_path / "later")
    assert precious.read_text() == "precious"
    assert {running.path.with_name(f"journal.db{end}").stat().st_mode & 0o777 for end in ("", "-wal", "-shm")} == {
        0o600
    }
    running.journal.close()


async def test_a_removed_directory_is_reported_until_it_exists_again(tmp_path):
    """No intent is accepted meanwhile; a check ends the wait."""
    directory = tmp_path / "state"
    directory.mkdir()
    running = Running(directory)
    await running.live()
    shutil.rmtree(directory)
    with pytest.raises(
        Unwritable, match=r"journal\.db was removed; it cannot be recreated: unable to open database file"
    ):
        await running.journal.announce("a", [EDGE])
    assert running.codes == ["journal-unwritable"]
    directory.mkdir()
    running.journal.check()
    await running.until("journal-renewed")

    running.after_a_kill(tmp_path / "after")
    running.journal.close()


@pytest.mark.parametrize(
    ("module", "moment"),
    [(database, "transaction"), (database, "sync"), (sqlite_files, "set_aside"), (sqlite_files, "sync")],
)
def test_an_agent_that_is_killed_while_it_recreates_the_file(module, moment, tmp_path, monkeypatch):
    """The next agent finds the old file or the new one, complete."""
    journal = Journal(tmp_path / "journal.db", durable=False)
    journal.adopt([EDGE], {"a": "a", "b": "b"})
    journal.changed("a", [EDGE])
    file = journal._store._database
    file.write(journal._everything(), flush=True)

    def killed(_):
        raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr(module, moment, killed)
        with pytest.raises(InterruptedError):
            file.renew(journal._everything(), flush=True)
    after = Journal(tmp_path / "journal.db", durable=False)

    assert after.pending(EDGE)
    after.close()


def test_a_write_that_failed_leaves_the_file_usable(tmp_path):
    """No transaction stays open."""
    journal = Journal(tmp_path / "journal.db", durable=False)
    file, insert = journal._store._database, "insert into failing values (?)"
    with pytest.raises(sqlite3.IntegrityError):
        file.write([(insert, [("a",)]), (insert, [("a",)])], flush=False)
    file.write([(insert, [("b",)])], flush=False)

    assert file.read("select identity from failing") == [("b",)]
    journal.close()


async def test_an_intent_waits_for_a_hanging_disk_for_a_limited_time(tmp_path, monkeypatch):
    """The intent then fails. Once the disk answers, all is written."""
    monkeypatch.setattr(store, "TIMEOUT", 0.05)
    answers = asyncio.Event()

    async def disk(call, *arguments):
        await answers.wait()
        call(*arguments)

    journal = Journal(tmp_path / "journal.db", durable=False, blocking=disk)
    told = asyncio.Event()
    journal.adopt([EDGE], {"a": "a", "b": "b"})
    with pytest.raises(Unwritable, match="the disk has not answered for"):
        await journal.announce("a", [EDGE])
    journal.changed("a", [EDGE])
    journal.listen(told.set)
    answers.set()
    await told.wait()

    assert journal.trouble == ""
    await journal.secure()
    file = journal._store._database
    assert file.read("select identity, changes from counter") == [("a", 1)]
    assert file.read("select * from intent") == []
    journal.close()


async def test_a_row_that_sqlite_cannot_store_does_not_block_the_journal(tmp_path):
    """Such a row is a bug. It is reported like a full disk, and the waiting intent fails."""
    agent = Running(tmp_path)
    async with asyncio.timeout(DEADLINE):
        for _ in range(2):
            with pytest.raises(Unwritable, match="surrogates not allowed"):
                await agent.journal.announce("\udc80", [])
        await agent.until("journal-unwritable")
        agent.journal.check()
        await agent.until()
        await agent.journal.announce("a", [EDGE])
    agent.journal.close()


async def test_a_stored_intent_remains_if_a_second_one_cannot_be_written(tmp_path):
    """A change after the first intent still counts as a change if the agent dies."""
    agent = Running(tmp_path)
    await agent.journal.announce("a", [EDGE])
    other = sqlite3.connect(agent.path, isolation_level=None)
    other.execute("begin exclusive")
    agent.journal.done("act", "digest", 5.0)
    with pytest.raises(Unwritable):
        await agent.journal.announce("a", [EDGE])
    other.close()
    agent.journal.close()
    after = Journal(agent.path)
    assert after.interrupted == ("a",)
    after.close()


async def test_an_intent_counts_once(tmp_path):
    """The agent that counts it as a change removes it from the file, so the next agent does not count it again."""
    first = Journal(tmp_path / "journal.db", durable=False)
    await first.announce("a", [EDGE])
    first.close()
    second = Journal(tmp_path / "journal.db", durable=False)
    assert second.interrupted == ("a",)
    second.close()
    third = Journal(tmp_path / "journal.db", durable=False)
    assert third.interrupted == ()
    third.close()


async def test_records_of_another_journal_do_not_replace_those_of_this_one(tmp_path):
    """What both journals know stays as it is here."""
    ours, theirs = Journal(), Journal()
    for journal, digest in ((ours, "new"), (theirs, "old")):
        journal.done("act", digest, 5.0)
        journal.send("s", {"value": digest})
        journal.receive("r", {"value": digest})
    theirs.done("other", "old", 5.0)
    ours.absorb(theirs)

    assert ours.done_at("act", "new") == 5.0
    assert ours.sent("s") == {"value": "new"}
    assert ours.received("r", "value") == "new"
    assert ours.done_at("other", "old") == 5.0
