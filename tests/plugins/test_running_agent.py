"""A plugin of a running agent: settings and schema that change, and an agent that is killed. Agents take seconds."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import time
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast.agent.model.package import to_json
from holdfast_process import Agent, Tree, holdfast
from notes_package import NOTES, SCHEMA
from notes_plugin import notes_tree

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root calls functions")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A configuration with the plugin of the notes, and a note."""
    return notes_tree(tmp_path)


def count(tree: Tree, check: int = 0) -> str:
    """Call a function of the plugin."""
    done = holdfast("call", "--config", tree.config, "notes.count", "me", "--format", "json", check=check)
    return done.stdout if check == 0 else json.loads(done.stdout)["error"]


def plugin_pid(tree: Tree) -> int:
    """Return the process of the plugin that was started last."""
    return int((tree.root.parent / "pid").read_text())


def gone(pid: int) -> bool:
    """Wait until a process has ended."""
    until = time.monotonic() + DEADLINE
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    return True


def test_no_plugin_survives_an_agent_that_is_killed_and_the_next_one_starts_it_again(tree):
    """The directory of the socket is removed, too."""
    with Agent(tree) as agent:
        assert json.loads(count(tree)) == {"total": 1, "largest": "web"}
        pid = plugin_pid(tree)
        before = {*Path("/run/holdfast-plugins").iterdir()}
        agent.signal(signal.SIGKILL)
        agent.process.wait()
    assert gone(pid)
    until = time.monotonic() + DEADLINE
    while before <= {*Path("/run/holdfast-plugins").iterdir()}:
        assert time.monotonic() < until
        time.sleep(0.01)
    with Agent(tree):
        count(tree)
        assert plugin_pid(tree) != pid


def test_an_agent_that_stops_ends_its_plugins_first(tree):
    """The agent ends within the time that systemd permits."""
    with Agent(tree) as agent:
        count(tree)
        pid = plugin_pid(tree)
        assert agent.stop() == 0
    assert not Path(f"/proc/{pid}").exists()


def test_a_changed_schema_follows_a_reload_and_a_broken_one_stops_nothing(tree):
    """The process is replaced when its schema or program has changed. While the schema is invalid, the old one runs."""
    schema = tree.root.parent / "schema.json"
    with Agent(tree) as agent:
        count(tree)
        first = plugin_pid(tree)
        schema.write_text("{")
        agent.wait_log("is not the schema of a package")
        count(tree)
        assert plugin_pid(tree) == first

        since = len(agent.log)
        schema.write_text(to_json(dataclasses.replace(NOTES, version="1.1.0")))
        agent.wait_log("fixed: states and settings can be used again", since)
        count(tree)
        second = plugin_pid(tree)
        assert second != first
        assert gone(first)

        program = tree.root.parent / "provider.py"
        program.write_text(program.read_text() + "# another version\n")
        agent.wait(lambda: count(tree) and plugin_pid(tree) != second, "the process of the new program")
        second = plugin_pid(tree)

        since = len(agent.log)
        tree.config.write_text(tree.config.read_text().replace("files: 512", "files: 500"))
        agent.wait_log("compiled", agent.wait_log("the configuration has changed", since))
        agent.wait(lambda: count(tree) and plugin_pid(tree) != second, "the new process")
        assert f"files {500}" in (tree.root.parent / "limits").read_text()


def test_a_plugin_with_another_schema_is_told_and_used_again_once_both_are_the_same(tree):
    """A new version of the package is installed without its schema.json."""
    agents_own = tree.root.parent / "agents.json"
    agents_own.write_text(to_json(dataclasses.replace(NOTES, version="2.0.0")))
    text = tree.config.read_text()
    tree.config.write_text(text.replace(str(tree.root.parent / "schema.json"), str(agents_own)))
    with Agent(tree) as agent:
        told = count(tree, check=1)
        assert "it serves version 1.0.0 of the package with another schema; the agent has version 2.0.0" in told
        assert "plugins: notes 2.0.0 broken" in holdfast("status", "--config", tree.config).stdout
        agents_own.write_text(SCHEMA)
        agent.wait_log("compiled", agent.wait_log("the configuration has changed"))
        agent.wait(lambda: "total" in holdfast("call", "--config", tree.config, "notes.count", "me").stdout, "a call")
