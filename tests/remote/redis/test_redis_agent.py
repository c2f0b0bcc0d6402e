"""The package redis through a real agent: from state files to a server, and repairs of drift."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from getpass import getuser
from pathlib import Path

import pytest
import yaml
from tests.remote.redis.conftest import REDIS

import typescript
from deadline import DEADLINE
from holdfast_process import Agent, Tree
from redis_server import RedisServer, asking

STATES = """
greeting:
  redis.key:
    - text: hello

app:limits:
  redis.key:
    - database: 2
    - fields: {requests: "100"}

app:
  redis.acl_user:
    - password: correct horse battery
    - rules: [+@read]
    - keys: ["~app:*"]

maxmemory:
  redis.config:
    - value: 100mb
"""


@pytest.fixture
def tree(tmp_path: Path, redis: RedisServer, redis_program: Path) -> Tree:
    """A configuration with the plugin and the states."""
    made = Tree(tmp_path / "tree")
    plugin = {
        "schema": str(REDIS / "provider/schema.json"),
        "command": [typescript.node(), str(redis_program)],
        "user": getuser(),
        "config": {"socket": str(redis.socket)},
    }
    made.settings(yaml.safe_dump({"plugins": {"redis": plugin}}))
    made.sls("redis", STATES)
    return made


@pytest.fixture
def agent(tree: Tree) -> Iterator[Agent]:
    """A running agent."""
    with Agent(tree) as found:
        yield found


def until(condition: Callable[[], bool]) -> float:
    """Wait until a condition holds; return the seconds that it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + DEADLINE, "waited in vain"
        time.sleep(0.001)  # so that the agent need not share its CPU
    return time.monotonic() - began


def test_states_are_applied_from_nothing_and_then_there_is_nothing_to_do(tree, redis):
    """A plan changes nothing, and no password is shown."""
    planned = tree("plan", check=2)
    assert redis.ask("DBSIZE") == "0"
    first = tree("apply", "--detailed-exitcode", check=2)
    second = tree("apply", "--detailed-exitcode", check=0)

    assert redis.ask("GET", "greeting") == "hello"
    assert redis.ask("-n", "2", "HGET", "app:limits", "requests") == "100"
    assert redis.ask("CONFIG", "GET", "maxmemory").split()[1] == "104857600"
    assert "app" in redis.ask("ACL", "USERS").split()
    for done in (planned, first, second):
        assert "horse" not in done.stdout + done.stderr


def test_damaged_keys_are_right_again_at_once(tree, redis):
    """The server's events cause the repairs. On an idle machine, half of them take less than 20 ms."""
    tree.sls("redis", "".join(f"k{number}:\n  redis.key:\n    - text: hello\n" for number in range(20)))
    with Agent(tree), asking(redis) as ask:
        times = []
        for number in range(20):
            ask("SET", f"k{number}", "damaged")
            times.append(until(lambda: ask("GET", f"k{number}") == "hello"))  # noqa: B023 - it is called at once

    assert statistics.median(times) < 1


def test_a_server_that_was_away_is_made_right(agent, redis):
    """Its keys are lost, which no event reports."""
    redis.stop()
    redis.start()

    until(lambda: redis.ask("GET", "greeting") == "hello")


def test_a_plugin_that_is_killed_is_started_again_and_goes_on(agent, redis):
    """After the restart, drift is repaired as before."""
    for pid in agent_plugins(agent.process.pid):
        os.kill(pid, 9)
    redis.ask("SET", "greeting", "damaged")

    until(lambda: redis.ask("GET", "greeting") == "hello")


def test_a_plugin_that_is_killed_while_it_creates_is_followed_by_one_that_finishes(agent, redis):
    """The server delays the creation until the plugin is dead. The key is created only once."""
    with asking(redis) as ask:
        for words in (("MULTI",), ("DEL", "greeting"), ("CLIENT", "PAUSE", "60000", "WRITE")):
            ask(*words)
        ask("EXEC")
    until(lambda: "blocked_clients:1" in redis.ask("INFO", "clients"))
    for pid in agent_plugins(agent.process.pid):
        os.kill(pid, 9)
    redis.ask("CLIENT", "UNPAUSE")

    until(lambda: redis.ask("GET", "greeting") == "hello")


def test_absent_keys_are_deleted_and_other_databases_replace(tree, redis):
    """The plan shows both before."""
    tree("apply", check=0)
    tree.sls("redis", "greeting:\n  redis.key:\n    - text: hello\n    - database: 3\n")
    planned = tree("plan", check=2).stdout
    tree("apply", check=0)
    replaced = redis.ask("GET", "greeting"), redis.ask("-n", "3", "GET", "greeting")
    tree.sls("redis", "greeting:\n  redis.key:\n    - text: hello\n    - database: 3\n    - ensure: absent\n")
    tree("apply", check=0)

    assert "replace" in planned
    assert replaced == ("", "hello")
    assert redis.ask("-n", "3", "GET", "greeting") == ""


def agent_plugins(pid: int) -> list[int]:
    """Return the processes of plugins below an agent."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            words = (each / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"main.js" in b" ".join(words[1:2]) and str(pid) in ancestors(each.name):
            found.append(int(each.name))
    return found


def ancestors(pid: str) -> list[str]:
    """Return the processes from which one descends."""
    found = []
    while pid not in ("0", "1"):
        pid = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1]
        found.append(pid)
    return found
