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
        """Keep the lease alive until it ends or the task is cancelled, also while the database is away."""
        loop = asyncio.get_running_loop()
        last = loop.time()
        while True:
            await asyncio.sleep(self.ttl / 3)
            try:
                await driver.keep_alive(self.number)
                last = loop.time()
            except LeaseEnded:
                break
            except Unavailable:
                if loop.time() > last + self.ttl:
                    break
        self.ended.set()
