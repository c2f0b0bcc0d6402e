"""Lines of the log from before those in memory, made from the records of changes, failures and notes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from holdfast.agent.console import LogEntry
from holdfast.agent.host.blocking import LINGER, Blocking
from holdfast.agent.records.actors import described
from holdfast.agent.records.history import Chosen, HistoryRecord, last, oldest
from holdfast.agent.records.ids import time_of
from holdfast.agent.records.reading import RecordReader
from holdfast.agent.records.wording import change_in_words, details_of
from holdfast.agent.records.write_queue import WriteQueue
from holdfast.resources.errors import HoldfastError

MARK = {"source": "records", "logger": "holdfast"}
"""Fields of all these lines."""


class OlderLines:
    """The lines that one client requests. They are read in a thread; there are none if the records cannot be read."""

    def __init__(self, queue: WriteQueue, asked: Chosen) -> None:
        self._queue, self._asked = queue, asked
        self._blocking = Blocking(1, linger=LINGER)

    async def beginning(self) -> float | None:
        """Return the time of the oldest record; None if there is none."""
        at: float | None = await self._blocking(_beginning, self._queue.path)
        return at

    async def before(
        self, at: float, since: float | None, most: int, page: int
    ) -> AsyncGenerator[list[LogEntry], None]:
        """Yield the last entries before a time, at most `most` and oldest first, in pages; none from before `since`."""
        await self._queue.settle()
        asked = self._asked._replace(since=since or 0.0, until=at)
        found = _entries(self._queue.path, asked, most)
        try:
            while entries := await self._blocking(list, islice(found, page)):
                yield entries
        finally:
            await self._blocking(found.close)


def _entries(path: Path, asked: Chosen, most: int) -> Generator[LogEntry, None, None]:
    with suppress(HoldfastError, OSError), RecordReader(path) as reader:
        yield from (_entry(each) for each in last(reader, asked, most) if each.values)


def _beginning(path: Path) -> float | None:
    with suppress(HoldfastError, OSError), RecordReader(path) as reader:
        return min((time_of(each) for each in oldest(reader)), default=None)
    return None


def _entry(record: HistoryRecord) -> LogEntry:
    values = record.values
    if record.table == "notes":
        said = values.get("text") or values["what"]
        return {**MARK, "time": values["at"], "level": "info", "event": said, "code": "noted"}
    failed = values["result"] == "failed"
    told = values.get("comment") if failed or values["result"] != "changed" else ""
    author = described(values.get("by")) if values["origin"] == "drift" else ""
    sentence = f"{values['what']} {change_in_words(values, author)}"
    entry: LogEntry = {
        **MARK,
        "time": values["first"],
        "level": "error" if failed else "info",
        "event": f"{sentence}: {told}" if told else sentence,
        "resource": values["resource"],
        "what": values["what"],
        "result": values["result"],
        "cause": values["cause"],
        "duration": values.get("duration", 0.0),
    }
    optional = {
        name: values[name] for name in ("changes", "diff", "undone", "ended", "by", "public") if values.get(name)
    }
    if lines := "\n".join(details_of(values)):
        optional["details"] = lines
    return {**entry, **optional}
