"""`status --wait` ends once the host has converged, after its timeout, or if nothing will change by itself."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast.agent.control.schema import ControlError
from holdfast.agent.verbs import status
from holdfast_process import COMMAND, Agent, Tree, environment


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """States of one command, which runs until the file `go` exists."""
    tree = Tree(tmp_path)
    tree.sls(
        "slow", "slow:\n  cmd.run:\n    - name: while [ ! -e HOST/go ]; do sleep 0.02; done\n    - creates: HOST/go\n"
    )
    return tree


def clients(tree: Tree) -> int:
    """Return the number of clients of the agent.

    The kernel lists its listening socket, and one socket for each client.
    """
    path = f" {tree.root}/state/control.sock"
    return sum(line.endswith(path) for line in Path("/proc/net/unix").read_text().splitlines()) - 1


def test_the_wait_ends_when_the_host_has_converged(tree: Tree) -> None:
    """The exit code is 0 if the host has converged, and 4 after the timeout.

    The test takes the second of the timeout.
    """
    agent = Agent(tree)
    try:
        agent.wait(lambda: tree("status").returncode == 1, "the agent")
        began = time.monotonic()
        assert "1 resource" in tree("status", "--wait", "--timeout", "1", check=4).stdout
        assert time.monotonic() - began < DEADLINE
        waiting = subprocess.Popen(
            [*COMMAND, "status", "--wait", "--config", str(tree.config)],
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        (tree.host / "go").touch()
        printed, _ = waiting.communicate(timeout=DEADLINE)
        assert (waiting.returncode, "converged: 1 resource" in printed) == (0, True)
    finally:
        agent.__exit__()


def test_an_agent_that_hangs_is_not_waited_for(tree: Tree) -> None:
    """A request with a timeout ends in time and says that no agent answers.

    A stopped agent still accepts connections. The test takes the time of the timeout.
    """
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


def test_an_agent_that_is_started_again_is_waited_for(tree: Tree) -> None:
    """After `kill -9` no agent listens for a while; systemd starts the next one."""
    (tree.host / "go").touch()
    first = Agent(tree)
    try:
        first.wait(lambda: tree("status").returncode == 0, "the agent")
    finally:
        first.process.kill()
        first.process.wait()
    waiting = subprocess.Popen(
        [*COMMAND, "status", "--wait", "--timeout", "60", "--config", str(tree.config)],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    with Agent(tree):
        printed, _ = waiting.communicate(timeout=DEADLINE)
    assert (waiting.returncode, "converged: 1 resource" in printed) == (0, True)


def test_an_agent_that_goes_away_during_the_wait_is_waited_for(tree: Tree) -> None:
    """The connection breaks, and the next agent answers."""
    first = Agent(tree)
    try:
        first.wait(lambda: tree("status").returncode == 1, "the agent")
        first.wait(lambda: clients(tree) == 0, "the end of the other requests")
        waiting = subprocess.Popen(
            [*COMMAND, "status", "--wait", "--config", str(tree.config)],
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        first.wait(lambda: clients(tree) == 1, "the client")
    finally:
        first.process.kill()
        first.process.wait()
    (tree.host / "go").touch()
    with Agent(tree):
        printed, _ = waiting.communicate(timeout=DEADLINE)
    assert (waiting.returncode, "converged: 1 resource" in printed) == (0, True)


@pytest.mark.parametrize("timeout", [None, 0.3])
def test_no_agent_at_all_is_waited_for_only_for_a_while(
    tree: Tree, timeout: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait ends with the timeout, or after the time that systemd needs to start an agent."""
    monkeypatch.setattr(status, "RETURN", 0.3)
    began = time.monotonic()
    with pytest.raises(ControlError, match="none listens"):
        status.settled(tree.root / "state/control.sock", timeout)
    assert 0.2 < time.monotonic() - began < 10


def test_a_host_that_cannot_converge_by_itself_is_not_waited_for(tree: Tree) -> None:
    """A resource has failed or is paused without an end, or the states do not compile: the exit code is 1, at once."""
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
    """The option would have no effect."""
    assert "--timeout requires --wait" in tree("status", "--timeout", "5", check=64).stderr


def test_an_agent_without_a_free_place_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client waits for it as for an agent that is restarting."""
    answers: list[ControlError | list[dict[str, bool]]] = [ControlError("full", "busy"), [{"converged": True}]]

    def follow(*_: object) -> list[dict[str, bool]]:
        answer = answers.pop(0)
        if isinstance(answer, ControlError):
            raise answer
        return answer

    monkeypatch.setattr(status, "follow", follow)
    monkeypatch.setattr(status, "RETRY", 0.0)
    assert status.settled(Path("socket"), None)
