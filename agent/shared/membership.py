"""The records of this host in etcd: one that stays, and one that exists while the agent runs."""

from __future__ import annotations

import asyncio
import time
from typing import ClassVar, Literal

from holdfast.agent.health import Health
from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.drivers.base import DbTransaction, Driver, LeaseEnded, Put
from holdfast.agent.northbound.errors import NorthboundError
from holdfast.agent.northbound.leases import Lease
from holdfast.agent.northbound.model import Model, Struct
from holdfast.agent.records import rows
from holdfast.agent.shared.description import Describe

UNWRITTEN = "etcd-unwritten"
"""Code of the health condition for a record of this host that cannot be written though etcd answers."""
TTL = 30.0
"""Seconds after which the record of an agent that was killed, or that cannot reach etcd, disappears."""
RETRY, REST = 5.0, 1.0
"""Seconds between two attempts, and between two writes."""


class PresentCondition(Struct):
    """A problem of an agent. Its text stays on the host: `holdfast status` shows it."""

    code: str
    severity: Literal["info", "warning", "error"]
    since: float
    """Unix time."""


class PresentAgent(Model, table="presence"):
    """An agent that runs. The ID is the name of its host; the record disappears when the agent stops or is lost."""

    internal: ClassVar[bool] = True  # records.db has none

    since: float
    """Unix time at which it reached etcd."""
    conditions: tuple[PresentCondition, ...] = ()


class Membership:
    """Writes both records while `run` runs. `wake`: set if `describe` may return something else."""

    def __init__(self, api: NbApi, driver: Driver, host: str, describe: Describe, health: Health) -> None:
        self._api, self._driver, self._health = api, driver, health
        self._host, self._describe = host, describe
        self._since = time.time()
        self.wake = asyncio.Event()

    async def run(self) -> None:
        """Keep the records up to date until cancelled."""
        try:
            while True:
                try:
                    async with self._api.lease(TTL) as lease:
                        await self._keep(lease)
                except (NorthboundError, LeaseEnded) as error:
                    if not self._driver.trouble:  # otherwise, the end of the lease is the reason
                        self._health.set(UNWRITTEN, f"cannot write the records of this host in etcd: {error}")
                    await asyncio.sleep(RETRY)
        finally:
            self._health.clear(UNWRITTEN)

    async def _keep(self, lease: Lease) -> None:
        """Write the records whenever the description differs from the written one, until the lease has ended."""
        ending = asyncio.create_task(lease.ended.wait(), name="etcd lease")
        ending.add_done_callback(lambda _: self.wake.set())
        written: list[Put] = []
        try:
            while not lease.ended.is_set():
                self.wake.clear()
                wanted = self._rows(lease)
                if writes := [each for each in wanted if each not in written]:
                    await self._driver.commit(DbTransaction(writes))
                    written = wanted
                    self._health.clear(UNWRITTEN)
                    await asyncio.sleep(REST)
                await self.wake.wait()
        finally:
            ending.cancel()

    def _rows(self, lease: Lease) -> list[Put]:
        host, conditions = self._describe()
        present = [
            {"code": each.code, "severity": each.severity, "since": each.since}
            for each in conditions
            if each.code != UNWRITTEN
        ]
        presence = {"id": self._host, "since": self._since, "conditions": present}
        found = [rows.row(PresentAgent.table, presence)._replace(lease=lease.number)]
        return [rows.row("hosts", {**host, "id": self._host}), *found] if host else found
