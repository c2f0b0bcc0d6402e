"""Batches: runs that put right what they found in one go, as all packages in one transaction.

Each member runs as it would alone: its own requisites, guards, look, outcome and retries. Only the moment of change is common:
whoever gets there waits until every other member has got there too, or has come to its end without. What they cannot do
together they then do one by one, so a batch never does worse than its members would alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from holdfast.resources.errors import Temporary
from holdfast.resources.traits import Member


class Seat(NamedTuple):
    """A member that has got there."""

    member: Member
    alone: Callable[[], Awaitable[Any]]
    """Does its part alone."""
    result: asyncio.Future[Any]


class Batch:
    """The runs of one group that were started together, by identity in the order of execution."""

    def __init__(self, identities: Sequence[str]) -> None:
        self._running = len(identities)
        self._order = {identity: place for place, identity in enumerate(identities)}
        self._coming = set(identities)
        self._here: list[Seat] = []
        self._work: asyncio.Task[None] | None = None

    async def join(self, member: Member, alone: Callable[[], Awaitable[Any]]) -> Any:
        """Have it done with all the others; what came of this one. Raises what `alone` raises, or `Temporary` for all.

        One that has left, for a second attempt perhaps, does its part alone.
        """
        if member.ctx.identity not in self._coming:
            return await alone()
        seat = Seat(member, alone, asyncio.get_running_loop().create_future())
        self._here.append(seat)
        self.leave(member.ctx.identity)
        try:
            return await seat.result
        except asyncio.CancelledError:
            if self._work and all(each.result.done() for each in self._here):
                self._work.cancel()
                await asyncio.wait([self._work])  # nobody is left who would wait for its end
            raise

    def ended(self) -> bool:
        """The run of one member has ended; whether it was the last."""
        self._running -= 1
        return not self._running

    def leave(self, identity: str) -> None:
        """It does not come any more; nothing happens when it has been here, or has left already."""
        if identity in self._coming:
            self._coming.discard(identity)
            if not self._coming and self._here:
                self._work = asyncio.create_task(self._do(), name="batch")
                self._work.add_done_callback(self._over)

    def _over(self, work: asyncio.Task[None]) -> None:
        """Whatever became of the work: nobody waits for it for ever."""
        error = None if work.cancelled() else work.exception()
        for seat in self._here:
            _settle(seat, partial(seat.result.set_exception, error) if error else seat.result.cancel)

    async def _do(self) -> None:
        self._here.sort(key=lambda seat: self._order[seat.member.ctx.identity])
        wanted = [seat for seat in self._here if not seat.result.done()]
        if len(wanted) > 1:
            try:
                results = await type(wanted[0].member.resource).apply_together([seat.member for seat in wanted])
            except Temporary as error:
                for seat in wanted:
                    _settle(seat, partial(seat.result.set_exception, error))
                return
            except Exception as error:  # noqa: BLE001 - the code of a kind may raise anything; each is done alone then
                wanted[0].member.ctx.log.info("not all of these can be put right in one go: one by one", why=str(error))
            else:
                for seat, result in zip(wanted, results, strict=True):
                    _settle(seat, partial(seat.result.set_result, result))
                return
        for seat in wanted:
            if not seat.result.done():
                await _alone(seat)


async def _alone(seat: Seat) -> None:
    try:
        result = await seat.alone()
    except Exception as error:  # noqa: BLE001 - it goes to whoever waits for it
        _settle(seat, partial(seat.result.set_exception, error))
    else:
        _settle(seat, partial(seat.result.set_result, result))


def _settle(seat: Seat, settle: Callable[[], object]) -> None:
    """Unless it was cancelled meanwhile."""
    if not seat.result.done():
        settle()
