"""A one-shot run beside a running agent: it reads the journal of the agent, and reports each change to the agent."""

from __future__ import annotations

import asyncio
import math
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from holdfast.agent.control.internal import ApplyBeside
from holdfast.agent.control.journal_session import REPORT, repeat
from holdfast.agent.control.remote import AgentConnection, OtherStates, RemoteJournal, Unreachable, connected, known
from holdfast.agent.control.schema import ControlError
from holdfast.agent.engine.deliver.journal import Journal
from holdfast.agent.engine.deliver.tables import read
from holdfast.agent.engine.engine import Engine
from holdfast.agent.engine.model.events import Event, Notice, Ran
from holdfast.agent.health import Health
from holdfast.agent.settings import Settings
from holdfast.agent.statedir import JOURNAL, LOCK, Lock, LockedError, open_journal
from holdfast.resources.errors import HoldfastError

TIMEOUT = 10.0
"""Seconds to wait, after the agent has stopped, until it runs again or its journal is free to record the changes."""
PAUSE = 0.1
"""Seconds between two attempts."""


class AgentBeside:
    """The running agent, which records the changes of the run. `joined` creates it."""

    def __init__(self, line: AgentConnection, settings: Settings, emit: Callable[[Event], None]) -> None:
        self._line, self._settings, self._emit = line, settings, emit

    @property
    def gone(self) -> bool:
        """Whether the connection to the agent is lost."""
        return bool(self._line.broken)

    def tend(self, engine: Engine) -> None:
        """End the run if the agent stops: running resources may finish, but no other starts without a journal."""
        line, emit = self._line, self._emit
        stopping: list[asyncio.Task[None]] = []

        def lost() -> None:
            text = f"{line.broken}: running resources may finish, and no others are started; apply again"
            emit(Notice("warning", "agent-gone", "", text))
            stopping.append(asyncio.create_task(engine.stop(math.inf)))

        def waits(key: str) -> None:
            emit(
                Notice(
                    "warning",
                    "agent-at-work",
                    "",
                    f"waiting for the agent, which runs {key} or a resource that watches it",
                )
            )

        line.lost, line.waits = lost, waits

    def tell(self, event: Event) -> None:
        """Handle an event of the engine: the agent logs each change, with the process that has made it."""
        if self._line.reports and isinstance(event, Ran) and event.outcome.changed:
            self._line.tell(REPORT, event.outcome.identity)

    async def end(self, directory: Path) -> None:
        """End the run beside the agent: its changes are recorded, or the run reports that they may not be.

        If the agent has stopped, the next agent or the file gets the record.
        """
        settings, left, why = self._settings, await self._line.end(), self._line.broken
        until = time.monotonic() + TIMEOUT
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
                    next_line, _ = await connected(settings.socket, ApplyBeside(settings.tree))
                    next_line.repeat(left)
                    left = await next_line.end()
            except (HoldfastError, OSError) as error:
                why = str(error)
            if left:
                await asyncio.sleep(PAUSE)
        if left:
            text = (
                f"cannot record the changes: {why}; the agent finds them by its own checks, and may repeat some of them"
            )
            self._emit(Notice("warning", "agent-gone", "", text))


async def joined(
    settings: Settings, emit: Callable[[Event], None], locked: LockedError
) -> tuple[Journal, AgentBeside | None]:
    """Return a copy of the journal of the agent that holds the state directory, and that agent.

    If the agent manages other states, the journal is only in memory and no agent is returned, because the agent does
    not need the changes. Raises `locked` if no agent answers.
    """
    try:
        line, rows = await connected(settings.socket, ApplyBeside(settings.tree))
    except OtherStates:
        return Journal(), None
    except Unreachable:  # another one-shot run, or an agent that starts, stops, or listens elsewhere
        raise locked from None
    except ControlError as error:
        raise HoldfastError(f"cannot apply while the agent runs: {error}") from error
    return RemoteJournal(rows, line), AgentBeside(line, settings, emit)


async def copied(settings: Settings, emit: Callable[[Event], None]) -> Journal:
    """Return a journal for a run without changes: the agent's, the file's, or an empty one if neither may be read."""
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
                    f"cannot read {path}: {error}; pending refreshes are unknown",
                )
            )
    return Journal()
