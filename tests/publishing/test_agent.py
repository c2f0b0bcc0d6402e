"""A real agent and a real broker: from a drift to its message. Each test starts an agent, which takes a second."""

from __future__ import annotations

import contextlib
import json
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast_process import Agent, Tree
from mqtt_listener import Listener

SECRET = "hunter22-and-more"
AT_ONCE = 20.0
"""Seconds for what takes milliseconds, because the machine may be busy. A broker that hangs is given up after 30."""


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A configuration with one file."""
    found = Tree(tmp_path / "tree")
    found.file()
    return found


def with_broker(tree: Tree, port: int, more: str = "") -> None:
    """Name the broker in agent.yaml."""
    tree.settings(f"mqtt:\n  url: mqtt://127.0.0.1:{port}\n{more}")


def test_a_drift_becomes_a_message(tree, own_broker):
    """The message has the pass in which it was repaired. The host is online meanwhile, and then offline."""
    with_broker(tree, own_broker.port)
    with Listener(own_broker.port) as heard:
        with Agent(tree):
            heard.wait(lambda: heard.of("gap"))
            began = time.time()
            (tree.host / "motd").write_text("drifted")
            heard.wait(lambda: [each for each in heard.of("passes") if each["record"]["cause"] == "drift"])
        heard.wait(lambda: heard.of("presence")[-1]["state"] == "offline")
    record = heard.of("changes")[-1]["record"]
    assert record["resource"] == f"file.managed[{tree.host}/motd]"
    assert (record["what"], record["origin"], record["host"]) == ("repaired", "drift", "test")
    assert began < record["at"] < began + 30
    assert record["run"] == heard.of("passes")[-1]["record"]["id"]
    assert {each.topic.split("/")[1] for each in heard.heard} == {"test"}


def test_an_agent_that_was_killed_is_offline_and_goes_on_where_it_was(tree, own_broker):
    """Repairs while the broker was away are published after both are back."""
    with_broker(tree, own_broker.port)
    with Listener(own_broker.port) as heard, Agent(tree) as agent:
        heard.wait(lambda: heard.of("gap"))
        agent.wait(lambda: number_of(tree, "published") == 1, "the acknowledgement of the beginning")
        since = len(agent.log)
        own_broker.kill()
        (tree.host / "motd").write_text("drifted")
        agent.wait_log("repaired", since)
        agent.wait(lambda: "mqtt-unavailable" in {each["code"] for each in tree.json("status")["health"]}, "health")
        agent.wait(lambda: number_of(tree, "changes") >= 2, "the record, which is written within a second")
        agent.signal(signal.SIGKILL)
        agent.process.wait()
    own_broker.start()
    with Listener(own_broker.port) as heard, Agent(tree):
        heard.wait(lambda: [each for each in heard.of("changes") if each["record"]["origin"] == "drift"])


def conditions(heard: Listener) -> list[dict[str, Any]]:
    """Return all conditions of the messages that list them."""
    return [each for told in heard.of("conditions") for each in told["conditions"]]


def number_of(tree: Tree, table: str) -> int:
    """Return the number of rows of a table in the database."""
    with contextlib.closing(sqlite3.connect(f"file:{tree.root}/state/records.db?mode=ro", uri=True)) as db:
        return db.execute("select count(*) from rows where tbl = ?", (table,)).fetchone()[0]


def test_a_broker_that_hangs_delays_no_repair(tree, own_broker):
    """The broker delays neither repairs nor the stop of the agent."""
    with_broker(tree, own_broker.port)
    with Listener(own_broker.port) as heard, Agent(tree) as agent:
        heard.wait(lambda: heard.of("gap"))
        own_broker.pause()
        for text in range(5):
            since = len(agent.log)
            began = time.monotonic()
            (tree.host / "motd").write_text(f"drifted {text}")
            agent.wait_log("repaired", since)
            assert time.monotonic() - began < AT_ONCE
        began = time.monotonic()
        agent.stop()
        assert time.monotonic() - began < AT_ONCE
        own_broker.resume()


def test_a_broker_is_named_and_removed_while_the_agent_runs(tree, own_broker):
    """The agent needs no restart.

    An agent that never had a broker has not imported the libraries, which take memory.
    """
    with Listener(own_broker.port) as heard, Agent(tree, PYTHONPROFILEIMPORTTIME="1") as agent:
        assert "asyncio" in agent.log
        assert "mqtt" not in agent.log.replace("holdfast.agent.publishing.mqtt_settings", "")
        with_broker(tree, own_broker.port)
        heard.wait(lambda: heard.of("gap"))
        assert "paho.mqtt" in agent.log
        (tree.host / "motd").write_text("drifted")
        heard.wait(lambda: heard.of("changes"))
        tree.settings("")
        heard.wait(lambda: heard.of("presence")[-1]["state"] == "offline")


def test_states_that_are_broken_from_the_start_are_told(tree, own_broker):
    """The agent is online though nothing is managed."""
    with_broker(tree, own_broker.port)
    tree.sls("broken", "a:\n  file.nonsense: []\n")
    with Listener(own_broker.port) as heard, Agent(tree):
        heard.wait(lambda: heard.of("presence"))
        heard.wait(lambda: any(each["id"] == "states-broken" for each in conditions(heard)))


def test_no_secret_leaves_the_host(tree, own_broker, tmp_path):
    """Secrets are those of the pillar, the password of the broker, and the content of a private file."""
    password = tmp_path / "password"
    password.write_text(f"{SECRET}-of-broker\n")
    password.chmod(0o600)
    tree.pillar(f"db:\n  password: {SECRET}\n")
    tree.sls("db", "HOST/db:\n  file.managed:\n    - contents: 'x {{ pillar.db.password }}'\n    - mode: '0644'\n")
    tree.sls("own", "HOST/own:\n  file.managed:\n    - contents: only-for-root\n    - mode: '0600'\n")
    tree.sls("echo", "echo {{ pillar.db.password }}:\n  cmd.run: []\n")
    with_broker(tree, own_broker.port, f"  user: web1\n  password_file: {password}\n")
    with Listener(own_broker.port) as heard, Agent(tree) as agent:
        heard.wait(lambda: heard.of("gap"))
        (tree.host / "own").write_text("hotfix")
        heard.wait(lambda: [each for each in heard.of("passes") if each["record"]["cause"] == "drift"])
        status = tree("status", "--format", "json").stdout
        shown = agent.log + status + Path(f"/proc/{agent.process.pid}/cmdline").read_text()
    told = repr(heard.heard)
    assert "file.managed" in told
    assert SECRET not in told + shown
    assert "only-for-root" not in told
    assert "hotfix" not in told


def test_an_event_of_a_state_is_published_with_its_data(tree, own_broker):
    """It is published once for each version of the state.

    A command of a later state has the variable of `environ.setenv`.
    """
    with_broker(tree, own_broker.port)
    out = tree.host / "out"
    event = "my/tag: {event.send: [{data: {number: NUMBER}}]}\n"
    command = f"COLOUR: {{environ.setenv: [{{value: blue}}]}}\nrun: {{cmd.run: [{{name: 'echo $COLOUR >{out}'}}]}}\n"

    def sent():
        return [each["record"] for each in heard.of("changes") if each["record"]["kind"] == "event.send"]

    with Listener(own_broker.port) as heard, Agent(tree):
        heard.wait(lambda: heard.of("gap"))
        for number in (1, 2):
            tree.sls("event", event.replace("NUMBER", str(number)) + command)
            heard.wait(lambda number=number: len(sent()) == number)
    assert [each["changes"] for each in sent()] == [
        {"tag": "my/tag", "data": json.dumps({"number": number})} for number in (1, 2)
    ]
    assert out.read_text() == "blue\n"
