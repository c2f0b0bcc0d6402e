"""Leases: records written under one disappear with it."""

from __future__ import annotations

import asyncio

from holdfast.agent.northbound.drivers.base import Driver, LeaseEnded
from holdfast.agent.northbound.errors import Unavailable


class Lease:
    """A lease of a process, which lasts as long as its block.

    `ttl`: seconds after which it ends if the database does not hear from this process.
    """

    def __init__(self, number: int, ttl: float) -> None:
        self.number, self.ttl = number, ttl
        self.ended = asyncio.Event()
        """Set when it ended although the block goes on."""

    async def keep(self, driver: Driver) -> None:
        """Keep the lease alive until it ends or the task is cancelled, also while the database is away.

        It counts as ended `ttl` seconds after the beginning of the last request that succeeded: by then, the database
        may have given its place to another process.
        """
        loop = asyncio.get_running_loop()
        end, rest = loop.time() + self.ttl, self.ttl / 3
        while True:
            await asyncio.sleep(min(rest, max(0, end - loop.time())))
            began = loop.time()
            if began >= end:
                break
            try:
                async with asyncio.timeout_at(min(began + self.ttl / 3, end)):
                    await driver.keep_alive(self.number)
                end, rest = began + self.ttl, self.ttl / 3
            except LeaseEnded:
                break
            except (Unavailable, TimeoutError):
                rest = self.ttl / 10
        self.ended.set()
