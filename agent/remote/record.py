"""What the agent remembers of one resource: its identifier, what it has replaced, and a creation under way."""

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
        """The record, as it was stored."""

    async def load(self) -> RemoteRecord | None:
        """Return what is remembered, in the form of the present version."""
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
        """Remember a resource. It is durable on return."""
        self._kind.ids[self._key] = seen.id
        await self.keep(self.of(seen, **more))

    async def keep(self, record: RemoteRecord | None) -> None:
        """Write down what a change has led to, and then end the run if it was cancelled meanwhile."""
        await self._plugin.remember(self._kind.token, self._key, record)
        self.stored = record
        if self._calls.cancelled:
            raise self._calls.cancelled

    async def forget(self) -> None:
        """Note that the resource does not exist; what it has replaced may."""
        self._kind.ids[self._key] = ""
        await self.keep(self._nothing() if self.former else None)

    async def forget_former(self, id_: str, *, apply: bool) -> None:
        """Note that nothing is left of a resource that was replaced."""
        self.former = tuple(each for each in self.former if each != id_)
        if apply and (record := await self._plugin.remembered(self._kind.token, self._key)):
            await self.keep(record._replace(replaced=self.former))

    async def create(self, former: Present | None) -> Present | None:
        """Create the resource, perhaps in place of a former one; its token is written down before.

        If the agent dies before it knows the identifier, the next run asks with the same token, and a provider that can
        tell by it what was made makes nothing twice.
        """
        before = self.stored
        if before is None or (former and before.id != former.id):
            before = self.of(former) if former else self._nothing()
        if not self._calls.intent:
            self._calls.intent = secrets.token_hex(16)
            await self.keep(before._replace(intent=self._calls.intent))
        try:
            return await self._calls.create(dry_run=False)
        except (NotBegun, WrongArguments):  # nothing was made, so the next creation is another one
            await self.keep(before._replace(intent="") if before.id or before.replaced else None)
            raise

    def _nothing(self) -> RemoteRecord:
        return RemoteRecord("", b"", self._kind.remote.version, replaced=self.former)
