"""A provider in TypeScript as a process: its start, secret, log and end are as with a provider in Python."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator
from getpass import getuser
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.conftest import Caller

import typescript
from deadline import DEADLINE
from holdfast.agent.plugins.client import Client, shake_hands
from holdfast.agent.plugins.launching import Launch
from holdfast.agent.plugins.messages import message
from holdfast.agent.plugins.process import PluginProcess, launch
from holdfast.agent.plugins.schema import Schema
from holdfast.resources.errors import Permanent, Temporary
from notes_package import NOTES

HEALTH = message["HealthRequest"]()
WEB = {"name": "web", "owner": "me"}


@pytest.fixture
def below() -> Any:
    """A directory for the directories of plugins."""
    with tempfile.TemporaryDirectory(prefix="plugins-") as name:
        yield Path(name)


@pytest.fixture
def log() -> list[tuple[str, Any]]:
    """What the plugin has logged."""
    return []


async def started(program: Path, below: Path, log: list[Any], **environment: str) -> PluginProcess:
    """Start a plugin."""
    wanted = Launch("notes", [typescript.node(), str(program)], user=getuser(), environment=environment)
    return await launch(wanted, lambda level, said: log.append((level, said)), below)


@pytest.fixture
async def plugin(node_notes: Path, below: Path, log: list[Any]) -> AsyncIterator[PluginProcess]:
    """A plugin that runs."""
    found = await started(node_notes / "provider.js", below, log)
    yield found
    await found.stop()


async def test_it_agrees_with_the_agent_on_the_schema(plugin):
    """The digest is that of the schema from which the compiler has generated the provider."""
    await shake_hands(plugin.client, Schema(NOTES))
    answer = await plugin.client.call("GetSchema", message["GetSchemaRequest"]())
    other = Schema(dataclasses.replace(NOTES, version="2.0.0"))

    assert Schema.read(answer.schema.decode()).digest == Schema(NOTES).digest
    with pytest.raises(Permanent, match="with another schema"):
        await shake_hands(plugin.client, other)


@pytest.mark.parametrize("secret", ["guess", ""])
async def test_nobody_without_the_secret_of_this_start_is_answered(plugin, below, secret):
    """Calls and watches without the secret are refused.

    The secret is neither in the arguments nor in the environment.
    """
    path = next(below.iterdir())
    stranger = Client.local("notes", str(path / "socket"), secret)
    with pytest.raises(Permanent, match="refused the secret"):
        await stranger.call("Health", HEALTH)
    with pytest.raises(Permanent, match="refused the secret"):
        await anext(stranger.watch(["notes:note:Note"], ""))
    await stranger.close()
    told = Path(f"/proc/{plugin.pid}/cmdline").read_text() + Path(f"/proc/{plugin.pid}/environ").read_text()

    assert plugin.client._metadata[0][1] not in told
    assert (path / "socket").stat().st_mode & 0o077 == 0


async def test_it_ends_with_its_agent_also_during_a_watch_and_a_call(plugin, tmp_path):
    """Watches end at once, and a call that hangs has three seconds."""
    caller = Caller(plugin.client)
    await caller.configure(tmp_path)
    events = plugin.client.watch(["notes:note:Note"], "")
    assert (await anext(events)).armed
    hanging = asyncio.ensure_future(caller.read("read-hangs"))
    await caller.until("read")
    os.kill(plugin.pid, signal.SIGTERM)

    assert await asyncio.wait_for(plugin.ended, DEADLINE) == "ended with status 0"
    with pytest.raises(Temporary):
        await hanging


async def test_it_ends_when_its_standard_input_does(node_notes, tmp_path):
    """The provider ends whichever program has started it."""
    reading, writing = os.pipe()
    os.write(writing, b"secret")
    os.close(writing)
    process = await asyncio.create_subprocess_exec(
        *(typescript.node(), str(node_notes / "provider.js"), str(tmp_path / "s")),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[reading],
        env={"HOLDFAST_PLUGIN_SECRET": str(reading)},
    )
    os.close(reading)
    async with asyncio.timeout(DEADLINE):
        assert await process.stdout.readline() == b"holdfast-plugin ready\n"
        process.stdin.close()
        assert await process.wait() == 0


@pytest.mark.parametrize(
    ("environment", "arguments", "told"),
    [
        ({}, (), "name it under `plugins` in agent.yaml, and the agent starts it"),
        ({"SECRET": ""}, ("/tmp/s",), "the agent has sent no secret"),
        ({"SECRET": "yes"}, ("/no/such/folder/socket",), "/no/such/folder"),
        ({"SECRET": "yes", "NOTES_WITHOUT_FUNCTION": "yes"}, ("/tmp/s",), "nothing provides notes:note:Count: pass an"),
    ],
    ids=["alone", "secret", "socket", "parts"],
)
def test_what_cannot_be_served_is_said_in_one_line(node_notes, environment, arguments, told):
    """The output has no stack trace."""
    reading, writing = os.pipe()
    os.write(writing, environment.get("SECRET", "").encode())
    os.close(writing)
    given = {**environment, "HOLDFAST_PLUGIN_SECRET": str(reading)} if environment else {}
    done = subprocess.run(
        [typescript.node(), str(node_notes / "provider.js"), *arguments],
        env=given,
        stdin=subprocess.DEVNULL,
        pass_fds=[reading],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    os.close(reading)

    assert done.returncode == 1
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


async def test_a_call_fails_for_now_when_it_crashes(plugin, tmp_path):
    """The failure is temporary, because the next process may answer."""
    caller = Caller(plugin.client)
    await caller.configure(tmp_path)
    with pytest.raises(Temporary, match="the plugin has ended"):
        await caller.read("read-crashes")
    assert await asyncio.wait_for(plugin.ended, DEADLINE) == "ended with status 3"


async def test_its_log_has_the_place_of_a_failure_and_no_secret(plugin, tmp_path, log):
    """A line that is too long is dropped. Errors that an author throws on purpose are not logged."""
    caller = Caller(plugin.client)
    await caller.configure(tmp_path)
    assert not (await caller.read("read-floods")).exists
    assert (await caller.read("read-fails")).failure.code == "permanent"
    answer = await caller("Create", inputs={**WEB, "name": "create-raises", "password": "correct horse"})
    async with asyncio.timeout(DEADLINE):
        while not log:
            await asyncio.sleep(0)

    assert answer.failure.code == "fault"
    assert [level for level, _ in log] == ["error"]
    assert "Create has failed: RangeError" in log[0][1]["message"]
    assert "provider.js:" in log[0][1]["message"]
    assert "correct horse" not in repr(log)


def test_secrets_of_the_configuration_are_masked_in_messages(node_notes, tmp_path):
    """All texts of the provider are masked; payloads are not changed."""
    program = node_notes / "masked.mjs"
    program.write_text(
        "import { Redactor, textsOf } from './holdfast-runtime/failures.js';\n"
        "import { Secret } from './holdfast-runtime/values.js';\n"
        "const made = new Redactor(textsOf({ a: new Secret('correct horse'), b: [{ pin: new Secret(1234567) }] }));\n"
        "const violations = [{ path: 'a.1234567', message: 'no correct%20horse' }];\n"
        "console.log(JSON.stringify(made.message({ id: '1234567', failure: { message: '1234567!' }, violations })));"
    )

    assert json.loads(typescript.run(program)) == {
        "id": "1234567",
        "failure": {"message": "********!"},
        "violations": [{"path": "a.********", "message": "no ********"}],
    }


def test_a_watch_whose_agent_reads_slowly_keeps_no_listeners(node_notes):
    """Each wait for the agent removes what it has added to the stream."""
    program = node_notes / "slow.mjs"
    program.write_text(
        "import { EventEmitter } from 'node:events';\n"
        "import { written } from './holdfast-runtime/server.js';\n"
        "const call = Object.assign(new EventEmitter(), { write: () => false });\n"
        "for (const end of ['drain', 'cancelled', 'close']) {\n"
        "  const waiting = written(call, {});\n"
        "  call.emit(end);\n"
        "  await waiting;\n"
        "}\n"
        "console.log(JSON.stringify(call.eventNames()));"
    )

    assert json.loads(typescript.run(program)) == []


async def test_a_large_state_and_a_large_message_arrive_whole(plugin, tmp_path):
    """Messages have at most 64 MB."""
    caller = Caller(plugin.client)
    await caller.configure(tmp_path)
    lines = [{"text": "é" * (5 << 20)}]
    answer = await caller("Create", inputs={**WEB, "lines": lines}, timeout=DEADLINE)

    assert caller.payloads.state(caller.payloads.schema.resources["notes:note:Note"], answer.state)["lines"] == lines


async def test_the_caller_of_an_abandoned_call_is_told_to_the_author_and_others_are_answered(plugin, tmp_path):
    """An abandoned call does not delay other calls."""
    caller = Caller(plugin.client)
    await caller.configure(tmp_path)
    with pytest.raises(Temporary, match="no answer in time"):
        await caller.read("read-hangs", timeout=0.2)

    assert (await caller("Create", inputs=WEB)).id == "web"


def test_a_trial_calls_a_provider_as_the_agent_does(node_notes):
    """`plugin.Trial` in TypeScript: the tests of notes/trial.test.ts, by the runner of Node.js."""
    command = [typescript.node(), "--test", str(node_notes / "trial.test.js")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)

    assert done.returncode == 0, done.stdout
    assert "# pass 8" in done.stdout
