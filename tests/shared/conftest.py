"""Hosts that share strings in keys of one test."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

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
