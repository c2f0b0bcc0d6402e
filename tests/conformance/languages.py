"""Runs a provider of `language` on this host, for the conformance suites of pip, npm and gem."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.health import Health
from holdfast.agent.host.host import LocalHost
from holdfast.resources.interfaces.language import LanguageInterface
from holdfast.resources.interfaces.results import ChangeSet

Body = Callable[[LanguageInterface], Awaitable[Any]]


def with_tool(tool: str, command: str, tmp_path: Path, body: Body) -> Any:
    """Return the result of a body, which gets the provider. Skips the test if the command is missing.

    On CI, a skipped test makes the run fail.
    """
    if shutil.which(command) is None:
        pytest.skip(f"there is no command {command}; scripts/test installs it")

    async def run() -> Any:
        async with LocalHost(states=tmp_path, var_dir=tmp_path, facts={}, health=Health()) as host:
            return await body(host.interfaces.get(LanguageInterface, tool))

    return asyncio.run(run())


def changes(done: ChangeSet) -> dict[str, tuple[str, str]]:
    """Return the changes of a result: name -> old and new."""
    return {name: (change["old"], change["new"]) for name, change in done.changes.items()}
