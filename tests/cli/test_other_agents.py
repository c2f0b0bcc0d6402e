"""`apply` and `plan` refuse to run while an agent maintains other states on the same host."""

import pytest

from holdfast.agent import other_agents
from holdfast.agent.settings import load
from holdfast.resources.errors import HoldfastError
from holdfast_process import Agent, Tree


@pytest.fixture
def tree(tmp_path):
    """A configuration with one file."""
    tree = Tree(tmp_path)
    tree.file()
    return tree


@pytest.fixture
def other(tmp_path):
    """Another directory of states."""
    directory = tmp_path / "other"
    directory.mkdir(mode=0o755)
    (directory / "a.sls").write_text("a:\n  test.succeed_with_changes: []\n")
    return directory


def test_states_that_the_agent_does_not_maintain_are_refused(tree, other):
    """The message names both directories and `--anyway`; nothing runs."""
    with Agent(tree):
        for verb in ("apply", "plan"):
            done = tree(verb, "--states", other, check=1)
            told = " ".join(done.stderr.split())
            assert told.startswith(
                f"holdfast: cannot {verb}: the agent at {tree.root}/state/control.sock "
                "manages other states on this host"
            )
            assert f"(states {tree.etc}/states, not {other})" in told
            assert "--anyway" in told
            assert done.stdout == ""
            tree(verb, "--states", other, "--anyway", check=2 if verb == "plan" else 0)
        assert "id test, not somebody" in " ".join(tree("plan", "--id", "somebody", check=1).stderr.split())


def test_the_states_of_the_agent_are_accepted(tree):
    """A part of these states, and another path of the same directory, are accepted, too."""
    (tree.root / "link").symlink_to(tree.etc / "states")
    with Agent(tree):
        tree("apply", check=0)
        tree("apply", "motd", check=0)
        tree("plan", "--only", "motd", check=0)
        tree("plan", "--states", tree.root / "link", check=0)


def test_the_agent_of_the_host_counts_for_runs_with_other_settings(tree, tmp_path, monkeypatch):
    """A run with its own settings and state directory changes the same host."""
    mine = Tree(tmp_path / "mine")
    mine.settings("pillar: null\n")
    settings = load(mine.config)
    with Agent(tree):
        monkeypatch.setattr(other_agents, "socket_of", lambda *_: tree.root / "state/control.sock")
        with pytest.raises(
            HoldfastError, match=f"states {tree.etc}/states, not {mine.etc}/states; pillar {tree.etc}/pillar, not none"
        ):
            other_agents.demand_no_other(settings, "apply")
    other_agents.demand_no_other(settings, "apply")
