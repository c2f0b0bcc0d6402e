"""Remote kinds, with the provider of notes in the process of the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.agent.remote.resource import RemoteResource
from holdfast.resources import registry
from remote_bench import NotesPlugin, note_kind, notes_plugin


@pytest.fixture
def note() -> Iterator[type[RemoteResource]]:
    """The kind of notes, while the test runs."""
    yield note_kind()
    for kind in registry.remote():
        registry.forget(kind)


@pytest.fixture
async def notes(tmp_path: Path) -> NotesPlugin:
    """The plugin, whose notes are in a directory."""
    (tmp_path / "notes").mkdir()
    return await notes_plugin(tmp_path / "notes")
