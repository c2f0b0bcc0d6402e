"""The queue of records for the database, and the task that writes them: in the background, in order and in groups.

History (changes, passes, notes) waits in at most `ROOM` bytes; while the database cannot be written, the oldest entries
are lost, and counted. State (this host, its conditions, resources that are not as declared) is never lost: only the
last version of each row waits. `kill -9` loses the reports of about the last second. A write continues if its caller is
cancelled, so that nothing is written twice.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from holdfast.agent import disk_room
from holdfast.agent.health import Health
from holdfast.agent.host.blocking import LINGER, Blocking
from holdfast.agent.northbound.drivers.base import DbTransaction, Delete, Put
from holdfast.agent.northbound.errors import Invalid, NorthboundError, Unavailable
from holdfast.agent.records.records import Records
from holdfast.states.gc_pause import trim

DELAY = 0.2
"""Seconds from a report to the writing of its rows."""
RETRY = 5.0
"""Seconds between two attempts while the database cannot be written."""
TIMEOUT = 2.0
"""Seconds for which a query and the end of the agent wait for the disk."""
ROOM, EACH = 16 << 20, 1 << 10
"""Most bytes of history that wait; bytes that each entry takes in addition to its texts."""
GROUP, GROUP_ROOM = 200, 1 << 20
"""Most entries that are written together, and bytes after which a group is full."""
MANY = 1000
"""Entries after which free memory is returned to the system."""
LOST, UNOPENED = "records-lost", "records-unopened"
"""Codes of the health conditions for records that were never written, and for a database that cannot be opened."""

Key = tuple[str, str]
"""Table and ID of a row."""
Work = Callable[[], Sequence[Put | Delete]]
"""Makes the rows of an entry, in a thread."""


class _Entry(NamedTuple):
    key: Key
    work: Work
    size: int
    """Bytes; 0 for state."""


class WriteQueue:
    """The entries of one agent or of one one-shot run.

    `begin` is awaited before the first write; it opens the database, and raises `NorthboundError` if that is
    impossible. `tell_lost` is called with the number of entries that were lost, as soon as others can be written.
    """

    def __init__(
        self, records: Records, health: Health, begin: Callable[[], Awaitable[None]], tell_lost: Callable[[int], None]
    ) -> None:
        self.path = records.path
        """The path of the database."""
        self._records, self._health = records, health
        self._begin, self._tell_lost = begin, tell_lost
        self._begun = False
        self._history: OrderedDict[Key, _Entry] = OrderedDict()
        self._state: OrderedDict[Key, _Entry] = OrderedDict()
        self._size = 0
        """Bytes of the waiting history."""
        self._lost = 0
        """Lost entries that have not been reported yet."""
        self._untrimmed = 0
        """Entries written since free memory was last returned to the system."""
        self._why = ""
        """Why the last flush failed before it reached the database."""
        self._blocking = Blocking(1, linger=LINGER)
        self._writing = asyncio.Lock()
        self._flush_next: asyncio.Task[bool] | None = None
        """A flush that has not begun: it writes all entries that are added until then."""
        self._flushes: set[asyncio.Task[bool]] = set()
        self._wake = asyncio.Event()
        records.waits = lambda: self.waits

    @property
    def trouble(self) -> str:
        """Why nothing can be written now; empty if it can."""
        return self._why or self._records.driver.trouble

    @property
    def waits(self) -> bool:
        """Whether something is not written yet."""
        return bool(self._history or self._state or self._flushes)

    def add(self, key: Key, work: Work, size: int = 0) -> None:
        """Add history to be written. An entry that waits for the same row is replaced."""
        self._put(_Entry(key, work, size + EACH))
        self._drop()

    def withdraw(self, key: Key) -> None:
        """Write no history for this row that still waits."""
        if entry := self._history.pop(key, None):
            self._size -= entry.size

    def set(self, key: Key, work: Work) -> None:
        """Add a row of state to be written or deleted."""
        self._put(_Entry(key, work, 0))

    async def run(self, *, at_once: bool) -> None:
        """Write entries until cancelled. `at_once`: open the database before any entry is added."""
        if at_once:
            self._wake.set()
        while True:
            await self._wake.wait()
            await asyncio.sleep(DELAY)
            if not await self.flush():
                await asyncio.sleep(RETRY)
                self._wake.set()

    async def settle(self) -> None:
        """Write all waiting entries, unless the disk does not answer in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT):
                await self.flush()

    async def flush(self) -> bool:
        """Write everything added so far; return False if that is impossible now."""
        flush = self._flush_next
        if flush is None:
            flush = self._flush_next = asyncio.create_task(self._flush(), name="records flush")
            self._flushes.add(flush)
            flush.add_done_callback(self._flushes.discard)
        return await asyncio.shield(flush)

    # -- entries -----------------------------------------------------------------------------------------------

    def _part(self, entry: _Entry) -> OrderedDict[Key, _Entry]:
        return self._history if entry.size else self._state

    def _put(self, entry: _Entry) -> None:
        part = self._part(entry)
        if known := part.get(entry.key):
            self._size -= known.size
        part[entry.key] = entry
        self._size += entry.size
        self._wake.set()

    def _take(self) -> list[_Entry]:
        """Remove a group from the queue, and return it: the oldest of history and of state."""
        group: list[_Entry] = []
        size = 0
        while len(group) < GROUP and size < GROUP_ROOM and (self._history or self._state):
            state = self._state and (not self._history or len(group) % 2)  # alternately, so that neither waits for long
            _, entry = (self._state if state else self._history).popitem(last=False)
            self._size -= entry.size
            size += entry.size
            group.append(entry)
        return group

    def _put_back(self, group: Sequence[_Entry]) -> None:
        """Put entries that were not written back to the front, unless newer ones have replaced them."""
        for entry in reversed(group):
            part = self._part(entry)
            if entry.key not in part:
                part[entry.key] = entry
                part.move_to_end(entry.key, last=False)
                self._size += entry.size
        self._drop()

    def _drop(self) -> None:
        """Lose the oldest history if too much waits."""
        while self._size > ROOM:
            _, entry = self._history.popitem(last=False)
            self._size -= entry.size
            self._lost += 1
            self._health.set(LOST, "records of changes are lost: the database could not be written for too long")

    # -- writing -----------------------------------------------------------------------------------------------

    async def _flush(self) -> bool:
        async with self._writing:
            self._flush_next = None
            self._wake.clear()
            self._why = ""
            try:
                await self._open()
                await self._write_all()
                if self._lost:
                    lost, self._lost = self._lost, 0
                    self._tell_lost(lost)
                    await self._write_all()
            except NorthboundError:  # health says why
                return False
            if self._untrimmed >= MANY:
                self._untrimmed = 0
                with suppress(NorthboundError):  # the next write says why
                    await self._records.driver.shrink()
                await self._blocking(trim)
            self._records.tell_written()
            if not self._lost:
                self._health.clear(LOST)
            return True

    async def _open(self) -> None:
        if self._begun:
            return
        try:
            await self._begin()
        except NorthboundError as error:
            self._why = str(error)
            self._health.set(UNOPENED, f"{self._why}; repairs continue")
            raise
        self._begun = True
        self._health.clear(UNOPENED)

    async def _write_all(self) -> None:
        """Write the entries that wait now. Later ones wait, because many small groups would cost twice as much."""
        left = len(self._history) + len(self._state)
        while left > 0 and (group := self._take()):
            left -= len(group)
            try:
                await self._write(group)
            except BaseException:
                self._put_back(group)
                raise

    async def _write(self, group: list[_Entry]) -> None:
        """Write a group, and remove the written entries from it. Raises `NorthboundError`."""
        most = len(group)
        while group:
            works = [entry.work for entry in group[:most]]
            writes, failed, spare = await self._blocking(_prepared, works, self.path.parent)
            await self._demand_room(spare)
            try:
                await self._records.driver.commit(DbTransaction(writes))
            except Invalid:  # the group would fail again: the entries are written one by one
                if most > 1:
                    most = 1
                    continue
                failed = 1
            del group[:most]
            self._lost += failed
            self._untrimmed += len(works)
            self._records.grown.set()

    async def _demand_room(self, spare: int) -> None:
        """Raise `Unavailable` if the disk has no room for records; pages that retention has freed are used again."""
        if spare < 0:
            with suppress(OSError):  # the write reports the error
                spare += self.path.stat().st_size - await self._records.driver.used()
        if spare < 0:
            self._why = f"cannot write {self.path}: the rest of its disk is reserved for the journal; free some space"
            self._records.tell_unwritable(self._why)
            raise Unavailable(self._why)


def _prepared(works: Sequence[Work], directory: Path) -> tuple[Sequence[Put | Delete], int, int]:
    """Return the rows of entries, the number of entries that fail, and the bytes that the disk can spare. Blocks."""
    rows: dict[Key, Put | Delete] = {}
    failed = 0
    for work in works:
        try:
            rows.update({(each.table, each.id): each for each in work()})
        except Exception:  # noqa: BLE001 - kinds report anything, and other records must be written
            failed += 1
    try:
        spare = disk_room.spare(directory)
    except OSError:  # the write reports the error
        spare = 0
    return list(rows.values()), failed, spare
