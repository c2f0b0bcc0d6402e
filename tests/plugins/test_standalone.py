"""A plugin that no agent has started, in each language: mutual TLS over TCP.

Certificates take half a second, a start as long, and the compilation of the provider in TypeScript five seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.plugins.conftest import Caller

import typescript
from certificates import make_certificates
from deadline import DEADLINE
from holdfast.agent.plugins.client import Client, shake_hands
from holdfast.agent.plugins.messages import message
from holdfast.agent.plugins.schema import Schema
from holdfast.resources.errors import Temporary
from notes_package import HOME, NOTES, SCHEMA


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with certificates."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def python_program(tmp_path: Path) -> list[str]:
    """The provider in Python."""
    for name in ("provider.py", "notes_stub.py"):
        (tmp_path / name).write_text((HOME / name).read_text())
    (tmp_path / "schema.json").write_text(SCHEMA)
    return [sys.executable, f"{tmp_path}/provider.py"]


@pytest.fixture
def node_program(node_notes: Path) -> list[str]:
    """The provider in TypeScript."""
    return [typescript.node(), str(node_notes / "provider.js")]


@pytest.fixture(params=["python", "node"])
def command(request: pytest.FixtureRequest, tmp_path: Path, certificates: Path) -> list[str]:
    """What starts the provider. Its configuration is JSON, which is YAML as well."""
    (tmp_path / "config.yaml").write_text(json.dumps({"directory": str(tmp_path)}))
    (tmp_path / "config.yaml").chmod(0o600)
    files = [f"--certificate={certificates}/own.pem", f"--key={certificates}/own.key"]
    return [
        *request.getfixturevalue(f"{request.param}_program"),
        "--listen=127.0.0.1:0",
        *files,
        f"--authority={certificates}/ca.pem",
        f"--config={tmp_path}/config.yaml",
    ]


@asynccontextmanager
async def serving(command: list[str]) -> AsyncIterator[str]:
    """Run a plugin; its address is the value."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=environment)
    async with asyncio.timeout(DEADLINE):
        line = (await process.stdout.readline()).decode()
    try:
        yield line.rpartition(" at ")[2].strip()
    finally:
        process.terminate()
        assert await asyncio.wait_for(process.wait(), DEADLINE) == 0


def client_of(address: str, certificates: Path, ca: str = "ca", own: str = "own") -> Client:
    """Return a client with these certificates."""
    texts = [(certificates / name).read_bytes() for name in (f"{ca}.pem", f"{own}.pem", f"{own}.key")]
    return Client.distant("notes", address, *texts)


async def test_an_agent_with_a_certificate_is_served_with_the_configuration_of_the_plugin(command, certificates):
    """The agent cannot replace the configuration."""
    async with serving(command) as address:
        client = client_of(address, certificates)
        caller = Caller(client)
        await shake_hands(client, Schema(NOTES))
        created = await caller("Create", inputs={"name": "web", "owner": "me"})
        for method, request in (("Configure", "ConfigRequest"), ("Cancel", "CancelRequest")):
            with pytest.raises(Temporary, match="Cancel would end the calls of other agents"):
                await client.call(method, message[request]())
        await client.close()

    assert (created.id, created.failure.code) == ("web", "")


async def test_a_plugin_that_was_started_anew_refuses_calls_until_both_sides_shake_hands_again(command, certificates):
    """The new process may have another schema, and gRPC reconnects silently."""
    async with serving(command) as address:
        client = client_of(address, certificates)
        await shake_hands(client, Schema(NOTES))
        first = client.start
        await client.call("Health", message["HealthRequest"]())
    async with serving([each.replace("127.0.0.1:0", address) for each in command]):
        async with asyncio.timeout(DEADLINE):
            while True:
                with pytest.raises(Temporary) as caught:
                    await client.call("Health", message["HealthRequest"]())
                if "cannot be reached" not in str(caught.value):
                    break
                await asyncio.sleep(0.01)
        other = client_of(address, certificates)
        await shake_hands(other, Schema(NOTES))
        for each in (client, other):
            await each.close()

    assert str(caught.value) == "plugin notes: Health: the plugin was restarted"
    assert "" != first != other.start


@pytest.mark.parametrize(("ca", "own"), [("ca", "other"), ("other", "own")], ids=["agent", "plugin"])
async def test_neither_end_speaks_to_one_whose_certificate_another_authority_has_signed(command, certificates, ca, own):
    """Self-signed certificates are refused, too."""
    async with serving(command) as address:
        client = client_of(address, certificates, ca, own)
        with pytest.raises(Temporary, match="the plugin cannot be reached"):
            await client.call("Health", message["HealthRequest"](), timeout=DEADLINE)
        await client.close()


async def ended(command: list[str]) -> str:
    """Run a plugin that cannot serve; return its output."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE, env=environment)
    async with asyncio.timeout(DEADLINE):
        told = (await process.communicate())[1].decode()
    assert process.returncode
    return told


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda words: words[:2], "name it under `plugins` in agent.yaml, and the agent starts it"),
        (lambda words: [*words, "--listen=nowhere"], "cannot listen at nowhere"),
        (lambda words: [*words, "--key=/no/such.key"], "cannot read /no/such.key: No such file or directory"),
        (lambda words: [*words, "--key=/dev/null"], "/dev/null"),
        (lambda words: [*words, "--bogus"], "--bogus"),
        (lambda words: [each for each in words if not each.startswith("--key")], "required: --key"),
        (lambda words: [*words, "--config=LIST"], "it must be a mapping"),
        (lambda words: [each for each in words if not each.startswith("--config")], "directory: it is required"),
    ],
    ids=["alone", "address", "key", "device", "option", "no key", "config", "no config"],
)
async def test_what_cannot_be_served_is_said_without_a_traceback(command, tmp_path, change, told):
    """The message names the option, the file or the address."""
    (tmp_path / "list").write_text("[5]")
    (tmp_path / "list").chmod(0o600)
    said = await ended([each.replace("LIST", f"{tmp_path}/list") for each in change(command)])

    assert told in said
    assert "Traceback" not in said


@pytest.mark.parametrize("option", ["key", "config"])
async def test_a_secret_that_everybody_can_read_is_refused(command, tmp_path, option):
    """The file of this package's configuration may contain a secret."""
    path = tmp_path / "open"
    path.write_text("{}")
    path.chmod(0o644)

    assert f"cannot use the secret in {path}: everybody can read it" in await ended([*command, f"--{option}={path}"])


@pytest.mark.parametrize("option", ["certificate", "authority", "config"])
async def test_a_file_that_others_can_write_is_refused(command, tmp_path, option):
    """Other users could change whom the plugin trusts, and what it does."""
    path = tmp_path / "open"
    path.write_text("{}")
    path.chmod(0o666)

    assert f"{path}: " in await ended([*command, f"--{option}={path}"])


async def test_a_file_in_a_directory_that_others_can_write_is_refused(command, tmp_path):
    """Other users could replace the file."""
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "config").write_text("{}")
    folder.chmod(0o777)

    assert f"{folder}: " in await ended([*command, f"--config={folder}/config"])


async def test_a_key_of_another_certificate_is_refused(command, certificates):
    """The error is raised before the plugin listens."""
    assert "cannot " in await ended([*command, f"--key={certificates}/other.key"])


async def test_an_address_in_use_is_refused(command):
    """The error has the address."""
    async with serving(command) as address:
        assert f"cannot listen at {address}" in await ended([*command, f"--listen={address}"])
