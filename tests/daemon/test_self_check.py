"""The agent restores its own files that are removed or replaced while it runs, and reports it.

A second agent never starts meanwhile.
"""

import asyncio
import fcntl
import json
import os
import shutil
import socket
import sqlite3
import sys
from contextlib import closing
from types import SimpleNamespace

import pytest

from deadline import within
from holdfast.agent.control.server import ControlServer
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.health import Health
from holdfast.agent.logs import Logs
from holdfast.agent.self_check import RENEWED, TROUBLE, SelfCheck
from holdfast.agent.settings import LogSettings
from holdfast.agent.statedir import Lock, LockedError, open_journal, private_directory
from holdfast_process import Agent, Tree, holdfast

EDGE = ("a", "b", "watch")
SQUATTER = """
import os, socket, sys
os.setuid(65534)
taken = socket.socket(socket.AF_UNIX)
taken.bind("\\0" + sys.argv[1])
taken.listen(1)
print(flush=True)
sys.stdin.read()
"""


class Guarded:
    """The parts of an agent in its state directory, with their self-check."""

    def __init__(self, directory):
        self.directory, self.health = private_directory(directory), Health()
        self.lock = Lock(directory / "lock", "start the agent")
        self.lock.__enter__()
        self.journal = open_journal(directory / "journal.db", self.health, durable=False)
        self.journal.adopt([EDGE], {"a": "a", "b": "b"})
        self.journal.changed("a", [EDGE])
        self.server = ControlServer(directory / "control.sock", SimpleNamespace(logs=Logs(LogSettings())))
        self.self_check = SelfCheck(directory, self.lock, self.journal, self.server, self.health)

    async def __aenter__(self):
        """Start like an agent."""
        await self.journal.secure()
        await self.server.start()
        return self

    async def __aexit__(self, *_):
        """Stop like an agent."""
        await self.server.stop()
        self.journal.close()
        self.lock.__exit__(None, None, None)

    @property
    def told(self):
        """The health problems: code -> text."""
        return {condition.code: condition.text for condition in self.health.conditions}

    def second(self):
        """Start another agent here."""
        private_directory(self.directory)
        with Lock(self.directory / "lock", "start the agent"):
            pass

    async def check(self):
        """Run the self-check, and wait for the journal."""
        await self.self_check.look()
        await self.journal._store._work

    async def check_all_files(self):
        """Check that all files exist and belong to this agent."""
        await self.check()
        assert self.directory.stat().st_mode & 0o777 == 0o700
        with (self.directory / "lock").open() as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert (self.directory / "lock").read_text() == f"{os.getpid()}\n"
        reader, writer = await asyncio.open_unix_connection(self.directory / "control.sock")
        writer.write_eof()
        assert b"error" in await reader.read()
        writer.close()
        for end in ("", "-wal"):
            file = self.directory / f"journal.db{end}"
            if file.exists():
                shutil.copy(file, self.directory.parent)
        after = Journal(self.directory.parent / "journal.db", durable=False)
        assert after.pending(EDGE)
        after.close()


@pytest.fixture
def tree(tmp_path):
    """The configuration of a real agent."""
    return Tree(tmp_path)


@pytest.fixture
def state(tmp_path):
    """The path of the state directory."""
    return tmp_path / "state"


def remove(state):
    """Remove the state directory."""
    shutil.rmtree(state)


def move_away(state):
    """Rename the state directory, whose files stay in use."""
    state.rename(state.with_name("elsewhere"))


def make_a_file(state):
    """Replace the state directory by a file."""
    shutil.rmtree(state)
    state.write_text("notes")


def make_a_dangling_link(state):
    """Replace the state directory by a link to a missing target."""
    shutil.rmtree(state)
    state.symlink_to(state.with_name("nowhere"))


def copy(state):
    """Replace the state directory by a backup."""
    shutil.copytree(state, state.with_name("backup"), ignore=lambda *_: ["control.sock"])
    shutil.rmtree(state)
    state.with_name("backup").rename(state)


def make_another(state):
    """Recreate the state directory, as a state that stores data there would."""
    shutil.rmtree(state)
    (state / "resources").mkdir(parents=True)


def empty(state):
    """Remove all files in the state directory."""
    for each in state.iterdir():
        each.unlink()


def remove_the_lock(state):
    """Remove the lock, so that another agent can create it."""
    (state / "lock").unlink()


def turn_the_lock_into_a_directory(state):
    """Replace the lock by a directory that is not empty."""
    (state / "lock").unlink()
    (state / "lock").mkdir()
    (state / "lock" / "note").write_text("mine")


def turn_the_lock_into_a_link(state):
    """Replace the lock by a link to a file that must not be touched."""
    (state / "lock").unlink()
    (state / "lock").symlink_to(state.with_name("precious"))


def remove_the_socket(state):
    """Remove the socket, so that no client can ask the agent."""
    (state / "control.sock").unlink()


DAMAGES = [
    remove,
    move_away,
    make_a_file,
    make_a_dangling_link,
    copy,
    make_another,
    empty,
    remove_the_lock,
    turn_the_lock_into_a_directory,
    turn_the_lock_into_a_link,
    remove_the_socket,
]


@pytest.mark.parametrize("damage", DAMAGES)
async def test_damaged_files_are_restored_and_no_second_agent_starts(damage, state):
    """A second agent is refused before the self-check and after it."""
    precious = state.with_name("precious")
    precious.write_text("precious")
    async with Guarded(state) as guarded:
        damage(state)
        if damage not in (make_a_file, make_a_dangling_link):  # no agent can start there
            with pytest.raises((LockedError, OSError)):
                guarded.second()
        await guarded.check_all_files()
        with pytest.raises(LockedError, match=f"process {os.getpid()} holds"):
            guarded.second()

        assert RENEWED in guarded.told
        assert str(state) in guarded.told[RENEWED]
        assert precious.read_text() == "precious"
        guarded.health.clear(RENEWED)
        guarded.health.clear("journal-renewed")
        await guarded.check()
        assert guarded.told == {}


async def test_a_directory_that_others_may_write_is_reported_until_it_is_private(state):
    """The agent does not take away permissions that root has given."""
    async with Guarded(state) as guarded:
        state.chmod(0o777)
        await guarded.check()
        assert guarded.told == {TROUBLE: f"cannot keep state in {state}: others may write there; chmod go-w {state}"}
        state.chmod(0o700)
        await guarded.check()
        assert guarded.told == {}


async def test_a_file_in_place_of_the_socket_is_reported(state):
    """The agent removes no file that it did not create."""
    async with Guarded(state) as guarded:
        (state / "control.sock").unlink()
        (state / "control.sock").write_text("mine")
        await guarded.check()
        assert f"{state}/control.sock was removed or replaced, and cannot be restored" in guarded.told[TROUBLE]
        (state / "control.sock").unlink()
        await guarded.check()
        assert [*guarded.told] == [RENEWED]
        await guarded.check_all_files()


def test_many_agents_that_ask_for_the_lock_are_all_refused(state):
    """Each self-check closes the connections of agents that asked."""
    private_directory(state)
    with Lock(state / "lock", "start the agent") as lock:
        for _ in range(3):
            for _ in range(100):
                with pytest.raises(LockedError):
                    Lock(state / "lock", "start the agent").__enter__()
            lock.renew()


def test_a_user_who_connects_without_end_does_not_block_the_self_check(state):
    """Any user can connect to the abstract socket. The self-check ends although a new connection always waits."""

    class Endless:
        """A socket at which a connection always waits."""

        asked = 0

        def accept(self):
            """Return the next connection."""
            self.asked += 1
            assert self.asked < 1000
            return socket.socket(socket.AF_UNIX), None

    private_directory(state)
    with Lock(state / "lock", "start the agent") as lock:
        claimed, lock._name = lock._name, Endless()
        lock.renew()
        lock._name = claimed


async def test_control_socket_is_private_without_the_umask(state, monkeypatch):
    """The umask belongs to the process: a thread that creates a directory then would make it inaccessible."""
    before = os.umask(0)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", lambda mask: pytest.fail(f"the umask is changed to {mask:o}"))
            server = ControlServer(private_directory(state) / "control.sock", SimpleNamespace(logs=Logs(LogSettings())))
            await server.start()
            assert server.path.stat().st_mode & 0o777 == 0o600
            await server.stop()
    finally:
        os.umask(before)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
async def test_a_user_who_takes_the_name_of_the_lock_does_not_stop_an_agent(state, monkeypatch):
    """The lock file alone is the lock then."""
    private_directory(state)
    names = []
    bind = socket.socket.bind
    monkeypatch.setattr(socket.socket, "bind", lambda self, name: (names.append(name), bind(self, name)))
    with Lock(state / "lock", "start the agent"):
        pass
    squatter = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SQUATTER, names[0][1:], stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    await squatter.stdout.readline()
    with Lock(state / "lock", "start the agent"), pytest.raises(LockedError, match=f"process {os.getpid()} holds"):
        Lock(state / "lock", "start the agent").__enter__()
    squatter.stdin.close()
    await squatter.wait()


def test_a_locked_journal_delays_only_resources_with_subscribers(tree):
    """A real agent repairs other resources at once, and `status` and `plan` answer.

    Once the lock is released, the delayed resources are repaired and reported. SQLite waits for a second.
    """
    told = tree.host / "told"
    tree.sls(
        "site",
        f"""HOST/alone:
  file.managed:
    - contents: right
HOST/conf:
  file.managed:
    - contents: right
'echo told >> {told}':
  cmd.run:
    - onchanges: [{{file: HOST/conf}}]
""",
    )
    with (
        Agent(tree) as agent,
        closing(sqlite3.connect(tree.root / "state" / "journal.db", isolation_level=None)) as other,
    ):
        other.execute("begin exclusive")
        (tree.host / "conf").write_text("wrong")
        agent.wait_log("cannot write the journal")
        (tree.host / "alone").write_text("wrong")
        agent.wait(lambda: (tree.host / "alone").read_text() == "right\n", "the repair without subscribers")
        status = tree.json("status")
        conf = next(each for each in status["resources"] if each["identity"].endswith("conf]"))
        assert "database is locked" in json.dumps(conf)
        assert not status["converged"]
        assert f"{tree.host}/conf" in tree("plan").stdout
        assert ((tree.host / "conf").read_text(), told.read_text()) == ("wrong", "told\n")
        other.execute("rollback")
        agent.wait(lambda: (tree.host / "conf").read_text() == "right\n", "the delayed repair")
        agent.wait(lambda: told.read_text() == "told\ntold\n", "the refresh")
        agent.wait_log("no longer true: cannot write the journal")


def test_a_running_agent_survives_the_removal_of_its_state_directory(tree):
    """The real agent recovers within the promised ten seconds (the check runs every five).

    It repairs, answers requests, and loses no refresh when it is killed.
    """
    hook = tree.host / "hook"
    tree.sls(
        "site",
        f"HOST/conf:\n  file.managed:\n    - contents: right\n'echo told >> {hook}':\n  cmd.run:\n"
        f"    - onchanges: [{{file: HOST/conf}}]\n",
    )
    with Agent(tree) as agent:
        shutil.rmtree(tree.root / "state")
        second = holdfast("run", "--config", tree.config)
        assert second.returncode != 0
        assert f"process {agent.process.pid} holds" in second.stderr
        (tree.host / "conf").write_text("wrong")
        agent.wait(lambda: (tree.host / "conf").read_text() == "right\n", "the repair")
        agent.wait(lambda: hook.read_text() == "told\ntold\n", "the refresh")
        with within(10):
            agent.wait_log("Find the program that did this")
        assert RENEWED in [condition["code"] for condition in tree.json("status")["health"]]
        agent.process.kill()
        agent.process.wait()
    with Agent(tree) as agent:
        assert hook.read_text() == "told\ntold\n"
