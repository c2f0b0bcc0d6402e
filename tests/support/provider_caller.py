"""Calls a provider with plain values, as the agent does: checks, reads, creates and updates a declared resource."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.agent.plugins.client import Client
from holdfast.agent.plugins.differences import differences
from holdfast.agent.plugins.messages import message
from holdfast.agent.plugins.payloads import Payloads
from holdfast.agent.plugins.schema import Schema


class ProviderCaller:
    """A running provider, and the schema of its package."""

    def __init__(self, client: Client, schema: Schema) -> None:
        self.client = client
        self.schema = schema
        self.payloads = Payloads(schema)

    async def configure(self, **config: Any) -> None:
        """Send the configuration."""
        given = self.payloads.config_given(config)
        answer = await self.client.call("Configure", message["ConfigRequest"](config=self.payloads.pack_config(given)))
        assert not answer.violations
        assert not answer.failure.code, answer.failure

    def _kind(self, name: str) -> Any:
        return self.schema.kinds[name]

    def _subject(self, name: str, id_: str = "") -> Any:
        return message["Subject"](token=self._kind(name).remote.token, id=id_)

    async def check(self, kind: str, /, **inputs: Any) -> Any:
        """Return the answer to a check of a declaration, which is given as in state files."""
        data = self.payloads.pack_inputs(self._kind(kind), inputs)
        return await self.client.call("Check", message["CheckRequest"](subject=self._subject(kind), inputs=data))

    async def checked(self, kind: str, /, **inputs: Any) -> bytes:
        """Return the inputs with defaults."""
        answer = await self.check(kind, **inputs)
        assert not answer.violations
        assert not answer.failure.code, answer.failure
        return bytes(answer.inputs)

    async def read(self, kind: str, /, *, raw: bool = False, timeout: float | None = None, **inputs: Any) -> Any:
        """Return the result of a read; with `raw`, also of a read that has failed."""
        item = message["ReadItem"](subject=self._subject(kind), inputs=await self.checked(kind, **inputs))
        result = (await self.client.call("Read", message["ReadRequest"](items=[item]), timeout)).results[0]
        assert raw or not result.failure.code, result.failure
        return result

    async def read_many(self, kind: str, /, declared: Iterable[Mapping[str, Any]]) -> None:
        """Read resources by one request, without a check of their declarations."""
        packed = (self.payloads.pack_inputs(self._kind(kind), each) for each in declared)
        items = [message["ReadItem"](subject=self._subject(kind), inputs=each) for each in packed]
        await self.client.call("Read", message["ReadRequest"](items=items))

    def state(self, name: str, answer: Any) -> Mapping[str, Any]:
        """Return the state in an answer."""
        return self.payloads.state(self._kind(name), answer.state)

    async def differing(self, kind: str, /, **inputs: Any) -> list[str] | None:
        """Return the fields that differ from a declaration; None if there is no such resource."""
        found = await self.read(kind, **inputs)
        if not found.exists:
            return None
        wanted = self.payloads.inputs(self._kind(kind), await self.checked(kind, **inputs))
        return [
            each.path
            for each in differences(self._kind(kind), self.state(kind, found), wanted, hidden=list(found.differs))
        ]

    async def make(self, kind: str, /, timeout: float | None = None, **inputs: Any) -> Any:
        """Create or update a resource, and return the answer."""
        found, data = await self.read(kind, **inputs), await self.checked(kind, **inputs)
        more: dict[str, Any] = {"inputs": data, "timeout_ms": int((timeout or 0) * 1000)}
        if not found.exists:
            request = message["CreateRequest"](subject=self._subject(kind), **more)
            return await self.client.call("Create", request, timeout)
        more |= {"state": found.state, "expected_revision": found.revision}
        request = message["UpdateRequest"](subject=self._subject(kind, found.id), **more)
        return await self.client.call("Update", request, timeout)

    async def settled(self, kind: str, /, **inputs: Any) -> Mapping[str, Any]:
        """Create or update a resource, check that nothing differs afterwards, and return its state."""
        answer = await self.make(kind, **inputs)
        assert not answer.failure.code, answer.failure
        differing = await self.differing(kind, **inputs)
        assert differing == [], differing
        return self.state(kind, answer)

    async def delete(self, kind: str, /, **inputs: Any) -> Any:
        """Delete a resource, and return the answer."""
        found = await self.read(kind, **inputs)
        subject = self._subject(kind, found.id)
        request = message["DeleteRequest"](subject=subject, state=found.state, expected_revision=found.revision)
        return await self.client.call("Delete", request)

    def watch(self, name: str, *, noop: bool = False) -> Any:
        """Return the events of a kind."""
        return self.client.watch([self._kind(name).remote.token], "", noop=noop)
