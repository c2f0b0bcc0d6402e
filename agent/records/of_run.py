"""The records of a one-shot run, which writes its passes and changes itself, also beside a running agent.

The file is opened at the first change, so that a run that finds nothing to do does not touch it. A database that cannot
be used never stops the run: one warning says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast.agent.engine.model.events import Event, Notice
from holdfast.agent.health import Health
from holdfast.agent.northbound.errors import NorthboundError
from holdfast.agent.records.askers import this_process
from holdfast.agent.records.recorder import Recorder
from holdfast.agent.records.records import Records

PATIENCE = 5.0
"""Seconds that the end of the run waits for the disk."""
CODE = "not-recorded"
"""Code of the warning."""


@asynccontextmanager
async def recorded(
    directory: Path, host: str, redact: Callable[[Any], Any], emit: Callable[[Event], None], *, durable: bool
) -> AsyncIterator[Callable[[Event], None]]:
    """Yield a function that records events. At the end of the block, everything is written, or a warning is emitted."""
    health = Health()
    records = Records(directory, health, agent=False, durable=durable)
    recorder = Recorder(records, health, host=lambda: host, declared=_any, redact=redact, operator=this_process(redact))
    writing = asyncio.create_task(recorder.run(), name="records")
    try:
        yield recorder.tell
    finally:
        writing.cancel()
        await asyncio.wait([writing])
        if why := await _end(recorder, records):
            emit(Notice("warning", CODE, "", f"the changes of this run are not recorded: {why}"))


async def _end(recorder: Recorder, records: Records) -> str:
    """Write what waits, and close the file; return why that was not possible."""
    try:
        async with asyncio.timeout(PATIENCE):
            try:
                if recorder.waits:
                    await recorder.adopt()
                while recorder.waits:
                    if not await recorder.flush():
                        return recorder.trouble
            finally:
                await records.close()
    except TimeoutError:
        return f"the disk has not answered for {PATIENCE:g} s"
    except NorthboundError as error:
        return str(error)
    return ""


def _any(_: str) -> bool:
    """Return True: what the run leaves out may be declared nevertheless."""
    return True
