"""The records of `Context.world`: strings that resources share, and strings that each host sets for itself."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, ClassVar

from holdfast.agent.northbound.api import NbApi
from holdfast.agent.northbound.errors import NotFound
from holdfast.agent.northbound.events import Event
from holdfast.agent.northbound.model import Model
from holdfast.agent.northbound.ref import OnDelete, Ref
from holdfast.agent.records.models import Host
from holdfast.resources.errors import Permanent

LIMIT, SHARED_LIMIT = 1 << 20, 8 << 20
"""Most bytes of all names and values together: on one host, and of all hosts that share a database."""
AGE = 10.0
"""Seconds for which a count of all bytes is used."""
RECORD = 256
"""Bytes that each string counts for in addition to its name and value: there are a few thousand at most."""


class SharedString(Model, table="world_strings"):
    """A string that all resources share. The ID is its key."""

    internal: ClassVar[bool] = True  # values may be secrets that resources exchange
    value: str


class HostString(Model, table="world_hosts"):
    """The string of one host in a namespace. `of` makes its ID, which begins with the host.

    So a database with users can let each host write its own entries only, and those of one host are removed together.
    """

    internal: ClassVar[bool] = True
    indexes: ClassVar = {"namespace": "namespace"}
    namespace: str
    host: Annotated[Ref[Host], OnDelete.DANGLE]
    value: str

    @classmethod
    def of(cls, namespace: str, host: str, value: str) -> HostString:
        """Return the record of a host in a namespace.

        Its ID is `host/namespace`; `/` and `%` in the host are escaped, so that no two pairs have the same ID.
        """
        return cls(id=f"{escaped(host)}/{namespace}", namespace=namespace, host=Ref[Host](host), value=value)


def escaped(host: str) -> str:
    """Return the name of a host without `/`."""
    return host.replace("%", "%25").replace("/", "%2f")


class WorldRecords:
    """Reads, writes and watches these records. Reads use the cache, so they work while the database is out of reach.

    Writes raise `Permanent` if all strings together would become too large, and the errors of the store. Processes that
    write at the same moment may exceed `limit` by what each of them writes.
    """

    def __init__(self, api: NbApi, limit: int = LIMIT) -> None:
        self._api, self._limit = api, limit
        self._growth = 0
        """Bytes that the current writes add."""
        self._size, self._counted = 0, -AGE
        """Bytes of all strings at the last count and of those added since; time of that count."""

    def string(self, key: str) -> str | None:
        """Return the string of a key; None if there is none."""
        found = self._api.view.get(SharedString, key)
        return found.value if found else None

    async def set_string(self, key: str, value: str | None) -> None:
        """Set a string; None removes it."""
        await self._set(SharedString(id=key, value=value or ""), removed=value is None)

    def watch_string(self, key: str) -> AsyncIterator[Event[Any]]:
        """Watch the string of this key, from now on."""
        return self._api.watch(SharedString, since=self._api.view, id=key)

    def hosts(self, namespace: str) -> Mapping[str, str]:
        """Return the value of each host in this namespace."""
        found = self._api.view.get_all(HostString, "namespace", namespace=namespace)
        return {each.host.id: each.value for each in found}

    async def set_host(self, namespace: str, host: str, value: str | None) -> None:
        """Set a host's value in a namespace; None removes it."""
        await self._set(HostString.of(namespace, host, value or ""), removed=value is None)

    def watch_hosts(self, namespace: str) -> AsyncIterator[Event[Any]]:
        """Watch the hosts' values in this namespace, from now on."""
        return self._api.watch(HostString, since=self._api.view, namespace=namespace)

    async def _set(self, record: SharedString | HostString, *, removed: bool) -> None:
        if removed:
            with suppress(NotFound):
                await self._api.delete(record)
            return
        growth = max(0, _size(record) - _size(self._api.view.get(type(record), record.id)))
        self._demand_room(growth)
        self._growth += growth
        try:
            async with self._api.transaction() as writing:
                writing.put(record)
        finally:
            self._growth -= growth

    def _demand_room(self, growth: int) -> None:
        """Raise `Permanent` if there is no room for so many more bytes.

        All strings are counted only every `AGE` seconds, and before a write is refused: thousands of them take
        milliseconds.
        """
        if not growth:
            return
        if time.monotonic() - self._counted > AGE or self._size + growth > self._limit:
            view = self._api.view
            strings, hosts = view.get_all(SharedString), view.get_all(HostString)
            self._size = sum(map(_size, strings)) + sum(map(_size, hosts)) + self._growth
            self._counted = time.monotonic()
        if self._size + growth > self._limit:
            raise Permanent(f"cannot store the value: all shared strings together may have at most {self._limit} bytes")
        self._size += growth


def _size(record: SharedString | HostString | None) -> int:
    return len(record.id.encode()) + len(record.value.encode()) + RECORD if record else 0
