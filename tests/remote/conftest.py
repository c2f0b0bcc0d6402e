"""Remote kinds, with the provider of notes in the process of the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.agent.remote.resource import RemoteResource
from holdfast.resources import registry
from remote_bench import NotesPlugin, note_kind, notes_plugin
from remote_runs import Runner


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


@pytest.fixture
def run(note: type[RemoteResource], notes: NotesPlugin, tmp_path: Path) -> Runner:
    """A runner of one note."""
    return Runner(note, notes, tmp_path)
