"""A plugin that no agent has started: mutual TLS over TCP. Certificates take half a second, a start as long."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.plugins.conftest import Caller

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
def command(tmp_path: Path, certificates: Path) -> list[str]:
    """What starts the provider."""
    for name in ("provider.py", "notes_stub.py"):
        (tmp_path / name).write_text((HOME / name).read_text())
    (tmp_path / "schema.json").write_text(SCHEMA)
    (tmp_path / "config.yaml").write_text(f"directory: {tmp_path}\n")
    files = [f"--certificate={certificates}/own.pem", f"--key={certificates}/own.key"]
    return [
        sys.executable,
        f"{tmp_path}/provider.py",
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
    """The agent cannot give another one."""
    async with serving(command) as address:
        client = client_of(address, certificates)
        caller = Caller(client)
        await shake_hands(client, Schema(NOTES))
        created = await caller("Create", inputs={"name": "web", "owner": "me"})
        with pytest.raises(Temporary, match="the plugin has its configuration from where it was started"):
            await client.call("Configure", message["ConfigRequest"]())
        await client.close()

    assert (created.id, created.failure.code) == ("web", "")


@pytest.mark.parametrize(("ca", "own"), [("ca", "other"), ("other", "own")], ids=["agent", "plugin"])
async def test_neither_end_speaks_to_one_whose_certificate_another_authority_has_signed(command, certificates, ca, own):
    """A certificate that signs itself is none."""
    async with serving(command) as address:
        client = client_of(address, certificates, ca, own)
        with pytest.raises(Temporary, match="the plugin cannot be reached"):
            await client.call("Health", message["HealthRequest"](), timeout=DEADLINE)
        await client.close()


async def ended(command: list[str]) -> str:
    """Run a plugin that cannot serve; return what it says."""
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
        (lambda words: [*words, "--config=/etc/hostname"], "it must be a mapping"),
        (lambda words: [each for each in words if not each.startswith("--config")], "directory: it is required"),
    ],
    ids=["alone", "address", "key", "config", "no config"],
)
async def test_what_cannot_be_served_is_said_in_one_line(command, change, told):
    """No traceback."""
    said = await ended(change(command))

    assert told in said
    assert "Traceback" not in said


async def test_a_key_that_everybody_can_read_is_refused(command, tmp_path, certificates):
    """As other secrets are."""
    key = tmp_path / "open.key"
    key.write_bytes((certificates / "own.key").read_bytes())
    key.chmod(0o644)

    assert "everybody can read it" in await ended([*command, f"--key={key}"])
