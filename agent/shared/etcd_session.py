"""One connection to etcd, which is restored after a loss. Imported only if the settings name a cluster."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from holdfast.agent.credential_files import read_certificates, read_password
from holdfast.agent.health import Health
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.store.indexed import IndexedStore
from holdfast.agent.records import models
from holdfast.agent.records.world_records import SHARED_LIMIT, WorldRecords
from holdfast.agent.shared.description import Describe
from holdfast.agent.shared.etcd_settings import EtcdSettings
from holdfast.agent.shared.membership import Membership

if TYPE_CHECKING:
    from types import TracebackType


QUIET = "GRPC_VERBOSITY"
"""The variable that keeps gRPC from writing to standard error: errors are in the condition."""


@contextmanager
def _quiet() -> Iterator[None]:
    """Set the variable during the import, unless it is set; commands of states must not see it."""
    given = QUIET in os.environ
    os.environ.setdefault(QUIET, "NONE")
    try:
        yield
    finally:
        if not given:
            del os.environ[QUIET]


with _quiet():
    from holdfast.agent.northbound.drivers.etcd import EtcdDriver
    from holdfast.agent.northbound.drivers.etcd_connection import Access, Tls

UNCACHED: tuple[type[Model], ...] = (*models.UNCACHED, models.Host, models.ResourceStatus, models.Condition)
"""Models whose records in etcd the cache does not hold: no resource reads those of other hosts."""
ROOM = 4 * SHARED_LIMIT
"""Most bytes of the records that this host reads, however much others have written. Text may take more as JSON."""
ANSWER = 5.0
"""Seconds in which a member must answer a request."""


class EtcdSession:
    """The strings in etcd, as an async context manager.

    `tell` is called with the present trouble, which may be empty.
    """

    def __init__(
        self,
        settings: EtcdSettings,
        host: str,
        describe: Describe | None,
        tell: Callable[[str], None],
        health: Health,
    ) -> None:
        self._settings, self._tell = settings, tell
        self._host, self._describe, self._health = host, describe, health
        self._stack = AsyncExitStack()
        self._membership: Membership | None = None

    async def __aenter__(self) -> WorldRecords:
        """Connect, and read the strings. Raises the errors of the store."""
        access = partial(read_access, self._settings)
        driver = EtcdDriver(await Blocking(1)(access), self._settings.prefix, access, room=ROOM)
        api = await self._stack.enter_async_context(NbApi(driver, IndexedStore(), uncached=UNCACHED))
        driver.listen = lambda: self._tell(driver.trouble)
        if self._describe:
            self._membership = Membership(api, driver, self._host, self._describe, self._health)
        return WorldRecords(api, SHARED_LIMIT)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect."""
        await self._stack.aclose()

    async def run(self) -> None:
        """Publish the description of this host until cancelled."""
        await (self._membership.run() if self._membership else asyncio.Event().wait())

    def changed(self) -> None:
        """Note that the description of this host may have changed."""
        if self._membership:
            self._membership.wake.set()


def read_access(settings: EtcdSettings) -> Access:
    """Return the access to the cluster. Raises `Unavailable`. Blocks."""
    members = settings.members
    tls = None
    if any(each.encrypted for each in members):
        read = read_certificates(settings)
        tls = Tls(read.ca, read.cert, read.key)
    return Access(
        [each.address for each in members],
        tls=tls,
        user=settings.user or "",
        password=read_password(settings.password_file) if settings.password_file else "",
        answer=ANSWER,
    )
