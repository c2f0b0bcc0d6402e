"""The records of a one-shot run, which writes its passes and changes itself, also beside a running agent.

The file is opened at the first change, or when a resource uses the strings in it, so that a run that finds nothing to
do does not touch it. A database that cannot be used never stops the run: one warning says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.agent.engine.model.events import Event, Interrupted, Notice, PassStarted, Ran
from holdfast.agent.health import Health
from holdfast.agent.paths import RECORDS

if TYPE_CHECKING:
    from holdfast.agent.records.recorder import Recorder
    from holdfast.agent.records.records import Records

TIMEOUT = 5.0
"""Seconds that the end of the run waits for the disk."""
CODE = "not-recorded"
"""Code of the warning."""


@asynccontextmanager
async def recorded(
    directory: Path, host: str, redact: Callable[[Any], Any], emit: Callable[[Event], None], *, durable: bool
) -> AsyncIterator[RunRecords]:
    """Yield the records of a run. At the end of the block, everything is written, or a warning is emitted."""
    run = RunRecords(directory, host, redact, durable=durable)
    try:
        yield run
    finally:
        if why := await run.end():
            emit(Notice("warning", CODE, "", f"the changes of this run are not recorded: {why}"))
        if run.renewed:
            emit(Notice("warning", "records-renewed", "", f"the records in {directory / RECORDS}: {run.renewed}"))


class RunRecords:
    """The records of one run.

    The recorder is imported and made for the first event to record, because most runs have none.
    """

    def __init__(self, directory: Path, host: str, redact: Callable[[Any], Any], *, durable: bool) -> None:
        self._directory, self._host, self._redact, self._durable = directory, host, redact, durable
        self._health = Health()
        self._pass: PassStarted | None = None
        self._recorder: Recorder | None = None
        self._records: Records | None = None
        self._writing: asyncio.Task[None] | None = None

    def database(self) -> Records:
        """Return the database. The first call opens it."""
        if self._records is None:
            from holdfast.agent.records.records import Records  # noqa: PLC0415 - only runs with news need it

            self._records = Records(self._directory, self._health, agent=False, durable=self._durable)
        return self._records

    def tell(self, event: Event) -> None:
        """Record an event of the engine."""
        if self._recorder is not None:
            self._recorder.tell(event)
        elif isinstance(event, PassStarted):
            self._pass = event
        elif isinstance(event, Ran | Interrupted) and event.outcome.news:
            self._recorder = self._begun()
            if self._pass is not None:
                self._recorder.tell(self._pass)
            self._recorder.tell(event)

    def _begun(self) -> Recorder:
        from holdfast.agent.records.actors import this_process  # noqa: PLC0415 - only runs with news need it
        from holdfast.agent.records.recorder import Recorder  # noqa: PLC0415 - the same

        recorder = Recorder(
            self.database(),
            self._health,
            host=lambda: self._host,
            declared=_any,
            redact=self._redact,
            operator=this_process(self._redact),
        )
        self._writing = asyncio.create_task(recorder.run(), name="records")
        return recorder

    @property
    def renewed(self) -> str:
        """Why the database was recreated in this run, and what happened to its records; empty if it was not."""
        return self._records.driver.renewed if self._records else ""

    async def end(self) -> str:
        """Write the waiting records, and close the file; return why that was not possible."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait([self._writing])
        try:
            async with asyncio.timeout(TIMEOUT):
                try:
                    return await self._write_rest()
                finally:
                    if self._records is not None:
                        await self._records.close()
        except TimeoutError:
            return f"the disk has not answered for {TIMEOUT:g} s"

    async def _write_rest(self) -> str:
        """Write the waiting records; return why that was not possible."""
        queue = self._recorder.queue if self._recorder else None
        while queue and queue.waits:
            if not await queue.flush():
                return queue.trouble
        return ""


def _any(_: str) -> bool:
    """Return True: resources that the run leaves out may be declared nevertheless."""
    return True
