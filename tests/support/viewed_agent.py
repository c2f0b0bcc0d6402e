"""An agent with a socket for viewers, who are the members of a group."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from holdfast_process import Agent, Tree
from strangers import open_directory

GROUP, GID = "games", 60
"""A group that exists on every Debian host."""
STATES = """
HOST/open:
  file.managed: [{contents: first of everyone}, {mode: "0644"}]
HOST/secret:
  file.managed: [{contents: first of root}, {mode: "0600"}, {show_changes: true}]
failing:
  cmd.run: [{name: "echo first of root >&2; exit 3"}]
"""


class ViewedAgent(NamedTuple):
    """A running agent with its configuration."""

    top: Path
    """A directory that every user can enter."""
    agent: Agent
    tree: Tree

    @property
    def view(self) -> Path:
        """The socket for viewers."""
        return self.top / "run/view.sock"


@contextmanager
def viewed_agent(more_states: str = "") -> Iterator[ViewedAgent]:
    """Start an agent with some files, and a command that fails."""
    with open_directory() as top:
        tree = Tree(top / "tree")
        (top / "run").mkdir(mode=0o755)
        tree.host.chmod(0o755)
        tree.settings(f"view: {top}/run/view.sock\nviewers: {GROUP}\n")
        tree.sls("app", STATES + more_states)
        tree.sls("top", "base:\n  '*': [app]\n")
        with Agent(tree) as agent:
            yield ViewedAgent(top, agent, tree)
