"""The provider of the package redis, as a process, and a real server."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from getpass import getuser
from pathlib import Path
from typing import Any

import pytest

import redis_server
import typescript
from holdfast.agent.plugins.client import shake_hands
from holdfast.agent.plugins.launching import Launch
from holdfast.agent.plugins.process import PluginProcess, launch
from holdfast.agent.plugins.schema import Schema
from provider_caller import ProviderCaller
from redis_server import RedisServer

REDIS = Path(__file__).parents[3] / "resources/remote/redis"


@pytest.fixture(scope="session")
def redis_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled provider of the package redis. This takes five seconds."""
    folder = tmp_path_factory.mktemp("redis")
    shutil.copytree(REDIS / "provider", folder / "src", ignore=shutil.ignore_patterns("*.json", "node_modules"))
    return typescript.compiled(folder) / "main.js"


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    """A server."""
    with redis_server.serving() as server:
        yield server


@pytest.fixture
def log() -> list[tuple[str, Any]]:
    """What the provider has logged."""
    return []


@pytest.fixture
async def plugin(redis_program: Path, log: list[Any]) -> AsyncIterator[PluginProcess]:
    """The provider of the package redis, as a process."""
    wanted = Launch("redis", [typescript.node(), str(redis_program)], user=getuser())
    with tempfile.TemporaryDirectory() as below:
        found = await launch(wanted, lambda level, said: log.append((level, said)), Path(below))
        yield found
        await found.stop()


@pytest.fixture
async def provider(plugin: PluginProcess, redis: RedisServer) -> ProviderCaller:
    """The same, with its configuration."""
    schema = Schema.read((REDIS / "provider/schema.json").read_text())
    await shake_hands(plugin.client, schema)
    found = ProviderCaller(plugin.client, schema)
    await found.configure(socket=str(redis.socket))
    return found
