"""Batches: runs that repair their resources together, such as all packages in one transaction.

Each member runs as it would alone, with its own requisites, guards, probe, outcome and retries. Only the repair is
shared: a member that needs one waits until each other member needs one too, or has ended without one. If the shared
repair fails, the members are repaired one by one, so a batch never does worse than its members would alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from holdfast.resources.errors import RAISED, Temporary
from holdfast.resources.traits import Member


class _Joined(NamedTuple):
    """A member that waits for the shared repair."""

    member: Member
    alone: Callable[[], Awaitable[Any]]
    """Repairs this member alone."""
    result: asyncio.Future[Any]


class Batch:
    """The runs of one group that were started together. `identities` are in order of execution."""

    def __init__(self, identities: Sequence[str]) -> None:
        self._running = len(identities)
        self._order = {identity: place for place, identity in enumerate(identities)}
        self._expected = set(identities)
        """Members that have neither joined nor left."""
        self._joined: list[_Joined] = []
        self._work: asyncio.Task[None] | None = None

    async def join(self, member: Member, alone: Callable[[], Awaitable[Any]]) -> Any:
        """Repair this member together with all others; return its result.

        A member that has left before, such as one at its second attempt, is repaired alone. Raises what `alone` raises;
        a `Temporary` of the shared repair is raised for all members.
        """
        if member.ctx.identity not in self._expected:
            return await alone()
        joined = _Joined(member, alone, asyncio.get_running_loop().create_future())
        self._joined.append(joined)
        self.leave(member.ctx.identity)
        try:
            return await joined.result
        except asyncio.CancelledError:
            if self._work and all(each.result.done() for each in self._joined):
                self._work.cancel()
                await asyncio.wait([self._work])  # no member waits for the repair any more
            raise

    def ended(self) -> bool:
        """Count that the run of one member has ended; return whether it was the last."""
        self._running -= 1
        return not self._running

    def leave(self, identity: str) -> None:
        """Expect this member no longer. Has no effect if the member has joined or left before."""
        if identity in self._expected:
            self._expected.discard(identity)
            if not self._expected and self._joined:
                self._work = asyncio.create_task(self._repair(), name="batch")
                self._work.add_done_callback(self._repaired)

    def _repaired(self, work: asyncio.Task[None]) -> None:
        """Give a result to each member that has none, however the repair ended, so that no member waits forever."""
        error = None if work.cancelled() else work.exception()
        for each in self._joined:
            _settle(each, partial(each.result.set_exception, error) if error else each.result.cancel)

    async def _repair(self) -> None:
        self._joined.sort(key=lambda each: self._order[each.member.ctx.identity])
        wanted = [each for each in self._joined if not each.result.done()]
        if len(wanted) > 1:
            try:
                results = await type(wanted[0].member.resource).apply_together([each.member for each in wanted])
            except Temporary as error:
                for each in wanted:
                    _settle(each, partial(each.result.set_exception, error))
                return
            except RAISED as error:  # each is repaired alone then
                wanted[0].member.ctx.log.info("cannot repair these together; repairing them one by one", why=str(error))
            else:
                for each, result in zip(wanted, results, strict=True):
                    _settle(each, partial(each.result.set_result, result))
                return
        for each in wanted:
            if not each.result.done():
                await _repair_alone(each)


async def _repair_alone(joined: _Joined) -> None:
    try:
        result = await joined.alone()
    except RAISED as error:  # `join` raises it for the member
        _settle(joined, partial(joined.result.set_exception, error))
    else:
        _settle(joined, partial(joined.result.set_result, result))


def _settle(joined: _Joined, settle: Callable[[], object]) -> None:
    """Call `settle` unless the member has a result or was cancelled meanwhile."""
    if not joined.result.done():
        settle()
