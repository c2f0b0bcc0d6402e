"""A disk that keeps only what was flushed, for tests of a loss of power."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from engine_bench import Bench
from fake_machine import Machine
from holdfast.agent.engine.deliver.database import Statement
from holdfast.agent.engine.deliver.journal import Journal


class Disk:
    """Writes the journal at `path`. After a loss of power, the journal ends with the last batch that was flushed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.writes = 0
        self.flushes = 0
        self.slow: asyncio.Event | None = None
        """Event that writes wait for."""
        self.error: Exception | None = None
        """Error that writes raise."""
        self.kept: dict[str, bytes] = {}
        """Content that was flushed."""

    async def __call__(self, call: Callable[..., object], statements: Sequence[Statement], flush: bool) -> None:
        """Write a batch, in the time that a disk takes. The journal calls this object to write."""
        await (self.slow.wait() if self.slow else asyncio.sleep(0.005))
        if self.error:
            raise self.error
        call(statements, flush)
        self.writes += 1
        if flush:
            self.flushes += 1
            self.kept = files(self.path)

    def cut(self) -> Path:
        """Return the path of a copy of the journal as a loss of power leaves it."""
        return put(self.kept, self.path.with_name(f"{self.path.name}-after-{self.flushes}"))


def files(path: Path) -> dict[str, bytes]:
    """Return the database and its log, as a new process finds them after a kill; suffix -> content."""
    found = {}
    for end in ("", "-wal"):
        with suppress(FileNotFoundError), open(f"{path}{end}", "rb") as file:  # noqa: PTH123 - called after each step
            found[end] = file.read()
    return found


def put(kept: dict[str, bytes], path: Path) -> Path:
    """Write the files under another name, and return it."""
    for end, data in kept.items():
        path.with_name(path.name + end).write_bytes(data)
    return path


class DurableBench(Bench):
    """An engine bench with a journal on a disk that may lose power."""

    def __init__(self, machine: Machine, path: Path) -> None:
        super().__init__(machine, path)
        self.disk = Disk(path)

    def open_journal(self) -> Journal:
        """Return a journal that waits for the disk."""
        return Journal(self.disk.path, blocking=self.disk)

    def cut_power(self) -> None:
        """Give the next engine the journal that a loss of power leaves at this moment."""
        self.disk = Disk(self.disk.cut())
