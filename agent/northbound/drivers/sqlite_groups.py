"""Writes to one SQLite file: in order, in groups that share one flush, and tried again while another process writes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.agent.northbound.drivers.base import WatchBatch
from holdfast.agent.northbound.drivers.sqlite_errors import Busy, CallFailed, Damaged
from holdfast.agent.northbound.drivers.sqlite_tables import FileWriting
from holdfast.agent.northbound.errors import Unavailable

T = TypeVar("T")

Call = Callable[[FileWriting], Any]

TIMEOUT = 5.0
"""Seconds after which a write that was not made counts as failed."""
GRACE = 1.0
"""Further seconds for an attempt that is running then: its end shows whether the write was made."""
REST = 0.005
"""Seconds between two attempts to write while another process writes."""
GROUP = 1000
"""Most calls that share a flush."""


@dataclass(slots=True, eq=False)
class _Job:
    call: Call
    done: asyncio.Future[Any]


class GroupWriter:
    """Collects calls while a group is written; they are the next group.

    `write` makes the calls of a group in one transaction. `written` is called with the changes before the callers get
    their results. `renew` is awaited when the file is damaged, and the group is then tried again. `tell` is called with
    the reason why the file cannot be written, or with an empty text.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Call]], Awaitable[tuple[FileWriting, list[Any]]]],
        written: Callable[[Sequence[WatchBatch]], None],
        renew: Callable[[Damaged], Awaitable[None]],
        tell: Callable[[str], None],
    ) -> None:
        self._write, self._written, self._renew, self._tell = write, written, renew, tell
        self._jobs: list[_Job] = []
        self._times: dict[_Job, float] = {}
        """Call that is not made yet -> loop time of its deadline, in order."""
        self._timer: asyncio.TimerHandle | None = None
        """One for all calls: a timer for each would cost as much as collecting the call."""
        self._task: asyncio.Task[None] | None = None
        self._tried: Sequence[_Job] = ()
        """The group that is being written now."""
        self._overdue: set[_Job] = set()
        """Calls that are being tried after their deadline."""
        self._busy = ""
        """The error of the last attempt, if another process was writing."""

    async def run(self, call: Callable[[FileWriting], T]) -> T:
        """Make a call in the next group, and return its result. Raises `Unavailable`."""
        loop = asyncio.get_running_loop()
        job = _Job(call, loop.create_future())
        self._jobs.append(job)
        self._times[job] = loop.time() + TIMEOUT
        if self._task is None:
            self._task = asyncio.create_task(self._write_groups(), name="northbound writes")
        if self._timer is None:
            self._timer = loop.call_later(TIMEOUT, self._give_up_late)
        try:
            return await job.done  # type: ignore[no-any-return]
        finally:
            self._times.pop(job, None)
            self._overdue.discard(job)

    async def finish(self) -> None:
        """Wait until all calls are made, but not longer than `TIMEOUT`."""
        if self._task:
            await asyncio.wait([self._task], timeout=TIMEOUT)

    def _give_up_late(self) -> None:
        """Give up the calls whose deadline has passed, and set the timer for the next one."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for job in [each for each, until in self._times.items() if until <= now]:
            del self._times[job]
            self._give_up(job)
        until = next(iter(self._times.values()), None)
        self._timer = None if until is None else loop.call_at(until, self._give_up_late)

    def _give_up(self, job: _Job) -> None:
        if job in self._tried:
            self._overdue.add(job)
            asyncio.get_running_loop().call_later(GRACE, self._abandon, job)
        else:
            self._abandon(job)

    def _abandon(self, job: _Job) -> None:
        if job.done.done():
            return
        text = self._busy or f"the disk has not answered for {TIMEOUT:g} s"
        _settle(job, Unavailable(text, unsure=job in self._tried))
        self._tell(text)

    async def _write_groups(self) -> None:
        """Write until no call waits. Calls whose callers have given up are left out."""
        try:
            while self._jobs:
                group, self._jobs = self._jobs[:GROUP], self._jobs[GROUP:]
                if again := await self._write_group([job for job in group if not job.done.done()]):
                    self._jobs[:0] = again
        finally:
            self._task = None

    async def _write_group(self, group: list[_Job]) -> Sequence[_Job]:
        """Write a group, and return the calls that are to be tried again."""
        try:
            writing, results = await self._try(group)
        except CallFailed as error:
            _settle(group.pop(error.number), error.error)
            return group
        except Busy as error:
            self._busy = str(error)
            for job in self._overdue.intersection(group):
                self._abandon(job)
            await asyncio.sleep(REST)
            return group
        except Damaged as error:
            return await self._after_renewal(group, error)
        except Exception as error:  # noqa: BLE001 - callers would otherwise wait forever
            self._fail(group, error)
            return ()
        self._busy = ""
        self._written(writing.batches)
        for job, result in zip(group, results, strict=True):
            _settle(job, result)
        self._tell("")
        return ()

    async def _try(self, group: list[_Job]) -> tuple[FileWriting, list[Any]]:
        self._tried = group
        try:
            return await self._write([job.call for job in group])
        finally:
            self._tried = ()

    async def _after_renewal(self, group: list[_Job], damage: Damaged) -> Sequence[_Job]:
        try:
            await self._renew(damage)
        except Exception as error:  # noqa: BLE001 - callers would otherwise wait forever
            self._fail(group, error)
            return ()
        return group

    def _fail(self, group: Sequence[_Job], error: Exception) -> None:
        unavailable = error if isinstance(error, Unavailable) else Unavailable(str(error))
        for job in group:
            _settle(job, unavailable)
        self._tell(str(unavailable))


def _settle(job: _Job, result: object) -> None:
    if job.done.done():
        return
    if isinstance(result, Exception):
        job.done.set_exception(result)
    else:
        job.done.set_result(result)
