"""Candidates: repositories that a tool tries before they are configured, with files in a directory of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast.resources import paths
from holdfast.resources.errors import refused_call
from holdfast.resources.interfaces.host import ProviderHost
from holdfast.resources.paths.handle import ABSENT
from holdfast.resources.providers._config_files import list_config, write_config

CANDIDATES = Path("/run/holdfast/repositories")
"""Directory of the directories of candidates; everybody may enter it, as apt fetches and verifies as another user."""


@asynccontextmanager
async def candidate(host: ProviderHost, name: str, files: Mapping[str, str]) -> AsyncIterator[Path]:
    """Write files, by name, to a directory that exists only within the body. Raises `Permanent` or `Temporary`."""
    directory = host.system_path(directory_of(name))
    await host.blocking(_make, directory, files)
    try:
        yield directory
    finally:
        await host.blocking(_remove, directory)


def directory_of(name: str) -> Path:
    """Return the directory of the candidate for a repository."""
    return CANDIDATES / name.replace("/", "-")


def _make(directory: Path, files: Mapping[str, str]) -> None:
    _remove(directory)
    for name, text in files.items():
        write_config(directory / name, text)


def _remove(directory: Path) -> None:
    """Remove a directory and its files, also one that a killed agent has left."""
    try:
        for name in list_config(directory):
            place = paths.at(str(directory / name))
            place.unlink(own=True)
        place = paths.at(str(directory))
        place.rmdir()
    except ABSENT:
        return
    except OSError as error:
        raise refused_call(f"cannot remove {directory}: {error.strerror}", error) from None
