"""The provider as a process of its own, which the agent starts, and which is killed. A start takes half a second."""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast.agent.health import Health
from holdfast.agent.plugins.declared import PluginLoader
from holdfast.agent.plugins.plugin_settings import PluginSettings
from holdfast.agent.plugins.plugins import Plugins
from holdfast.agent.plugins.schema import Schema
from holdfast.resources.errors import HoldfastError, Temporary
from remote_agent import RemoteAgent

HOME = Path(__file__).parents[3] / "resources/remote/postgres"
ME = pwd.getpwuid(os.geteuid()).pw_name


class Remembering:
    """The records of remote resources, in memory; the real ones have their own tests."""

    async def get(self, token, name):
        """Return nothing."""

    async def put(self, token, name, record):
        """Forget it."""


def declared(server, **config):
    """Return the plugin as agent.yaml declares it, with the user of the tests in place of postgres."""
    given = {
        "schema": HOME / "provider/schema.json",
        "command": [sys.executable, str(HOME / "provider/postgres_plugin.py")],
        "user": ME,
        "environment": {"PYTHONPATH": os.pathsep.join(sys.path)},
        "config": {**server.config, **config},
    }
    return PluginLoader().load({"postgres": PluginSettings.model_validate(given)})


@pytest.fixture
async def plugins(server) -> AsyncIterator[Plugins]:
    """The plugins of an agent, of which one is the provider."""
    with tempfile.TemporaryDirectory(prefix="plugins-") as name:
        plugins = Plugins(Health(), Remembering(), Path(name))
        await plugins.use(declared(server))
        yield plugins
        await plugins.stop()


@pytest.fixture
def remote(plugins) -> RemoteAgent:
    """The agent's end of the process."""
    return RemoteAgent(Schema.read((HOME / "provider/schema.json").read_text()), plugins.get("postgres"))


async def becomes(server, query):
    """Wait until a query has a row whose first value is true."""
    async with asyncio.timeout(DEADLINE):
        while not server.value(query):
            await asyncio.sleep(0.01)


def kill(plugins):
    """Kill the process."""
    os.kill(plugins.state()[0]["pid"], signal.SIGKILL)


def test_without_psycopg_the_program_says_in_one_line_what_to_install(tmp_path):
    """The lines of its error output are those of the agent's log."""
    (tmp_path / "psycopg.py").write_text("raise ImportError('no pq wrapper available.\\nAttempts made: 3')")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    program = [sys.executable, HOME / "provider/postgres_plugin.py"]
    ended = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)

    (line,) = ended.stderr.splitlines()
    assert line == (
        "psycopg is not usable: no pq wrapper available. Attempts made: 3; pip install 'holdfast[postgres]'"
    )
    assert ended.returncode == 1


async def test_a_role_that_was_being_made_when_the_provider_was_killed_is_made_once(plugins, remote, server, name):
    """The server rolls the transaction back. The failure is temporary, and the next run creates the role."""
    role = {"name": name, "login": True, "comment": "made", "password": "correct horse"}
    with server.connect() as holder:
        holder.execute("BEGIN")
        holder.execute("LOCK TABLE pg_shdescription IN SHARE MODE")
        run = asyncio.create_task(remote.run("postgres.role", **role))
        await becomes(server, "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'relation'")
        kill(plugins)
        with pytest.raises(Temporary):
            await run
    await becomes(server, "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'holdfast'")

    assert await remote.run("postgres.role", **role) == ["create"]
    assert await remote.run("postgres.role", **role) == []
    assert server.sql("SELECT 1 AS one", user=name, host="127.0.0.1", password="correct horse")


async def test_a_database_that_was_being_made_when_the_provider_was_killed_is_found(plugins, remote, server, database):
    """The server completes the creation without the provider.

    The next run finds the database, and completes its settings.
    """
    made = {"name": f"{database}_new", "comment": "new"}
    with server.connect("template1"):
        run = asyncio.create_task(remote.run("postgres.database", **made))
        await becomes(server, "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'CREATE DATABASE%'")
        kill(plugins)
        with pytest.raises(Temporary):
            await run
    await becomes(server, f"SELECT 1 FROM pg_database WHERE datname = '{database}_new'")

    assert await remote.run("postgres.database", **made) == ["comment"]
    assert await remote.run("postgres.database", **made) == []
    await remote.run("postgres.database", "absent", **made)


async def test_a_wrong_password_of_the_provider_is_said_without_it(plugins, remote, server, tmp_path):
    """The password is in the file that `password_file` names."""
    secret = tmp_path / "password"
    secret.write_text("wrong-password\n")
    secret.chmod(0o600)
    await plugins.use(declared(server, host="127.0.0.1", ssl_mode="disable", password_file=str(secret)))

    with pytest.raises((HoldfastError, Exception), match="password authentication failed") as told:
        await remote.run("postgres.role", name="x")
    assert "wrong-password" not in str(told.value)
    assert getattr(told.value, "code", "") == "permanent"


async def test_a_server_that_does_not_exist_may_be_there_later(plugins, remote, server, tmp_path):
    """The failure is temporary, and the message has the address."""
    await plugins.use(declared(server, host=str(tmp_path)))

    with pytest.raises(Exception, match=f"{tmp_path}.*No such file or directory") as told:
        await remote.run("postgres.role", name="x")
    assert getattr(told.value, "code", "") == "retry"
