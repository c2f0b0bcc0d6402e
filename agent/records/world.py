"""Strings and host maps: the implementation of `Context.world`.

The models and the store are loaded when a resource uses them for the first time, in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

from holdfast.agent.northbound.errors import Invalid, NorthboundError
from holdfast.resources.context import Watch
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.watches import either

if TYPE_CHECKING:
    from holdfast.agent.records.world_records import WorldRecords
    from holdfast.agent.shared.world_database import WorldDatabase

NAME = 256
"""Most characters of a key, namespace or host."""


class StoredWorld:
    """Strings and host maps in a database, which other processes and hosts may use, too.

    `host` returns the name of this host.
    """

    def __init__(self, database: WorldDatabase, host: Callable[[], str]) -> None:
        self._database, self._host = database, host

    @property
    def remote(self) -> bool:
        """Whether the strings are on other machines, so that calls may take long."""
        return self._database.remote

    async def string(self, key: str) -> str | None:
        """Return the string of a key; None if there is none. Raises `Temporary` if the database cannot be opened."""
        return (await self._opened()).string(key)

    async def set_string(self, key: str, value: str | None) -> None:
        """Set a string; None removes it.

        Raises `Permanent` if the value is too large or not valid text, `Temporary` while it cannot be written.
        """
        _demand_text(value, key)
        await self._write(lambda records: records.set_string(key, value))

    def watch_string(self, key: str) -> AsyncIterator[None]:
        """Watch the string of this key: one item once armed, then one for each change."""
        return self._changes(lambda records: records.watch_string(key))

    async def hosts(self, namespace: str) -> Mapping[str, str]:
        """Return the value of each host in this namespace. Raises the errors of `string`."""
        return (await self._opened()).hosts(namespace)

    async def set_host(self, namespace: str, value: str | None) -> None:
        """Set this host's value in a namespace; None removes it. Raises the errors of `set_string`."""
        host = self._host()
        _demand_text(value, host, namespace)
        await self._write(lambda records: records.set_host(namespace, host, value))

    def watch_hosts(self, namespace: str) -> AsyncIterator[None]:
        """Watch the hosts' values in this namespace: one item once armed, then one for each change."""
        return self._changes(lambda records: records.watch_hosts(namespace))

    async def _opened(self) -> WorldRecords:
        async with self._bounded("read"):
            return await self._database.records()

    async def _write(self, write: Callable[[WorldRecords], Awaitable[None]]) -> None:
        records = await self._opened()
        async with self._bounded("change"):
            await write(records)

    async def _changes(self, watch: Callable[[WorldRecords], AsyncIterator[Any]]) -> AsyncIterator[None]:
        """Yield an item when armed, after each change, and whenever the visible strings may differ from before."""
        while True:
            moved = self._database.moved
            try:
                events = watch(await self._opened())
            except Temporary:
                if not self._database.remote:
                    raise
                yield None
            else:
                async with aclosing(either(_items(events), _items_until(moved))) as items:
                    async for _ in items:
                        if moved.is_set():
                            break
                        yield None
            await moved.wait()

    @asynccontextmanager
    async def _bounded(self, verb: str) -> AsyncIterator[None]:
        """End the block after some seconds, and raise `Permanent` and `Temporary` for the errors of the store."""
        seconds = self._database.timeout
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            why = self._database.trouble or f"no answer from the database within {seconds:g} s"
            raise Temporary(f"cannot {verb} the shared strings: {why}") from None
        except Invalid as error:
            raise Permanent(f"cannot {verb} the shared strings: {error}") from error
        except NorthboundError as error:
            raise Temporary(f"cannot {verb} the shared strings: {error}") from error


async def _items(events: AsyncIterator[Any]) -> Watch:
    """Return a watch with an item when armed, and one for each event."""
    yield None
    async for _ in events:
        yield None


async def _items_until(moved: asyncio.Event) -> Watch:
    """Return a watch with an item when armed, and one when the strings have moved to another database."""
    yield None
    await moved.wait()
    yield None


def _demand_text(value: str | None, key: str, *more: str) -> None:
    """Raise `Permanent` unless the names and the value can be stored."""
    for name in (key, *more):
        if not 0 < len(name) <= NAME:
            raise Permanent(f"cannot store a value as {name[:20]!r}: a name has 1 to {NAME} characters")
    try:
        "".join((key, *more, value or "")).encode()
    except UnicodeEncodeError:
        raise Permanent(f"cannot store the value as {key[:20]!r}: it is not text") from None
