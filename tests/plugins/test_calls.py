"""`holdfast call notes.count`: through a running agent and without one. An agent takes seconds to start."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from holdfast_process import Agent, Tree, holdfast
from notes_plugin import notes_tree

SECRET = "correct horse battery"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root calls functions")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A configuration with the plugin of the notes, and two notes."""
    return notes_tree(tmp_path_factory.mktemp("calls"))


@pytest.fixture(scope="module")
def agent(tree: Tree) -> Iterator[Agent]:
    """A running agent."""
    with Agent(tree) as found:
        yield found


def call(tree: Tree, *words: str, check: int = 0) -> Any:
    """Call a function."""
    return holdfast("call", "--config", tree.config, *words, check=check)


def history(tree: Tree) -> str:
    """Return the output of `history`."""
    return str(holdfast("history", "--config", tree.config).stdout)


def test_a_function_is_called_through_the_agent(tree, agent):
    """Arguments are words, in order or by name; the log has the call."""
    assert json.loads(call(tree, "notes.count", "me", "--format", "json").stdout) == {"total": 1, "largest": "web"}
    assert "total: 1" in call(tree, "notes.count", "owner=me").stdout.replace('"', "")
    assert "called notes.count owner=me" in agent.log
    agent.wait(lambda: "called notes.count owner=me" in history(tree), "the call in the history")


def test_secrets_are_masked_in_the_answer_and_in_the_log(tree, agent):
    """They are masked in errors of the provider, too."""
    done = call(tree, "notes.count", "nobody", f"password={SECRET}", check=1)

    assert "nobody owns nothing, not even ********" in done.stderr
    assert "called notes.count owner=nobody password=********" in agent.log
    assert SECRET not in agent.log


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["notes.cuont", "me"], "the package has no such function; did you mean 'notes.count'?"),
        (["notes.count"], "cannot call notes.count: owner: it is required"),
        (["notes.count", "owner=me", "colour=red"], "there is no field 'colour'"),
        (["notes.count", "a", "b", "c"], "too many arguments; its parameters are owner, password"),
        (["notes.count", "me", "owner=me", "owner=you"], "'owner' is given twice"),
        (["notes.count", "me", "--test"], "a package's function has no test"),
    ],
)
def test_a_wrong_call_is_refused_before_the_plugin_is_asked(tree, agent, words, told):
    """Calls of interfaces are refused in the same way."""
    assert told in call(tree, *words, check=64).stderr


def test_status_and_metrics_show_the_plugin(tree, agent):
    """They show the plugin even if it has no problem."""
    call(tree, "notes.count", "me")
    (shown,) = json.loads(holdfast("status", "--config", tree.config, "--format", "json").stdout)["plugins"]
    metrics = holdfast("metrics", "--config", tree.config).stdout

    assert (shown["name"], shown["version"], shown["why"]) == ("notes", "1.0.0", "")
    assert "plugins: notes 1.0.0 " in holdfast("status", "--config", tree.config).stdout
    assert 'holdfast_plugin_calls_total{plugin="notes",method="Invoke"} ' in metrics


@pytest.mark.parametrize("owner", ["count-returns-nothing", "count-returns-text"])
def test_a_wrong_result_is_a_fault_of_the_provider(tree, agent, owner):
    """The error says that the provider is at fault."""
    assert "a fault of the provider" in call(tree, "notes.count", owner, check=1).stderr


def test_without_an_agent_the_plugin_runs_for_the_call(tree, tmp_path):
    """The plugin ends with the call."""
    alone = Tree(tmp_path / "tree")
    alone.settings(yaml.safe_dump({"plugins": yaml.safe_load(tree.config.read_text())["plugins"]}))

    assert "total: 1" in call(alone, "notes.count", "you").stdout.replace('"', "")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tree.root.parent / "pid").read_text()), 0)
