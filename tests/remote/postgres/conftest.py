"""The package `postgres` against a real server, with its provider in the process of the test."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.agent.plugins.in_process import InProcess
from holdfast.agent.plugins.schema import Schema
from holdfast.agent.plugins.servicer import Servicer
from postgres_plugin import PostgresProvider
from postgres_server import PostgresServer, programs
from remote_agent import RemoteAgent

SCHEMA = (Path(__file__).parents[3] / "resources/remote/postgres/provider/schema.json").read_text()
NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """A server for all tests of the process; its start takes two seconds."""
    if programs() is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("PostgreSQL is not installed")
    with PostgresServer() as server:
        yield server


@pytest.fixture
def name() -> str:
    """A name that no other test uses, with characters that must be quoted in statements."""
    return f"T{next(NUMBERS)} \"o'%s"


@pytest.fixture
def database(server: PostgresServer) -> Iterator[str]:
    """A database that only this test uses."""
    name = f"shop{next(NUMBERS)}"
    server.sql(f"CREATE DATABASE {name} STRATEGY file_copy")
    yield name
    server.sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture
async def provider(server: PostgresServer) -> AsyncIterator[PostgresProvider]:
    """The provider, whose connections end with the test."""
    provider = PostgresProvider()
    yield provider
    for each in list(provider.sessions.idle):
        await provider.sessions.leave(each)


@pytest.fixture
async def agent(server: PostgresServer, provider: PostgresProvider) -> RemoteAgent:
    """The agent's end of the provider."""
    agent = RemoteAgent(Schema.read(SCHEMA), InProcess(Servicer(SCHEMA, provider.operations, provider.configure)))
    await agent.configure(**server.config)
    return agent
