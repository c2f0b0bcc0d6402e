"""Strings and host maps of a host: the implementation of `Context.world`.

The records, their models and the store are loaded when a resource uses them for the first time, in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from holdfast.agent.northbound.errors import Invalid, NorthboundError
from holdfast.resources.context import Watch
from holdfast.resources.errors import Permanent, Temporary

if TYPE_CHECKING:
    from holdfast.agent.records.world_records import WorldRecords

NAME = 256
"""Most characters of a key, namespace or host."""
PATIENCE = 8.0
"""Most seconds of one call. The database gives up a write after five or six, and says why."""


class StoredWorld:
    """Strings and host maps of one host in a store, which other processes and hosts may use, too.

    `open_records` opens the store; its errors are those of all methods. `host` returns the name of this host.
    """

    def __init__(self, open_records: Callable[[], Awaitable[WorldRecords]], host: Callable[[], str]) -> None:
        self._open_records, self._host = open_records, host
        self._opening = asyncio.Lock()
        self._records: WorldRecords | None = None

    async def string(self, key: str) -> str | None:
        """Return the string of a key; None if there is none. Raises `Temporary` if the database cannot be opened."""
        return (await self._opened()).string(key)

    async def set_string(self, key: str, value: str | None) -> None:
        """Set a string; None removes it.

        Raises `Permanent` if the value is too large or not valid text, `Temporary` while it cannot be written.
        """
        _demand_text(value, key)
        await self._write(lambda records: records.set_string(key, value))

    def watch_string(self, key: str) -> Watch:
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

    def watch_hosts(self, namespace: str) -> Watch:
        """Watch the hosts' values in this namespace: one item once armed, then one for each change."""
        return self._changes(lambda records: records.watch_hosts(namespace))

    async def _opened(self) -> WorldRecords:
        if self._records is None:
            async with _bounded("read"), self._opening:
                self._records = self._records or await self._open_records()
        return self._records

    async def _write(self, write: Callable[[WorldRecords], Awaitable[None]]) -> None:
        records = await self._opened()
        async with _bounded("change"):
            await write(records)

    async def _changes(self, watch: Callable[[WorldRecords], AsyncIterator[Any]]) -> AsyncIterator[None]:
        events = watch(await self._opened())
        yield None
        async for _ in events:
            yield None


@asynccontextmanager
async def _bounded(verb: str) -> AsyncIterator[None]:
    """End the block after `PATIENCE` seconds, and raise `Permanent` and `Temporary` for the errors of the store."""
    try:
        async with asyncio.timeout(PATIENCE):
            yield
    except TimeoutError:
        raise Temporary(f"cannot {verb} the shared strings: no answer of the database in {PATIENCE:g} s") from None
    except Invalid as error:
        raise Permanent(f"cannot {verb} the shared strings: {error}") from error
    except NorthboundError as error:
        raise Temporary(f"cannot {verb} the shared strings: {error}") from error


def _demand_text(value: str | None, key: str, *more: str) -> None:
    """Raise `Permanent` unless the names and the value can be stored."""
    for name in (key, *more):
        if not 0 < len(name) <= NAME:
            raise Permanent(f"cannot store a value as {name[:20]!r}: a name has 1 to {NAME} characters")
    try:
        "".join((key, *more, value or "")).encode()
    except UnicodeEncodeError:
        raise Permanent(f"cannot store the value as {key[:20]!r}: it is not text") from None
