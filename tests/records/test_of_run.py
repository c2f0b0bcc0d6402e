"""What a one-shot run writes down: with and without a running agent, and when the database cannot be used."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from deadline import DEADLINE
from holdfast.agent.engine.model.events import Notice, PassStarted, Ran
from holdfast.agent.northbound.drivers import sqlite_groups
from holdfast.agent.northbound.drivers.sqlite import SqliteDriver
from holdfast.agent.records import of_run
from holdfast.agent.records.actors import COMMAND as COMMAND_LENGTH
from holdfast.agent.records.actors import this_process
from holdfast.agent.records.of_run import recorded
from holdfast.resources.secrets import Redactor
from holdfast_process import COMMAND, Agent, Tree, environment, holdfast
from record_desk import outcome


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A configuration with one managed file."""
    found = Tree(tmp_path)
    found.file()
    return found


def rows(tree: Tree, *words: str) -> list[dict[str, Any]]:
    """Return what `history` shows."""
    found: list[dict[str, Any]] = tree.json("history", *words, check=0)["history"]
    return found


def test_a_run_writes_its_pass_and_changes_with_who_asked_for_it(tree: Tree) -> None:
    """The origin is a command; the operator is known by uid, process and command line."""
    tree("apply", check=0)
    change, run = rows(tree)

    assert (change["what"], change["origin"], change["run"]) == ("created", "command", run["id"])
    assert run["counts"] == {"checked": 1, "changed": 1}
    for by in (change["by"], run["by"]):
        assert (by["uid"], by["way"], by["name"]) == (os.getuid(), "apply", "holdfast")
    assert "asked by holdfast" in tree("history").stdout


def test_failures_are_written_too(tree: Tree) -> None:
    """The row of the status of a resource is the agent's."""
    tree.sls("bad", "'false':\n  cmd.run: []\n")
    tree("apply", check=1)

    assert [row["what"] for row in rows(tree, "--failed")] == ["failed"]
    with sqlite3.connect(tree.root / "state/records.db") as db:
        assert db.execute("select count(*) from rows where tbl in ('resources', 'conditions')").fetchone() == (0,)
    db.close()


@pytest.mark.parametrize("words", [["plan"], ["apply"]], ids=["plan", "noop"])
def test_a_run_that_changes_nothing_by_intent_writes_nothing(tree: Tree, words: list[str]) -> None:
    """`plan`, and `apply` in noop."""
    if words == ["apply"]:
        tree.settings("engine: {noop: true}\n")
    tree(*words, check=2)

    assert not (tree.root / "state/records.db").exists()


def test_a_run_that_finds_nothing_to_do_does_not_touch_the_file(tree: Tree) -> None:
    """It is not even opened."""
    tree("apply", check=0)
    path = tree.root / "state/records.db"
    path.unlink()
    tree("apply", check=0)

    assert not path.exists()


def test_secrets_of_the_command_line_are_masked(tree: Tree) -> None:
    """Values of the pillar that are secret are in no record."""
    tree.pillar("password: hunter2hunter2\n")
    (tree.host / "hunter2hunter2").mkdir()
    tree("apply", "--state-dir", tree.root / "hunter2hunter2", check=0)
    path = tree.root / "hunter2hunter2/records.db"

    assert path.exists()
    assert b"hunter2" not in path.read_bytes()


@pytest.mark.parametrize("secret", ["it's a secret", "hunter2" * 20], ids=["quoted by the shell", "where it is cut"])
def test_a_secret_that_is_quoted_or_cut_in_the_command_line_is_masked(
    monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    """The record has none of its parts."""
    monkeypatch.setattr(sys, "argv", ["holdfast", "x" * (COMMAND_LENGTH - 30), secret])
    command = this_process(Redactor({"password": secret}))["command"]

    assert len(command) <= COMMAND_LENGTH
    assert secret[:6] not in command


def test_a_run_beside_an_agent_writes_to_the_same_file(tree: Tree) -> None:
    """Takes over a second: an agent starts. It is paused, and shows the change that the run has made."""
    tree.run = holdfast
    with Agent(tree):
        tree("pause", check=0)
        (tree.host / "motd").write_text("drifted")
        tree("apply", check=0)
        change = rows(tree, "--resource", "*motd]")[0]
        history = tree.json("why", f"{tree.host}/motd", check=0)["history"]
    assert (change["by"]["way"], change["cause"]) == ("apply", "start")
    assert (history[0]["by"]["way"], history[-1]["by"]) == ("apply", "")


@pytest.mark.parametrize("broken", ["newer", "locked"])
def test_a_database_that_cannot_be_used_costs_one_warning(
    tree: Tree, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run does its work and succeeds."""
    monkeypatch.setattr(of_run, "TIMEOUT", 0.5)
    monkeypatch.setattr(sqlite_groups, "TIMEOUT", 0.2)
    tree("apply", check=0)
    db = sqlite3.connect(tree.root / "state/records.db", isolation_level=None)
    db.execute("pragma user_version = 99" if broken == "newer" else "begin immediate")
    tree.file(contents="other")
    done = tree("apply", check=0)

    assert done.stderr.count("warning:") == 1
    assert "warning: the changes of this run are not recorded: " in done.stderr
    assert "1 changed" in done.stdout
    db.close()


def test_a_damaged_database_is_replaced(tree: Tree) -> None:
    """The run is recorded in a new one, and says so."""
    tree("apply", check=0)
    (tree.root / "state/records.db").write_bytes(b"x" * 10_000)
    tree.file(contents="other")
    said = tree("apply", check=0).stderr
    assert f"the records in {tree.root}/state/records.db: " in said
    assert "records.damaged" in said

    assert [row["table"] for row in rows(tree)] == ["changes", "passes"]
    assert (tree.root / "state/records.damaged").exists()


def _fill(path: Path) -> None:
    """Write to a file until its file system is full."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_full_disk_does_not_stop_the_run(tree: Tree) -> None:
    """The state directory is on a file system without room; one warning says what to do."""
    state = tree.root / "state"
    state.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k,mode=0700", "tmpfs", state], check=True)
    try:
        tree("apply", check=0)
        _fill(state / "filler")
        tree.sls(
            "many",
            "\n".join(f"HOST/{number}:\n  file.managed:\n    - contents: '{'x' * 5000}'" for number in range(20)),
        )
        done = tree("apply", "many", check=0)
        assert "are not recorded: cannot write" in done.stderr
        assert "free some space" in done.stderr
    finally:
        subprocess.run(["umount", "-l", state], check=True)


WRITES = """
import asyncio, sys
from pathlib import Path
from holdfast.agent.engine.model.events import PassEnded, PassRecord, PassStarted, Ran
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.records.of_run import recorded

async def main():
    async with recorded(Path(sys.argv[1]), "web1", str, print, durable=False) as run:
        for number in range(300):
            run.tell(PassStarted(number, "start"))
            run.tell(Ran(number, Outcome(f"{sys.argv[2]}[{number}]", 0, True, {"a": 1})))
            run.tell(PassEnded(PassRecord(number, "start", 0.0)))
            await asyncio.sleep(0)

sys.stdin.readline()
asyncio.run(main())
"""


def test_two_runs_at_once_lose_nothing(tree: Tree) -> None:
    """Runs of other states are allowed beside each other. Their processes write to one new file at the same time."""
    (tree.root / "state").mkdir(mode=0o700)
    argv = [sys.executable, "-c", WRITES, str(tree.root / "state")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": environment(), "text": True}
    runs = [subprocess.Popen([*argv, name], **pipes) for name in ("one", "two")]
    for each in runs:
        each.stdin.write("\n")
        each.stdin.flush()
    assert [each.communicate(timeout=DEADLINE)[0] for each in runs] == ["", ""], "no warning"

    found = rows(tree, "--limit", "1000")
    names = [each["resource"] for each in found if each["table"] == "changes"]
    assert sorted(names) == sorted(f"{name}[{number}]" for name in ("one", "two") for number in range(300))
    assert len({each["id"] for each in found}) == 1200
    assert "everything can be read" in tree("db", "check", check=0).stdout


def test_what_was_changed_before_a_kill_is_recorded(tree: Tree) -> None:
    """Takes over a second: a run is killed while a command runs; its pass has no end."""
    tree.sls("slow", "sleep 60:\n  cmd.run: []\n")
    run = subprocess.Popen([*COMMAND, "apply", "--config", str(tree.config)], env=environment())
    until = time.monotonic() + DEADLINE
    while not (tree.root / "state/records.db").exists() or not rows(tree):
        assert time.monotonic() < until
        time.sleep(0.02)
    run.send_signal(signal.SIGKILL)
    run.wait()

    assert [row["what"] for row in rows(tree)] == ["created"]
    assert "a pass without an end" in tree("history").stdout


def test_an_interrupted_run_is_recorded(tree: Tree) -> None:
    """Takes over a second. What was changed before Ctrl-C is written before the process ends."""
    tree.sls("slow", "sleep 60:\n  cmd.run: []\n")
    run = subprocess.Popen(
        [*COMMAND, "apply", "--config", str(tree.config)], env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert run.stdout
    assert "created" in run.stdout.readline()
    run.send_signal(signal.SIGINT)
    run.communicate()

    assert "created" in [row["what"] for row in rows(tree) if row["table"] == "changes"]


async def test_a_disk_that_hangs_ends_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the run waits for a limited time."""
    monkeypatch.setattr(of_run, "TIMEOUT", 0.01)
    told: list[Any] = []

    async def hang(_: SqliteDriver) -> None:
        await of_run.asyncio.Event().wait()

    monkeypatch.setattr(SqliteDriver, "open", hang)
    async with recorded(tmp_path, "web1", str, told.append, durable=False) as run:
        run.tell(PassStarted(1, "start"))
        run.tell(Ran(1, outcome()))
    assert told == [
        Notice(
            "warning",
            "not-recorded",
            "",
            "the changes of this run are not recorded: the disk has not answered for 0.01 s",
        )
    ]


KIND = """
from holdfast import Resource

class Shared(Resource, kind="shared.set"):
    color: str

    async def probe(self, ctx):
        return {"color": await ctx.world.string("color")}

    async def apply(self, ctx, delta):
        await ctx.world.set_string("color", self.color)
"""
COUNTING = """
import sys
from holdfast.agent.cli.main import main
from holdfast.agent.northbound.drivers.sqlite_file import RecordFile

open_file = RecordFile.open
RecordFile.open = lambda self: (sys.stderr.write("opened\\n"), open_file(self))[1]
main(sys.argv[1:])
"""


def test_a_run_whose_states_share_strings_opens_the_database_once(tree: Tree) -> None:
    """Takes over a second: a whole process. Its changes and its strings are in one database."""
    (tree.etc / "resources").mkdir()
    (tree.etc / "resources/shared.py").write_text(KIND)
    tree.sls("shared", "it:\n  shared.set:\n    - color: red\n")
    command = [sys.executable, "-c", COUNTING, "apply", "--config", str(tree.config)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)

    assert "1 created, 1 changed" in done.stdout, done
    assert done.stderr.count("opened\n") == 1
    with sqlite3.connect(tree.root / "state/records.db") as db:
        found = dict(db.execute("select tbl, count(*) from rows group by tbl").fetchall())
    db.close()
    assert (found["changes"], found["world_strings"]) == (2, 1)
