"""Leases: records that are written with a lease disappear when it ends."""

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
        """Set when the lease has ended before its block."""

    async def keep(self, driver: Driver) -> None:
        """Keep the lease alive until it ends or the task is cancelled, also while the database is out of reach.

        The lease counts as ended `ttl` seconds after the beginning of the last successful request: by then, another
        process may have its records.
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
