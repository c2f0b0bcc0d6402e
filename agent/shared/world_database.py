"""The database of the strings of `Context.world`: that of this host, or etcd while the settings name it.

A task keeps the connection to etcd, and retries while there is none. gRPC is imported only for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from holdfast.agent.health import Health
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.northbound.errors import NorthboundError, Unavailable
from holdfast.agent.shared.description import Describe
from holdfast.agent.shared.etcd_settings import EtcdSettings
from holdfast.agent.tasks import Tasks

if TYPE_CHECKING:
    from holdfast.agent.records.world_records import WorldRecords
    from holdfast.agent.shared.etcd_session import EtcdSession

UNAVAILABLE = "etcd-unavailable"
"""Code of the health condition for a cluster that cannot be used."""
TIMEOUT, BRIEF = 8.0, 1.0
"""Most seconds of one call; the same while etcd is known to be out of reach."""
START = 3.0
"""Seconds for which calls wait for the first connection: states wait for each other in the first pass."""
RETRIES = (0.5, 1.0, 2.0, 5.0)
"""Seconds between two attempts to connect; the last value repeats."""
END = 1.0
"""Most seconds for the message to etcd that the agent stops."""
INSTALL = "install the extra `fleet`: pip install 'holdfast[fleet]'"


class WorldDatabase:
    """`open_local` opens the database of this host."""

    def __init__(self, open_local: Callable[[], Awaitable[WorldRecords]], health: Health, tasks: Tasks) -> None:
        self._open_local, self._health, self._tasks = open_local, health, tasks
        self._opening = asyncio.Lock()
        self._local: WorldRecords | None = None
        self._shared: WorldRecords | None = None
        """The records in etcd, from the first connection on."""
        self._used = EtcdSettings(), ""
        """The settings in force, and the name of the host."""
        self._task: asyncio.Task[None] | None = None
        """Keeps the connection to etcd; None: the strings are in the database of this host."""
        self._tried = asyncio.Event()
        """Set once the first attempt to connect has ended, or takes long."""
        self._session: EtcdSession | None = None
        self._blocking = Blocking(1)
        self.trouble = ""
        """Why etcd cannot be used now; empty while it can."""
        self.moved = asyncio.Event()
        """Set once the strings are in another database, or can be reached again; a new event takes its place."""

    @property
    def timeout(self) -> float:
        """Most seconds of one call."""
        return BRIEF if self.trouble else TIMEOUT

    @property
    def remote(self) -> bool:
        """Whether the strings are on other machines: calls may take long, and may succeed later."""
        return self._task is not None

    async def records(self) -> WorldRecords:
        """Return the records. Raises `Unavailable`, and what `open_local` raises."""
        while self.remote:  # the settings may change meanwhile
            if self._shared is not None:
                return self._shared
            if self._tried.is_set():
                raise Unavailable(self.trouble or "etcd is not connected")
            await self._tried.wait()
        async with self._opening:
            self._local = self._local or await self._open_local()
        return self._local

    async def use(self, settings: EtcdSettings, host: str, describe: Describe | None = None) -> None:
        """Apply settings, and the name of this host. Does not wait for etcd.

        `describe` returns the description of this host for others; None: nothing is published.
        """
        if (settings, host) == self._used:
            return
        await self.stop()
        self._used = settings, host
        if settings.endpoints:
            self._tried.clear()
            self._task = self._tasks.start("etcd", self._run(settings, host, describe))
        self._move()

    async def stop(self) -> None:
        """Disconnect. Other hosts then know that the agent has stopped, if etcd answers at once."""
        task, self._task, self._used = self._task, None, (EtcdSettings(), "")
        if task:
            await self._tasks.end(task, END)
        self._shared = None
        self._tell("")
        self._tried.set()

    def changed(self) -> None:
        """Note that `describe` may return something else now."""
        if self._session:
            self._session.changed()

    async def _run(self, settings: EtcdSettings, host: str, describe: Describe | None) -> None:
        """Stay connected until cancelled."""
        tries = 0
        while True:
            slow = asyncio.get_running_loop().call_later(START, self._slow)
            try:
                session = (await self._blocking(_load))(settings, host, describe, self._follow, self._health)
                async with session as self._shared:
                    slow.cancel()
                    self._session = session
                    self._follow("")
                    self._tried.set()
                    await session.run()
            except NorthboundError as error:
                self._failed(str(error))
            except Exception:
                self._tried.set()  # the task ends, and no call may wait for it
                raise
            finally:
                slow.cancel()
                self._session = self._shared = None
            await asyncio.sleep(RETRIES[min(tries, len(RETRIES) - 1)])
            tries += 1

    def _follow(self, trouble: str) -> None:
        """Note why the connection was lost, or that it works again: strings may have changed meanwhile."""
        self._tell(trouble)
        if not trouble:
            self._move()

    def _slow(self) -> None:
        """Note that an attempt to connect takes long; the error of an earlier attempt says more."""
        self._failed(self.trouble or "etcd has not answered yet")

    def _failed(self, trouble: str) -> None:
        self._tell(trouble)
        self._tried.set()

    def _move(self) -> None:
        moved, self.moved = self.moved, asyncio.Event()
        moved.set()

    def _tell(self, trouble: str) -> None:
        self.trouble = trouble
        if not trouble:
            self._health.clear(UNAVAILABLE)
            return
        strings = "cannot be changed, and are read as they were last seen" if self._shared else "cannot be read"
        self._health.set(UNAVAILABLE, f"{trouble}; strings that hosts share {strings}")


def _load() -> type[EtcdSession]:
    """Import the client of etcd. Raises `Unavailable` if it is not installed. Blocks."""
    try:
        from holdfast.agent.shared.etcd_session import EtcdSession  # noqa: PLC0415 - most agents share nothing
    except ImportError as error:
        raise Unavailable(f"cannot use etcd: {error}; {INSTALL}") from error
    return EtcdSession
