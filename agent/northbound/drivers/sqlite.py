"""The database of one machine: one SQLite file, which several processes may use at the same time.

A commit that has returned survives `kill -9` and a loss of power. Transactions that wait together share one flush.
A watch sees the commits of its own process at once. Other processes wake the agent after their commits; a process that
is not the agent looks for the commits of others every `POLL` seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Container, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from holdfast.agent.northbound.call_thread import CallThread
from holdfast.agent.northbound.drivers import sqlite_groups, sqlite_tables
from holdfast.agent.northbound.drivers.base import DbTransaction, Driver, Snapshot, TableRow, WatchBatch
from holdfast.agent.northbound.drivers.recent import RecentChanges
from holdfast.agent.northbound.drivers.sqlite_errors import Busy, Damaged
from holdfast.agent.northbound.drivers.sqlite_file import RecordFile
from holdfast.agent.northbound.drivers.sqlite_groups import REST, Call, GroupWriter
from holdfast.agent.northbound.drivers.sqlite_notifier import CommitNotifier
from holdfast.agent.northbound.drivers.sqlite_tables import Bounds, Commit, FileWriting
from holdfast.agent.northbound.errors import NorthboundError, Unavailable

T = TypeVar("T")

POLL, AGENT_POLL = 0.1, 5.0
"""Seconds between two checks for commits of other processes and for changes by other programs: a process that is not
the agent, and the agent, which is idle most of the time and is woken after commits."""
RETRY = 5.0
"""Seconds between two attempts to write while the file cannot be written."""
LONGEST = 30.0
"""Most seconds between two checks for leases that have ended: the loop's clock stops while the system sleeps."""
READ = 1000
"""Approximate number of changes that a watch reads at once."""
RECENT = 1 << 20
"""Bytes of recent changes that are kept in memory for watches."""


class SqliteDriver(Driver):
    """One file, in an existing directory that only trusted users can write.

    `agent`: this process owns the file and repairs it; a second such process is refused. `durable`: whether commits
    survive a loss of power. `bounds`: how much of the history is kept. `unwatched`: tables whose changes watches do not
    report, because no reader of the history needs them.
    """

    def __init__(
        self,
        path: Path,
        *,
        agent: bool = False,
        durable: bool = True,
        bounds: Bounds | None = None,
        unwatched: Container[str] = (),
    ) -> None:
        self.trouble = ""
        """Why the file cannot be written now; empty while it can."""
        self.renewed = ""
        """Why the file was last recreated, and what happened to its records; empty if it never was."""
        self.listen: Callable[[], None] = lambda: None
        """Called when `trouble` or `renewed` changes."""
        self._bounds = bounds or Bounds()
        self._file = RecordFile(path, agent=agent, durable=durable, unwatched=unwatched)
        self._notifier = CommitNotifier(path)
        self._rung = asyncio.Event()
        self._agent = agent
        self._thread = CallThread("northbound")
        self._writer = GroupWriter(self._write_in_thread, self._publish, self._renew, self._tell_trouble)
        self._recent = RecentChanges(room=RECENT)
        self._poller: asyncio.Task[None] | None = None
        self._lease_timer: asyncio.TimerHandle | None = None
        self._watches = 0
        """Watches that are open; without any, no recent changes are kept."""
        self._untrimmed = 0
        """Changes since the history was last compared with its bounds."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = True

    async def open(self) -> None:
        """Open or create the file, unless it is open. Raises `Unavailable`, also if another agent uses it."""
        if not self._closed:
            return
        try:
            renewed = await self._thread.run(self._file.open)
            self._closed = False
            await self._begin(renewed)
        except BaseException:
            await self._stop()
            raise

    async def _begin(self, renewed: str) -> None:
        self._recent.restart(await self._read(sqlite_tables.newest))
        if renewed:
            self._tell_renewed(renewed)
        with suppress(Unavailable):  # `trouble` says so
            await self._end_leases()
            await self.trim()
        if self._agent:
            self._notifier.listen(self._rung.set)
        self._poller = asyncio.create_task(self._poll(), name="northbound poll")

    async def close(self) -> None:
        """Make the waiting writes, end all watches, and close the file."""
        if self._closed:
            return
        try:
            await self._writer.finish()
        finally:
            await self._stop()

    async def _stop(self) -> None:
        self._closed = True
        self._notifier.close()
        self._recent.wake()
        if self._lease_timer:
            self._lease_timer.cancel()
        tasks = [*self._tasks, *([self._poller] if self._poller else [])]
        for task in tasks:
            task.cancel()
        try:
            if tasks:
                await asyncio.wait(tasks)
        finally:
            with suppress(TimeoutError):  # the disk hangs; the kernel closes the file when the process ends
                async with asyncio.timeout(RETRY):
                    await self._thread.run(self._file.close)

    async def read(self, tables: Sequence[str] | None = None) -> Snapshot:
        """Return the rows."""
        return await self._read(sqlite_tables.read, tables)

    async def scan(
        self, table: str, *, after: str = "", before: str = "", limit: int = 100, newest: bool = False
    ) -> Sequence[TableRow]:
        """Return rows in the order of their IDs."""
        query = partial(sqlite_tables.scan, after=after, before=before, limit=limit, newest=newest)
        return await self._read(query, table)

    async def get(self, table: str, id: str) -> TableRow | None:
        """Return a row."""
        return await self._read(sqlite_tables.get, table, id)

    async def commit(self, transaction: DbTransaction) -> int:
        """Write durably."""
        transaction.demand_valid(self.limits)
        return await self._write(Commit(transaction))

    async def watch(self, after: int, tables: Sequence[str] | None = None) -> AsyncIterator[WatchBatch]:
        """Yield changes: from memory if it has them, otherwise from the file."""
        self._watches += 1
        try:
            async for batch in self._changes(after, tables):
                yield batch
        finally:
            self._watches -= 1

    async def _changes(self, after: int, tables: Sequence[str] | None) -> AsyncIterator[WatchBatch]:
        armed = False
        while not self._closed:
            grown, batches = self._recent.grown, self._recent.after(after)
            if batches is None:
                batches = await self._read(sqlite_tables.changes, after, READ)
            if not armed:
                armed = True
                yield WatchBatch(after, ())
            for batch in batches:
                if self._closed:
                    return
                after = batch.revision
                yield WatchBatch(after, [each for each in batch.changes if tables is None or each.table in tables])
            if not batches:
                await grown.wait()

    async def compact(self, before: int) -> None:
        """Forget the history before a revision."""
        await self._write(lambda writing: writing.forget(before - 1))
        self._recent.forget(min(before - 1, self._recent.revision))

    async def used(self) -> int:
        """Return the number of bytes that the content of the file takes, without free pages."""
        return await self._read(sqlite_tables.used)

    async def load(self, found: Iterable[tuple[str, str, bytes]], *, replace: bool) -> int:
        """Write rows (table, ID, data) of another database, all or none; return their number.

        Raises `AlreadyExists` unless `replace`, and what iterating over them raises.
        """
        work = partial(sqlite_tables.load, found=found, replace=replace)
        number: int = await self._in_thread(self._file.maintain, work)
        self._skip_to(await self._read(sqlite_tables.newest))
        return number

    async def vacuum(self) -> None:
        """Make the file as small as its content. Takes about a second for 100 MiB; nothing else is done meanwhile."""
        await self._in_thread(self._file.maintain, sqlite_tables.vacuum)

    async def shrink(self) -> None:
        """Free memory that only makes the next access faster."""
        await self._in_thread(self._file.shrink)

    async def trim(self) -> None:
        """Forget the history that exceeds its bounds."""
        self._untrimmed = 0
        await self._write(lambda writing: writing.trim(self._bounds))

    async def grant(self, ttl: float) -> int:
        """Return a new lease."""
        return await self._finished(self._grant(ttl))

    async def _grant(self, ttl: float) -> int:
        lease = await self._write(lambda writing: writing.grant(ttl))
        await self._end_leases()
        return lease

    async def keep_alive(self, lease: int) -> None:
        """Restart the time of a lease."""
        await self._write(lambda writing: writing.keep_alive(lease))

    async def revoke(self, lease: int) -> None:
        """End a lease."""
        await self._write(lambda writing: writing.revoke(lease))

    # -- the file ----------------------------------------------------------------------------------------------

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function of the file; try again while another process has locked the file, up to `TIMEOUT`."""
        until = asyncio.get_running_loop().time() + sqlite_groups.TIMEOUT
        while True:
            try:
                return await self._thread.run(function, *arguments)
            except Busy:
                if asyncio.get_running_loop().time() > until:
                    raise
                await asyncio.sleep(REST)

    async def _read(self, query: Callable[..., T], *arguments: Any) -> T:
        while not self._closed:
            try:
                return await self._in_thread(self._file.read, query, *arguments)
            except Damaged as error:
                await self._renew(error)
        raise Unavailable("the database is closed")

    async def _write(self, call: Callable[[FileWriting], T]) -> T:
        if self._closed:
            raise Unavailable("the database is closed")
        return await self._writer.run(call)

    async def _write_in_thread(self, calls: Sequence[Call]) -> tuple[FileWriting, list[Any]]:
        return await self._thread.run(self._file.write, calls)

    def _publish(self, batches: Sequence[WatchBatch]) -> None:
        """Give new changes to the watches. The commits of other processes before them are read from the file."""
        if not batches:
            return
        if batches[0].revision != self._recent.revision + 1:
            self._recent.restart(batches[0].revision - 1)
        if self._watches:
            self._recent.append(batches)
        else:
            self._recent.restart(batches[-1].revision)
        if not self._agent:
            self._notifier.notify()
        self._untrimmed += sum(len(batch.changes) for batch in batches)
        if self._untrimmed > self._bounds.changes // 10:
            self._start(self.trim())

    async def _renew(self, damage: Damaged) -> None:
        await self._finished(self._recreate(damage))

    async def _recreate(self, damage: Damaged) -> None:
        try:
            renewed = await self._in_thread(self._file.renew, damage)
            self._skip_to(await self._in_thread(self._file.read, sqlite_tables.newest))
        except Damaged as error:  # the new file, too
            raise Unavailable(str(error)) from error
        if renewed:
            self._tell_renewed(renewed)

    def _skip_to(self, revision: int) -> None:
        """Let watches read the changes up to a revision from the file."""
        if revision > self._recent.revision:
            self._recent.restart(revision)

    def _tell_trouble(self, trouble: str) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            self.listen()

    def _tell_renewed(self, renewed: str) -> None:
        self.renewed = renewed
        self.listen()

    # -- background work --------------------------------------------------------------------------------

    async def _poll(self) -> None:
        """Check for commits of other processes and for changes by other programs; try to write again."""
        loop = asyncio.get_running_loop()
        tried = loop.time()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(AGENT_POLL if self._agent else POLL):
                    await self._rung.wait()
            self._rung.clear()
            try:
                if damage := self._file.changed():
                    await self._renew(damage)
                elif self._file.moved():
                    await self._follow()
                if self.trouble and loop.time() - tried > RETRY:
                    tried = loop.time()
                    await self._write(lambda writing: writing.prove())
            except NorthboundError as error:
                self._tell_trouble(str(error))

    async def _follow(self) -> None:
        """Read what other processes have committed."""
        leases = await self._read(sqlite_tables.leases)
        self._skip_to(await self._read(sqlite_tables.newest))
        if leases:
            await self._end_leases()

    async def _end_leases(self) -> None:
        """End the leases whose time is over, and set the timer for the end of the next one."""
        left = await self._write(lambda writing: writing.end_leases())
        if self._lease_timer:
            self._lease_timer.cancel()
        self._lease_timer = None
        if left is not None:
            seconds = min(max(0.001, left), LONGEST)
            self._lease_timer = asyncio.get_running_loop().call_later(seconds, self._start_to_end_leases)

    def _start_to_end_leases(self) -> None:
        self._lease_timer = None
        self._start(self._end_leases())

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task that ends when the database is closed. `trouble` shows its errors."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # so that asyncio does not report it

    async def _finished(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of work that continues to its end even if the caller is cancelled."""
        return await asyncio.shield(self._start(work))
