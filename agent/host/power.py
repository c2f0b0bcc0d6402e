"""Shutdown and sleep of the system, as logind and systemd report them over D-Bus.

Signals say when to query: `PrepareForShutdown` and `PrepareForSleep` of logind, and any job of `shutdown.target`, for
shutdowns without logind. D-Bus delivers messages to all clients in one order, so the start of a shutdown is known
before the first service has stopped. If logind is killed, the end of a shutdown is never signalled. This must not pause
the agent forever, so both are queried periodically while the system is shutting down.

Without D-Bus, a shutdown is not known before SIGTERM.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import NoReturn

from holdfast.resources.interfaces.host import Bus, BusError, Match, Signal

LOGIND = ("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager")
SYSTEMD = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
PROPERTIES = "org.freedesktop.DBus.Properties"
SHUTDOWN = "shutdown.target"
"""All shutdown targets conflict with this target or pull it in. While it has a job, the system's state is
`stopping`."""
SIGNALS = (
    Match(LOGIND[0], LOGIND[2], "PrepareForShutdown", path=LOGIND[1]),
    Match(LOGIND[0], LOGIND[2], "PrepareForSleep", path=LOGIND[1]),
    Match(SYSTEMD[0], SYSTEMD[2], "JobNew", path=SYSTEMD[1]),
    Match(SYSTEMD[0], SYSTEMD[2], "JobRemoved", path=SYSTEMD[1]),
)
PERIOD = 5.0
"""Seconds between two queries whether the system is still shutting down."""
AGAIN = (1.0, 60.0)
"""Seconds between attempts to reach D-Bus, doubled from the first number up to the second."""


class Power:
    """Follows the system's state.

    `going_down` is called when a shutdown begins and when it is cancelled, `awake` after each sleep.
    """

    def __init__(self, bus: Bus, going_down: Callable[[bool], None], awake: Callable[[], None]) -> None:
        self._bus = bus
        self._going_down = going_down
        self._awake = awake
        self._down = asyncio.Event()

    async def run(self) -> NoReturn:
        """Follow the system's state until cancelled."""
        queries = asyncio.create_task(self._query_periodically(), name="power")
        try:
            wait = AGAIN[0]
            while True:
                try:
                    async with aclosing(self._bus.signals(*SIGNALS)) as signals:
                        async for signal in signals:
                            wait = AGAIN[0]
                            await self._take(signal)
                except BusError:  # no D-Bus, or no systemd on it
                    pass
                await asyncio.sleep(wait)
                wait = min(wait * 2, AGAIN[1])
        finally:
            queries.cancel()
            await asyncio.gather(queries, return_exceptions=True)

    async def _take(self, signal: Signal | None) -> None:
        if signal is None:  # armed, or armed again: signals may have been lost
            await self._subscribe()
            self._set(await self._asked())
        elif signal.member == "PrepareForShutdown":
            self._set(bool(signal.body[0]) or await self._asked())
        elif signal.member == "PrepareForSleep":
            if not signal.body[0]:
                self._awake()
        elif signal.body[2] == SHUTDOWN:
            self._set(await self._asked())

    async def _query_periodically(self) -> NoReturn:
        """Query periodically whether the system is still shutting down."""
        while True:
            await self._down.wait()
            await asyncio.sleep(PERIOD)
            self._set(await self._asked())

    async def _asked(self) -> bool:
        """Return whether logind or systemd says that the system is shutting down; False if neither answers.

        The query does not start logind.
        """
        state = await self._property(*SYSTEMD, "SystemState")
        return state == "stopping" or (
            self._down.is_set() and await self._property(*LOGIND, "PreparingForShutdown") is True
        )

    async def _property(self, service: str, path: str, interface: str, name: str) -> object:
        try:
            return (await self._bus.call(service, path, PROPERTIES, "Get", "ss", interface, name, timeout=PERIOD))[0]
        except BusError:
            return None

    async def _subscribe(self) -> None:
        """Make systemd send its signals on this connection."""
        try:
            await self._bus.call(*SYSTEMD, "Subscribe")
        except BusError as error:
            if not error.name.endswith(".AlreadySubscribed"):
                raise

    def _set(self, down: bool) -> None:
        if down is self._down.is_set():
            return
        (self._down.set if down else self._down.clear)()
        self._going_down(down)
