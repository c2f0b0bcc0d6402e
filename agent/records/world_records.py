"""The records of `Context.world`: strings that resources share, and strings that each host sets for itself."""

from __future__ import annotations

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

LIMIT = 1 << 20
"""Most bytes of all names and values together."""
RECORD = 256
"""Bytes that each string counts for in addition to its name and value: there are a few thousand at most."""


class SharedString(Model, table="world_strings"):
    """A string that all resources share. The ID is its key."""

    internal: ClassVar[bool] = True  # values may be secrets that resources exchange
    value: str


class HostString(Model, table="world_hosts"):
    """The string of one host in a namespace. `of` makes its ID."""

    internal: ClassVar[bool] = True
    indexes: ClassVar = {"namespace": "namespace"}
    namespace: str
    host: Annotated[Ref[Host], OnDelete.DANGLE]
    value: str

    @classmethod
    def of(cls, namespace: str, host: str, value: str) -> HostString:
        """Return the record of a host in a namespace.

        Its ID is `namespace/host`; `/` and `%` in the namespace are escaped, so that no two pairs have the same ID.
        """
        escaped = namespace.replace("%", "%25").replace("/", "%2f")
        return cls(id=f"{escaped}/{host}", namespace=namespace, host=Ref[Host](host), value=value)


class WorldRecords:
    """Reads, writes and watches these records. Reads use the cache, so they go on while the database is out of reach.

    Writes raise `Permanent` if all strings together would become too large, and the errors of the store. Processes that
    write at the same moment may exceed `LIMIT` by what each of them writes.
    """

    def __init__(self, api: NbApi) -> None:
        self._api = api
        self._growth = 0
        """Bytes that the writes under way add."""

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
        if growth and self._size() + self._growth + growth > LIMIT:
            raise Permanent(f"cannot store the value: all shared strings together may have at most {LIMIT} bytes")
        self._growth += growth
        try:
            async with self._api.transaction() as writing:
                writing.put(record)
        finally:
            self._growth -= growth

    def _size(self) -> int:
        """Return the size of all strings."""
        view = self._api.view
        return sum(map(_size, view.get_all(SharedString))) + sum(map(_size, view.get_all(HostString)))


def _size(record: SharedString | HostString | None) -> int:
    return len(record.id.encode()) + len(record.value.encode()) + RECORD if record else 0
