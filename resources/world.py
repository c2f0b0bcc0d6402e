"""Strings and maps that resources share, and hosts, if the settings name an etcd (`Context.world`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Protocol


class World(Protocol):
    """Strings that hosts share, and maps with one string for each host.

    Without etcd, the resources of one host share them. A method raises `Temporary` while the strings cannot be read or
    written, and otherwise `Permanent` or `OSError`; a failed watch ends with one of these. While etcd cannot be
    reached, reads return the last known strings; when it is back, watches report a possible change.
    """

    async def string(self, key: str) -> str | None:
        """Return the string of a key; None if there is none."""
        ...

    async def set_string(self, key: str, value: str | None) -> None:
        """Set a string; None removes it."""
        ...

    def watch_string(self, key: str) -> AsyncIterator[None]:
        """Watch the string of a key: one item for each change."""
        ...

    async def hosts(self, namespace: str) -> Mapping[str, str]:
        """Return the strings that hosts have set in a namespace, by host."""
        ...

    async def set_host(self, namespace: str, value: str | None) -> None:
        """Set the string of this host in a namespace; None removes it."""
        ...

    def watch_hosts(self, namespace: str) -> AsyncIterator[None]:
        """Watch a namespace: one item for each change of any host's string."""
        ...
