"""The journal has one writer: the agent learns what `apply` changes beside it, after it or before it."""

import asyncio
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deadline import DEADLINE
from holdfast.agent import beside
from holdfast.agent.control import remote
from holdfast.agent.control.connection import Peer
from holdfast.agent.control.journal_session import MOST, SHAPES, JournalSession, message, receive
from holdfast.agent.control.schema import ControlError
from holdfast.agent.control.server import CLIENTS
from holdfast.agent.engine.deliver import database
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.store import Unwritable
from holdfast.agent.engine.model.events import Ran
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.health import Health
from holdfast.agent.statedir import Lock, open_journal
from holdfast_process import COMMAND, Agent, Tree, environment

STATES = """
HOST/conf:
  file.managed:
    - contents: {}
restart:
  cmd.wait:
    - name: test -e HOST/go && echo done >> HOST/restarts
    - watch:
      - file: HOST/conf
once:
  cmd.run:
    - name: echo once >> HOST/once
"""
SLOW = """
slow:
  cmd.run:
    - name: touch HOST/up; while [ ! -e HOST/go ]; do sleep 0.02; done
told:
  cmd.wait:
    - name: echo told >> HOST/told
    - watch: [cmd: slow]
"""
LATE = """
HOST/late:
  file.managed:
    - contents: late
    - require: [cmd: slow]
later:
  cmd.wait:
    - name: 'true'
    - watch: [file: HOST/late]
"""


@pytest.fixture
def tree(tmp_path):
    """Return states of a file, of a command that runs when the file changes, and of a command that runs once."""
    tree = Tree(tmp_path)
    tree.sls("web", STATES.format("one"))
    (tree.host / "go").touch()
    return tree


def restarts(tree):
    """Return how often the command has run."""
    path = tree.host / "restarts"
    return len(path.read_text().splitlines()) if path.exists() else 0


def paused(tree, agent):
    """Pause the agent, and let it compile states with another content of the file."""
    tree("pause", check=0)
    at = len(agent.log)
    tree.sls("web", STATES.format("two"))
    agent.wait_log("compiled", at)


def row(tree, identity):
    """Return the row of one resource in the status of the agent."""
    return next(each for each in tree.json("status")["resources"] if each["identity"] == identity)


def test_the_agent_delivers_the_refreshes_that_apply_could_not_deliver(tree):
    """`plan` lists these refreshes."""
    with Agent(tree) as agent:
        paused(tree, agent)
        (tree.host / "go").unlink()
        assert tree("apply", "web", check=1).stderr == ""
        told = f"pending: cmd.wait[restart] will be refreshed, because file.managed[{tree.host}/conf] has changed"
        assert told in tree("plan").stdout
        assert tree.json("plan")["owed"][0]["identity"] == "cmd.wait[restart]"
        (tree.host / "go").touch()
        tree("resume")
        agent.wait(lambda: restarts(tree) == 2, "the restart")
        tree("trigger", "cmd.wait[restart]")  # any second restart would have run by then
    assert "pending" not in tree("plan").stdout
    assert restarts(tree) == 2


def test_the_log_of_the_agent_names_who_has_changed_what(tree):
    """Each change of `apply` has a line with the resource, the user and the process; unchanged resources have none."""
    with Agent(tree) as agent:
        paused(tree, agent)
        tree("apply", "web", check=0)
        lines = [json.loads(line) for line in tree("log", "--cause", "command", "--format", "json").stdout.splitlines()]
        by_hand = [line for line in lines if "holdfast apply" in line["message"]]
        assert [line["resource"] for line in by_hand] == [
            f"file.managed[{tree.host}/conf]",
            "cmd.wait[restart]",
            "cmd.run[once]",
        ]
        said = rf"changed file.managed\[.*/conf\] \(holdfast apply by uid {os.geteuid()}, process \d+\)"
        assert re.fullmatch(said, by_hand[0]["message"])
        assert agent.log.count("holdfast apply by uid") == 3


def test_the_agent_repeats_nothing_that_apply_has_done(tree):
    """Neither the refresh nor the command runs again. If both work at the same time, only one of them refreshes."""
    with Agent(tree) as agent:
        paused(tree, agent)
        tree.sls("new", "new:\n  cmd.run:\n    - name: echo new >> HOST/new\n")
        tree("apply", "--detailed-exitcode", check=2)
        assert restarts(tree) == 2
        tree("resume")
        agent.wait(lambda: '"cmd.run[new]"' in tree("status", "--format", "json").stdout, "the new states")
        tree("recheck")
        agent.wait(lambda: row(tree, "cmd.run[new]")["reason"] == "action", "the check of the command")
        agent.wait(lambda: not row(tree, "cmd.wait[restart]")["dirty"], "the check of the restart")
    assert restarts(tree) == 2
    assert (tree.host / "new").read_text() == "new\n"


def test_a_resource_that_a_killed_apply_was_changing_counts_as_changed(tree):
    """The agent has the intent of the run in its journal."""
    with Agent(tree) as agent:
        paused(tree, agent)
        (tree.host / "go").unlink()
        at = len(agent.log)
        tree.sls("slow", SLOW)
        agent.wait_log("compiled", at)
        with subprocess.Popen([*COMMAND, "apply", "slow", "--config", str(tree.config)], env=environment()) as process:
            agent.wait((tree.host / "up").exists, "the command")
            assert not row(tree, "cmd.wait[told]")["pending_refresh"]
            process.send_signal(signal.SIGKILL)
        agent.wait(lambda: row(tree, "cmd.wait[told]")["pending_refresh"], "the pending refresh")
        assert re.search(r"holdfast apply by uid \d+, process \d+ ended while it changed cmd.run\[slow\]", agent.log)
        (tree.host / "go").touch()


ENDS = {"killed": signal.SIGKILL, "stopped": signal.SIGTERM}


@contextmanager
def applying(tree, agent):
    """Yield an `apply` that runs its slow command."""
    paused(tree, agent)
    (tree.host / "go").unlink()
    at = len(agent.log)
    tree.sls("slow", SLOW + LATE)
    agent.wait_log("compiled", at)
    command = [*COMMAND, "apply", "slow", "--config", str(tree.config)]
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            agent.wait(
                lambda: (tree.host / "up").exists() or process.poll() is not None, "the command", timeout=DEADLINE
            )
            assert process.poll() is None, process.communicate()
            yield process
        finally:
            (tree.host / "go").touch()


def gone(agent, number):
    """End the agent with this signal."""
    agent.signal(number)
    agent.process.wait(DEADLINE)


@pytest.mark.parametrize("how", ENDS)
def test_an_apply_whose_agent_goes_away_records_what_it_has_done(tree, how):
    """The running command may end, no other one starts, and `apply` says so and fails.

    The next agent knows what was changed, and what was done.

    The test takes more than a second, because it starts an agent and an apply.
    """
    agent = Agent(tree)
    with agent, applying(tree, agent) as process:
        gone(agent, ENDS[how])
        (tree.host / "go").touch()
        printed, said = process.communicate(timeout=DEADLINE)
        assert process.returncode == 1
        assert "the agent has stopped: running resources may finish, and no others are started; apply again" in said
        assert "interrupted: 1 of 4 states were checked" in printed
        assert "Traceback" not in said
        assert not (tree.host / "late").exists()
        assert not (tree.host / "told").exists()
    with closing(Journal(tree.root / "state/journal.db", durable=False)) as journal:
        assert ("cmd.run[slow]", "cmd.wait[told]", "watch") in journal.pending_deliveries()
        assert "cmd.run[slow]" in journal._actions


def test_an_apply_reports_to_an_agent_that_was_restarted_meanwhile(tree):
    """The new agent runs in noop: it holds the journal, but changes nothing itself.

    The test takes more than a second, because it starts two agents and an apply.
    """
    agent = Agent(tree)
    with agent, applying(tree, agent) as process:
        gone(agent, signal.SIGKILL)
        tree.settings("engine: {noop: true}\n")
        with Agent(tree):
            (tree.host / "go").touch()
            printed, said = process.communicate(timeout=DEADLINE)
            assert (process.returncode, "cannot" in said) == (1, False), printed + said
    with closing(Journal(tree.root / "state/journal.db", durable=False)) as journal:
        assert ("cmd.run[slow]", "cmd.wait[told]", "watch") in journal.pending_deliveries()
        assert "cmd.run[slow]" in journal._actions


def test_there_is_one_apply_at_a_time(tree):
    """A second run is refused with the process of the first. `plan` and runs of other states are not.

    The test takes more than a second, because it starts an agent and a run with a slow command.
    """
    with Agent(tree) as agent:
        with applying(tree, agent) as process:
            said = tree("apply", check=1).stderr
            assert (
                f"cannot apply while the agent runs: another apply (process {process.pid}) has been running since 2"
                in said
            )
            assert "wait until it has ended" in said
            tree("plan", check=2)
            (tree.root / "other").mkdir(mode=0o755)
            tree("apply", "--detailed-exitcode", "--states", tree.root / "other", "--anyway", check=0)
        process.wait(DEADLINE)
        tree("apply", "--detailed-exitcode", check=2)


def test_without_an_agent_there_is_one_apply_at_a_time(tree):
    """The message names the process of the first run."""
    (tree.root / "state").mkdir(mode=0o700)
    with Lock(tree.root / "state/lock", "apply"):
        said = tree("apply", check=1).stderr
    assert f"cannot apply: process {os.getpid()} holds {tree.root}/state/lock since 2" in said
    assert not (tree.host / "conf").exists()


def test_apply_changes_nothing_if_the_agent_refuses_the_connection(tree):
    """The agent serves its greatest number of clients already.

    The test takes more than a second, because it starts an agent.
    """
    with Agent(tree) as agent:
        paused(tree, agent)
        with ExitStack() as stack:
            for _ in range(CLIENTS):
                one = stack.enter_context(socket.socket(socket.AF_UNIX))
                one.connect(str(tree.root / "state/control.sock"))
                one.sendall(b'{"verb": "log", "follow": true, "lines": 1}\n')
                assert one.recv(10)
            said = tree("apply", check=1).stderr
        assert "cannot apply while the agent runs: cannot serve more than" in said
        assert (tree.host / "conf").read_text() == "one\n"


def test_an_agent_delivers_what_an_earlier_apply_left_pending(tree):
    """The agent does not repeat what `apply` has done."""
    (tree.host / "go").unlink()
    tree("apply", check=1)
    (tree.host / "go").touch()
    with Agent(tree) as agent:
        agent.wait(lambda: restarts(tree) == 1, "the restart")
    assert (tree.host / "once").read_text() == "once\n"
    assert not (tree.root / "state/apply.db").exists()


@pytest.mark.parametrize(
    "words", [("other",), ("--pillar", "/nowhere")], ids=["a part of the states", "another pillar"]
)
def test_a_run_of_other_states_makes_the_agent_forget_nothing(tree, words):
    """Commands that have run still count as done."""
    tree.file("other")
    words = tuple(str(tree.etc) if word == "/nowhere" else word for word in words)
    with Agent(tree):
        pass
    tree("apply", *words)
    ran = (tree.host / "once").read_text()
    with Agent(tree):
        pass
    assert (tree.host / "once").read_text() == ran


def test_an_apply_of_other_states_leaves_the_journal_of_the_agent_alone(tree, tmp_path):
    """Such a run has no journal, so the agent has nothing to deliver for it."""
    other = tmp_path / "other"
    other.mkdir(mode=0o755)
    (other / "a.sls").write_text(
        "a:\n  cmd.run:\n    - name: 'true'\nb:\n  cmd.wait:\n    - name: 'false'\n    - watch: [cmd: a]\n"
    )
    with Agent(tree):
        tree("apply", "--states", str(other), "--anyway", check=1)
        assert not any(each["pending_refresh"] for each in tree.json("status")["resources"])
    with closing(Journal(tree.root / "state/journal.db", durable=False)) as journal:
        assert journal.pending_deliveries() == []


def test_the_journal_of_older_one_shot_runs_is_taken_over(tree):
    """The agent makes their pending deliveries, and removes their file."""
    conf, restart = f"file.managed[{tree.host}/conf]", "cmd.wait[restart]"
    state = tree.root / "state"
    state.mkdir(mode=0o700)
    with sqlite3.connect(state / "apply.db") as old:
        old.executescript((Path(__file__).parents[1] / "engine/journal_of_version_0.sql").read_text())
        old.execute("update counter set identity = ?", (conf,))
        old.execute("update delivered set upstream = ?", (conf,))
        old.execute("update delivered set downstream = ? where downstream like '%svc%'", (restart,))
    old.close()
    (tree.host / "conf").write_text("one\n")
    tree("apply", "--detailed-exitcode", check=2)

    assert restarts(tree) == 1
    assert sorted(path.name for path in state.iterdir() if path.name.startswith("apply")) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="other users have a state directory of their own")
def test_plan_writes_nothing_and_needs_no_journal(tree):
    """The state directory does not exist yet, and is not created."""
    tree("plan", check=2)
    assert not (tree.root / "state").exists()


class ReservingEngine:
    """An engine that records which resources were reserved."""

    def __init__(self):
        self.reserved = []

    async def reserve(self, keys):
        """Record the keys."""
        self.reserved += keys

    def unreserve(self, keys):
        """Forget the keys."""
        self.reserved = [key for key in self.reserved if key not in keys]


KEYS = st.text(max_size=3)
WORDS = st.recursive(
    st.none() | st.integers() | st.floats() | KEYS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=3),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(st.sampled_from([*SHAPES, "close", "adopt", "", "_db"]), st.lists(WORDS, max_size=4)), max_size=5
    ),
    st.binary(max_size=30),
)
def test_no_message_of_a_run_breaks_the_agent(messages, noise):
    """Each message is executed or refused with an error."""

    async def talk():
        with closing(Journal()) as journal:
            session, reader = JournalSession(journal, ReservingEngine(), Peer(7, 0)), asyncio.StreamReader()
            for operation, arguments in messages:
                reader.feed_data(message(operation, *arguments))
            reader.feed_data(noise)
            reader.feed_eof()
            try:
                while (found := await receive(reader)) is not None:
                    session.take(found, lambda _: None)
            except ControlError:
                pass
            await session.close()
            assert not session._engine.reserved

    asyncio.run(talk())


@pytest.mark.parametrize(
    "broken",
    ['["done", "a", "b", NaN]', '["unchanged", "\\ud800"]', "[" * 100_000, "{}", '["close"]', '["_put", "intent"]'],
)
async def test_a_message_that_the_journal_could_not_store_is_refused(broken):
    """Such a message would block all later writes of the journal."""
    with closing(Journal()) as journal, pytest.raises(ControlError, match="cannot read a message of the run"):
        JournalSession(journal, ReservingEngine(), Peer(7, 0)).take(broken.encode(), lambda _: None)


async def test_an_intent_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    """The run gets the reason and changes nothing; the resource has no open intent."""
    monkeypatch.setattr(database, "BUSY", 0.0)
    path, answered = tmp_path / "journal.db", asyncio.get_running_loop().create_future()
    with closing(open_journal(path, Health(), durable=False)) as journal:
        await journal.secure()
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("begin exclusive")
            session = JournalSession(journal, ReservingEngine(), Peer(7, 0))
            session.take(message("intend", "a", []).partition(b"\n")[2], answered.set_result)
            async with asyncio.timeout(DEADLINE):
                answer = await answered
        assert answer["done"] == "a"
        assert "database is locked" in answer["error"]
        assert not journal.intended("a")
        await session.close()


async def connected():
    """Return a connection to an agent, its writer, and the socket of the agent, which the test drives."""
    ours, theirs = socket.socketpair()
    streams = await asyncio.open_unix_connection(sock=ours)
    return remote.AgentConnection(*streams), streams[1], theirs


async def test_the_wait_for_an_agent_that_does_not_answer_ends(monkeypatch):
    """After that, `plan` reads the file of the journal, and `apply` reports it and changes nothing."""
    monkeypatch.setattr(remote, "ANSWER", 0.05)
    line, writer, theirs = await connected()
    with closing(writer), closing(theirs), pytest.raises(ControlError, match="the agent has not answered"):
        async with asyncio.timeout(DEADLINE):
            await line.begin()


async def test_an_intent_that_is_too_long_for_a_message_is_refused():
    """The intent is not sent, and the run does not wait for an answer. Shorter intents are still sent."""
    line, writer, theirs = await connected()
    with closing(writer), closing(theirs):
        async with asyncio.timeout(DEADLINE):
            with pytest.raises(Unwritable, match="at most"):
                await line.ask("intend", "x" * (MOST + 1), [])
            theirs.sendall(b'{"rows": true}\n2\n{}')
            assert await line.begin() == {}
            asked = asyncio.create_task(line.ask("intend", "x", []))
            await asyncio.sleep(0)
            theirs.sendall(b'{"done": "x"}\n')
            await asked
            theirs.sendall(b'{"ok": true}\n')
            assert await line.end() == []


@pytest.mark.parametrize("reports", [False, True], ids=["older", "this version"])
async def test_changes_are_reported_only_to_an_agent_that_asks_for_them(reports):
    """An older agent, before an upgrade, would not understand the message."""
    line, writer, theirs = await connected()
    with closing(writer), closing(theirs):
        greeting = {"rows": True, "reports": True} if reports else {"rows": True}
        theirs.sendall(json.dumps(greeting).encode() + b"\n2\n{}")
        await line.begin()
        run = beside.AgentBeside(line, None, lambda _: None)
        for changed in (False, True):
            changes = {"text": {"old": "a", "new": "b"}} if changed else {}
            run.tell(Ran(0, Outcome("file.managed[x]", 0, result=True, changes=changes)))
        await writer.drain()
        theirs.setblocking(False)
        sent = theirs.recv(1000) if reports else b""
        assert sent == (message("report", "file.managed[x]") if reports else b"")
        with pytest.raises(BlockingIOError):
            theirs.recv(1)
        theirs.sendall(b'{"ok": true}\n')
        assert await line.end() == []
