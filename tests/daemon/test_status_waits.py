"""`status --wait`: until the host has converged, until it is out of time, or until nothing will change by itself."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from holdfast_process import COMMAND, Agent, Tree, environment


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A configuration of one command that lasts until it is let go."""
    tree = Tree(tmp_path)
    tree.sls(
        "slow", "slow:\n  cmd.run:\n    - name: while [ ! -e HOST/go ]; do sleep 0.02; done\n    - creates: HOST/go\n"
    )
    return tree


def test_it_ends_with_the_pass(tree: Tree) -> None:
    """0 when the host has converged, and not before; 4 when it is out of time.

    Costs the second that it waits in vain.
    """
    agent = Agent(tree)
    try:
        agent.wait(lambda: tree("status").returncode == 1, "the agent")
        began = time.monotonic()
        assert "1 resource" in tree("status", "--wait", "--timeout", "1", check=4).stdout
        assert time.monotonic() - began < 20
        waiting = subprocess.Popen(
            [*COMMAND, "status", "--wait", "--config", str(tree.config)],
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        (tree.host / "go").touch()
        printed, _ = waiting.communicate(timeout=30)
        assert (waiting.returncode, "converged: 1 resource" in printed) == (0, True)
    finally:
        agent.__exit__()


def test_an_agent_that_hangs_is_not_waited_for(tree: Tree) -> None:
    """What is asked within a time ends then, and says that nobody answers; an agent that is stopped accepts connections all the same. Costs that time."""
    (tree.host / "go").touch()
    with Agent(tree) as agent:
        agent.signal(signal.SIGSTOP)
        try:
            began = time.monotonic()
            told = tree("status", "--wait", "--timeout", "0.5", check=69).stderr
            assert time.monotonic() - began < 20
        finally:
            agent.signal(signal.SIGCONT)
    assert "has not answered in time" in told


def test_what_will_not_converge_by_itself_is_not_waited_for(tree: Tree) -> None:
    """Something failed, or is paused without an end, or the states do not compile: 1, at once."""
    (tree.host / "go").touch()
    tree.sls("bad", "bad:\n  file.managed:\n    - name: HOST/none/bad\n")
    with Agent(tree):
        assert "failed" in tree("status", "--wait", check=1).stdout
        tree.file("bad")
        tree("reload", check=0)
        tree("status", "--wait", check=0)
        tree("pause", "file.*", check=0)
        (tree.host / "bad").write_text("drifted\n")
        tree("recheck", check=0)
        assert "drifted" in tree("status", "--wait", check=1).stdout
        tree("pause", "file.*", "--for", "2h", check=0)
        tree("status", "--wait", "--timeout", "0.1", check=4)
        tree("pause", check=0)
        assert "drifted" in tree("status", "--wait", check=1).stdout  # the end of the other pause would change nothing
        tree("resume", check=0)
        tree("status", "--wait", check=0)
        tree.sls("bad", "bad: [\n")
        tree("reload", check=3)
        tree("status", "--wait", check=1)


def test_a_timeout_without_a_wait_is_refused(tree: Tree) -> None:
    """It would say nothing."""
    assert "--timeout goes with --wait" in tree("status", "--timeout", "5", check=64).stderr
