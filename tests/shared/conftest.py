"""Hosts that share strings in keys of one test."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from holdfast.agent.settings import Settings
from settings_text import loader
from sharing import SharingHost


@pytest.fixture
def prefix() -> str:
    """A beginning of keys that no other test uses."""
    return f"/{uuid.uuid4()}/"


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Callable[[str], SharingHost]]:
    """A function that makes a host with a name; all hosts end with the test."""
    async with AsyncExitStack() as stack:

        def host(name: str) -> SharingHost:
            found = SharingHost(name, tmp_path / name)
            stack.push_async_exit(found)
            return found

        yield host


@pytest.fixture
def loaded(tmp_path: Path) -> Callable[[str], Settings | list[str]]:
    """A function that loads settings, and returns them or the messages of the error with their lines."""
    return loader(tmp_path)
