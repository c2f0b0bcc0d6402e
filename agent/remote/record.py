"""The agent's record of one resource: its identifier, the resources that it has replaced, an unfinished creation."""

from __future__ import annotations

import secrets
from typing import Any

from holdfast.agent.remote.calls import NotBegun, Present, RemoteCalls
from holdfast.agent.remote.kind import without_secrets
from holdfast.resources.errors import WrongArguments
from holdfast.resources.plugin import RemoteRecord


class ResourceRecord:
    """The record of the resource that has this key; `calls` ask the plugin about it."""

    def __init__(self, calls: RemoteCalls, key: str) -> None:
        self._calls, self._kind, self._plugin, self._key = calls, calls.kind, calls.plugin, key
        self.former: tuple[str, ...] = ()
        """Identifiers of the resources that this one has replaced and that may still exist, the oldest first."""
        self.stored: RemoteRecord | None = None
        """The record as it was stored."""

    async def load(self) -> RemoteRecord | None:
        """Return the record in the form of the present version."""
        record = self.stored = await self._plugin.remembered(self._kind.token, self._key)
        self.former = tuple(each for each in record.replaced if each != record.id) if record else ()
        self._calls.intent = record.intent if record else ""
        if record is not None and record.version != self._kind.remote.version:
            record = await self._calls.upgraded(record)
        return record

    def of(self, seen: Present, **more: Any) -> RemoteRecord:
        """Return the record of a resource."""
        state = self._kind.payloads.pack_state(self._kind.model, without_secrets(seen.state)) if seen.state else b""
        former = tuple(each for each in self.former if each != seen.id)
        return RemoteRecord(seen.id, state, self._kind.remote.version, seen.revision, replaced=former, **more)

    async def remember(self, seen: Present, **more: Any) -> None:
        """Write the record of a resource, durably."""
        self._kind.ids[self._key] = seen.id
        await self.keep(self.of(seen, **more))

    async def keep(self, record: RemoteRecord | None) -> None:
        """Record the result of a change, and then end the run if it was cancelled meanwhile."""
        await self._plugin.remember(self._kind.token, self._key, record)
        self.stored = record
        if self._calls.cancelled:
            raise self._calls.cancelled

    async def forget(self) -> None:
        """Record that the resource does not exist; the resources that it has replaced may exist."""
        self._kind.ids[self._key] = ""
        await self.keep(self._nothing() if self.former else None)

    async def forget_former(self, id_: str, *, apply: bool) -> None:
        """Record that a replaced resource no longer exists."""
        self.former = tuple(each for each in self.former if each != id_)
        if apply and (record := await self._plugin.remembered(self._kind.token, self._key)):
            await self.keep(record._replace(replaced=self.former))

    async def create(self, former: Present | None) -> Present | None:
        """Create the resource, perhaps in place of a former one; record a token before.

        If the agent dies before it knows the identifier, the next run uses the same token. A provider that can find the
        created resource by this token does not create it twice.
        """
        before = self.stored
        if before is None or (former and before.id != former.id):
            before = self.of(former) if former else self._nothing()
        if not self._calls.intent:
            self._calls.intent = secrets.token_hex(16)
            await self.keep(before._replace(intent=self._calls.intent))
        try:
            return await self._calls.create(dry_run=False)
        except (NotBegun, WrongArguments):  # nothing was created, so the next creation gets a new token
            await self.keep(before._replace(intent="") if before.id or before.replaced else None)
            raise

    def _nothing(self) -> RemoteRecord:
        return RemoteRecord("", b"", self._kind.remote.version, replaced=self.former)
