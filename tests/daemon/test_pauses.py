"""`pause` and `resume` of a real agent: a confirmed pause survives kill -9, and all verbs show it."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from holdfast_process import Agent, Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Return states of two files."""
    tree = Tree(tmp_path)
    for name in ("motd", "issue"):
        tree.file(name)
    return tree


def test_a_confirmed_pause_survives_the_agent(tree: Tree) -> None:
    """The agent is killed right after its answer. Later, status, why, health, metrics and log show end and reason.

    The test takes some seconds, because it starts two agents.
    """
    with Agent(tree) as agent:
        said = tree("pause", "--for", "2h", "--reason", "kernel upgrade", check=0).stdout
        agent.process.kill()
        agent.process.wait()
    assert said.startswith("everything is paused until 2")
    (tree.host / "motd").write_text("changed\n")

    agent = Agent(tree)
    try:
        agent.wait_log("(kernel upgrade)")
        agent.wait(lambda: "paused until" in tree("status").stdout, "the pause in status")
        status = tree.json("status")
        assert [(each["reason"], each["seconds"]) for each in status["pauses"]] == [("kernel upgrade", 7200.0)]
        assert 7100 < status["pauses"][0]["until"] - time.time() <= 7200
        assert [each["code"] for each in status["health"]] == ["paused"]
        assert "(kernel upgrade)" in tree("status").stdout
        agent.wait(lambda: "(kernel upgrade)" in tree("why", "motd").stdout, "the pause in why")
        metrics = tree("metrics", check=0).stdout
        assert "holdfast_paused 1\n" in metrics
        assert 'holdfast_pause_end_timestamp_seconds{reason="kernel upgrade",scope="everything"} ' in metrics
        assert (tree.host / "motd").read_text() == "changed\n"

        tree("resume", check=0)
        agent.wait(lambda: (tree.host / "motd").read_text() == "hello\n", "the repair")
    finally:
        agent.__exit__()


def test_resources_are_paused_by_name_and_by_pattern(tree: Tree) -> None:
    """Names without a match are refused with the most similar one.

    A resource that a pattern pauses names that pattern.
    """
    with Agent(tree) as agent:
        assert (
            f"file.managed[{tree.host}/motd] is paused until `holdfast resume` (mine)"
            in tree("pause", "host/motd", "--reason", "mine", check=0).stdout
        )
        assert "did you mean" in tree("pause", f"file.managed[{tree.host}/mod]", check=1).stderr
        for name in ("motd", "issue"):
            (tree.host / name).write_text("changed\n")
        agent.wait(lambda: (tree.host / "issue").read_text() == "hello\n", "the repair of the other")
        agent.wait(lambda: "drifted" in tree("status", check=1).stdout, "the drift in status")
        assert "1 of 2 resources drifted (paused)" in tree("status", check=1).stdout
        assert (tree.host / "motd").read_text() == "changed\n"
        assert "is paused until" in tree("trigger", "motd", check=1).stderr

        tree("pause", "file.*", check=0)
        assert (
            "cannot resume host/issue: 'file.*' is paused; `holdfast resume 'file.*'` ends that"
            in tree("resume", "host/issue", check=1).stderr
        )
        assert "resumed; still file.* is paused" in tree("resume", "host/motd", check=0).stdout
        assert tree("resume", check=0).stdout == "resumed\n"
        agent.wait(lambda: (tree.host / "motd").read_text() == "hello\n", "the repair")
        agent.wait(lambda: tree("status").returncode == 0, "convergence")


@pytest.mark.parametrize("span", ["2 hours", "0s", "-5m", "h", "1e9", "9999w"])
def test_an_invalid_span_of_time_is_refused(tree: Tree, span: str) -> None:
    """The command line refuses it before it asks an agent."""
    assert tree("pause", "--for", span, check=64).stderr


def test_a_pause_that_cannot_be_stored_is_in_force_with_a_warning(tree: Tree) -> None:
    """Another process locks the journal. `pause` and `resume` take effect, and say what a restart would do.

    The test takes seconds, because the agent waits for the lock.
    """
    with Agent(tree), closing(sqlite3.connect(tree.root / "state/journal.db", isolation_level=None)) as other:
        other.execute("begin exclusive")
        said = tree("pause", check=1).stderr
        assert "it is paused, but a restart would end the pause: cannot write the journal: " in said
        assert tree.json("status")["paused"] is True
        said = tree("resume", check=1).stderr
        assert "it is resumed, but paused again after a restart: cannot write the journal: " in said
        assert tree.json("status")["paused"] is False
        other.execute("rollback")
