"""`holdfast call notes.count`: through a running agent and without one. An agent takes seconds to start."""

from __future__ import annotations

import json
import os
import pwd
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from holdfast_process import Agent, Tree, holdfast
from notes_package import HOME, SCHEMA

ME = pwd.getpwuid(os.geteuid()).pw_name
SECRET = "correct horse battery"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root calls functions")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A configuration with the plugin of the notes, and two notes."""
    directory = tmp_path_factory.mktemp("calls")
    directory.chmod(0o755)
    for name in ("provider.py", "notes_stub.py"):
        (directory / name).write_text((HOME / name).read_text())
    saying = 'notes = Notes()\n    Path(sys.argv[0]).with_name("pid").write_text(str(os.getpid()))\n'
    provider = directory / "provider.py"
    provider.write_text(provider.read_text().replace("notes = Notes()\n", saying))
    (directory / "schema.json").write_text(SCHEMA)
    (directory / "notes").mkdir()
    for name, owner in (("web", "me"), ("mail", "you")):
        (directory / "notes" / name).write_text(json.dumps([owner, []]))
    made = Tree(directory / "tree")
    notes = {
        "schema": str(directory / "schema.json"),
        "command": [sys.executable, str(directory / "provider.py")],
        "user": ME,
        "environment": {"PYTHONPATH": os.pathsep.join(sys.path)},
        "config": {"directory": str(directory / "notes")},
    }
    with made.config.open("a") as file:
        file.write(yaml.safe_dump({"plugins": {"notes": notes}}))
    return made


@pytest.fixture(scope="module")
def agent(tree: Tree) -> Iterator[Agent]:
    """A running agent."""
    with Agent(tree) as found:
        yield found


def call(tree: Tree, *words: str, check: int = 0) -> Any:
    """Call a function."""
    return holdfast("call", "--config", tree.config, *words, check=check)


def history(tree: Tree) -> str:
    """Return what the history says."""
    return str(holdfast("history", "--config", tree.config).stdout)


def test_a_function_is_called_through_the_agent(tree, agent):
    """Arguments are words, in order or by name; the log has the call."""
    assert json.loads(call(tree, "notes.count", "me", "--format", "json").stdout) == {"total": 1, "largest": "web"}
    assert "total: 1" in call(tree, "notes.count", "owner=me").stdout.replace('"', "")
    assert "called notes.count owner=me" in agent.log
    agent.wait(lambda: "called notes.count owner=me" in history(tree), "the call in the history")


def test_secrets_are_masked_in_the_answer_and_in_the_log(tree, agent):
    """Also in an error of the provider."""
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
    """As calls of interfaces are."""
    assert told in call(tree, *words, check=64).stderr


@pytest.mark.parametrize("owner", ["count-returns-nothing", "count-returns-text"])
def test_a_wrong_result_is_a_fault_of_the_provider(tree, agent, owner):
    """And said so."""
    assert "a fault of the provider" in call(tree, "notes.count", owner, check=1).stderr


def test_without_an_agent_the_plugin_runs_for_the_call(tree, tmp_path):
    """It ends with it."""
    alone = Tree(tmp_path / "tree")
    alone.settings(yaml.safe_dump({"plugins": yaml.safe_load(tree.config.read_text())["plugins"]}))

    assert "total: 1" in call(alone, "notes.count", "you").stdout.replace('"', "")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tree.root.parent / "pid").read_text()), 0)
