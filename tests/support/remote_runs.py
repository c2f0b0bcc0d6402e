"""Runs of one note, for tests of remote kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.resources.assignment import Assignment
from holdfast.resources.report import Report
from holdfast.resources.testing import FakeContext
from remote_bench import NotesPlugin

WEB = {"name": "web", "owner": "me", "lines": [{"text": "hello"}]}


class Runner:
    """Runs notes, each with a report of its own."""

    def __init__(self, kind: Any, plugin: NotesPlugin, directory: Path) -> None:
        self.kind, self.plugin, self.directory = kind, plugin, directory
        self.ctx = FakeContext(directory, identity="notes.note[the note]", plugins={"notes": plugin})

    async def __call__(self, apply: bool = True, wanted: tuple[str, ...] = (), **more: Any) -> bool:
        """Check a note and, with `apply`, repair it."""
        self.ctx.report = Report()
        self.ctx.assignment = Assignment(sends=self.kind.sends, wanted=wanted)
        self.plugin.calls.clear()
        return bool(await self.kind.declare(**{**WEB, **more}).check_apply(self.ctx, apply))

    @property
    def report(self) -> Report:
        """The report of the last run."""
        return self.ctx.report

    @property
    def calls(self) -> list[str]:
        """Return the calls of the last run, and when it wrote down what it remembers."""
        return self.plugin.calls

    @property
    def record(self) -> Any:
        """What is remembered."""
        return self.plugin.records.get("the note")

    def file(self, name: str = "web") -> Path:
        """Return the path of a note."""
        return self.directory / "notes" / name
