"""A one-shot run beside a running agent: what the agent knows, and what the agent must be told of the run."""

from __future__ import annotations

import asyncio
import math
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from holdfast.agent.control.account import repeat
from holdfast.agent.control.remote import Line, OtherStates, RemoteJournal, Unreachable, connected, known
from holdfast.agent.control.schema import ControlError
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.journal import Journal
from holdfast.agent.engine.report import Event, Notice
from holdfast.agent.engine.tables import read
from holdfast.agent.health import Health
from holdfast.agent.settings import Settings
from holdfast.agent.statedir import JOURNAL, LOCK, Lock, LockedError, open_journal
from holdfast.resources.errors import HoldfastError

PATIENCE = 10.0
"""Seconds within which an agent that has gone away must be back, or have left its journal, for what a run has done to be written there."""
PAUSE = 0.1
"""Seconds between two tries."""


class Agent:
    """The running agent, which keeps account of what the run does. Made with `joined`."""

    def __init__(self, line: Line, settings: Settings, emit: Callable[[Event], None]) -> None:
        self._line, self._settings, self._emit = line, settings, emit

    @property
    def gone(self) -> bool:
        """Whether it is told nothing any more."""
        return bool(self._line.broken)

    def tend(self, engine: Engine) -> None:
        """When the agent goes away, what runs ends and nothing more is started: nobody would keep account of it."""
        line, emit = self._line, self._emit
        stopping: list[asyncio.Task[None]] = []

        def lost() -> None:
            text = f"{line.broken}: what runs may end, and nothing more is started; apply again"
            emit(Notice("warning", "agent-gone", "", text))
            stopping.append(asyncio.create_task(engine.stop(math.inf)))

        def waits(key: str) -> None:
            emit(
                Notice(
                    "warning",
                    "agent-at-work",
                    "",
                    f"waiting for the agent, which is at work on {key} or on what watches it",
                )
            )

        line.lost, line.waits = lost, waits

    async def end(self, directory: Path) -> None:
        """What was done is on record, or it is said that it may not be. When the agent is gone it goes to the next one, or to the file."""
        settings, left, why = self._settings, await self._line.end(), self._line.broken
        until = time.monotonic() + PATIENCE
        while left and time.monotonic() < until:
            try:
                with (
                    Lock(directory / LOCK, "apply"),
                    closing(open_journal(directory / JOURNAL, Health(), durable=settings.durable)) as journal,
                ):
                    repeat(journal, left)
                    await journal.secure()
                left = []
            except LockedError:
                with suppress(ControlError):
                    next_line, _ = await connected(settings.socket, "apply", settings.tree)
                    next_line.repeat(left)
                    left = await next_line.end()
            except (HoldfastError, OSError) as error:
                why = str(error)
            if left:
                await asyncio.sleep(PAUSE)
        if left:
            text = f"cannot write down what was done: {why}; the agent finds out itself, and may do some of it again"
            self._emit(Notice("warning", "agent-gone", "", text))


async def joined(
    settings: Settings, emit: Callable[[Event], None], locked: LockedError
) -> tuple[Journal, Agent | None]:
    """A copy of the journal of the agent that holds the state directory, and that agent, which must be told of every change.

    Without the agent, and in memory alone, if it keeps other states: nothing done here concerns it. Raises `locked` where no agent answers.
    """
    try:
        line, rows = await connected(settings.socket, "apply", settings.tree)
    except OtherStates:
        return Journal(), None
    except Unreachable:  # another one-shot run, or an agent that starts, stops, or listens elsewhere
        raise locked from None
    except ControlError as error:
        raise HoldfastError(f"cannot apply beside the agent: {error}") from error
    return RemoteJournal(rows, line), Agent(line, settings, emit)


async def copied(settings: Settings, emit: Callable[[Event], None]) -> Journal:
    """What is known now, for a run that only looks: to the agent, or by the file, or nothing where neither is ours to ask."""
    try:
        return Journal(copied=await known(settings.socket, settings.tree))
    except (ControlError, OSError):
        path = settings.state_dir / JOURNAL
    if os.access(path, os.R_OK):
        try:
            return Journal(copied=read(path))
        except sqlite3.Error as error:
            emit(
                Notice(
                    "warning",
                    "journal-unread",
                    "",
                    f"cannot read {path}: {error}; refreshes that are owed are not known",
                )
            )
    return Journal()
