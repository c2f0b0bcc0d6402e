"""The agent's end of a provider, in miniature: what a run does with one remote resource, for tests of providers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from deadline import DEADLINE
from holdfast.agent.plugins.decode import Decoder
from holdfast.agent.plugins.differences import Difference
from holdfast.agent.plugins.encode import Encoder
from holdfast.agent.plugins.in_process import ProviderConnection
from holdfast.agent.plugins.messages import message
from holdfast.agent.plugins.payloads import Payloads
from holdfast.agent.plugins.schema import Schema, remote_of


class Failed(Exception):
    """A call has failed.

    `code` is that of the protocol, `partial` the identifier of a resource that was created anyway.
    """

    def __init__(self, code: str, said: str, partial: str = "") -> None:
        super().__init__(said)
        self.code = code
        self.partial = partial


class Reading(NamedTuple):
    """The result of a read."""

    id: str
    state: dict[str, Any]
    revision: str
    differs: tuple[str, ...]


class RemoteAgent:
    """Calls a provider as the agent does. Arguments and states are values as in state files."""

    def __init__(self, schema: Schema, connection: ProviderConnection) -> None:
        self.connection = connection
        self._schema = schema
        self._payloads = Payloads(schema)
        self.ids: dict[tuple[str, str], str] = {}
        """Identifiers that the agent remembers, by kind and name of the declaration."""

    async def configure(self, **config: Any) -> None:
        """Configure the provider."""
        data = self._payloads.pack_config(self._payloads.config_given(config))
        answer = await self._call("Configure", "ConfigRequest", config=data)
        assert not answer.violations, answer.violations

    async def _call(self, method: str, request: str, **members: Any) -> Any:
        answer = await self.connection.call(method, message[request](**members))
        if answer.failure.code:
            partial = answer.id if getattr(answer, "partial", False) else ""
            raise Failed(answer.failure.code, answer.failure.message, partial)
        return answer

    def _subject(self, kind: str, id_: str) -> Any:
        return message["Subject"](token=remote_of(self._schema.kinds[kind]).token, id=id_)

    def _packed(self, kind: str, arguments: dict[str, Any]) -> bytes:
        """Return arguments of a state file encoded as on the wire; the provider must find wrong ones."""
        model = self._schema.kinds[kind]
        values = Decoder(self._schema, wire=False).inputs(model, arguments)
        return self._payloads.pack_inputs(model, values)

    async def check(self, kind: str, **arguments: Any) -> bytes:
        """Return the arguments with defaults, on the wire. Raises `Failed` with the code `violation`."""
        packed = self._packed(kind, arguments)
        answer = await self._call("Check", "CheckRequest", subject=self._subject(kind, ""), inputs=packed)
        if answer.violations:
            told = "; ".join(f"{each.path} {each.code}: {each.message}" for each in answer.violations)
            raise Failed("violation", told)
        return bytes(answer.inputs)

    def _plain(self, kind: str, state: bytes) -> dict[str, Any]:
        model = self._schema.kinds[kind]
        return Encoder(self._schema, wire=False).fields(model.fields, self._payloads.state(model, state))

    async def _read(self, kind: str, id_: str, packed: bytes) -> Any:
        item = message["ReadItem"](subject=self._subject(kind, id_), inputs=packed)
        result = (await self._call("Read", "ReadRequest", items=[item])).results[0]
        if result.failure.code:
            raise Failed(result.failure.code, result.failure.message)
        return result

    async def read(self, kind: str, id_: str = "", **arguments: Any) -> Reading | None:
        """Return the present state of the resource."""
        found = await self._read(kind, id_, await self.check(kind, **arguments))
        if not found.exists:
            return None
        return Reading(found.id, self._plain(kind, found.state), found.revision, tuple(found.differs))

    async def run(self, kind: str, ensure: str = "present", id_: str = "", **arguments: Any) -> list[str]:
        """Make a resource as declared; return what was done: `create`, `delete`, and the fields of an update.

        `id_`: what the agent remembers from an earlier declaration.
        """
        packed = await self.check(kind, **arguments)
        key = kind, json.dumps(arguments, default=str, sort_keys=True)
        found = await self._read(kind, id_ or self.ids.get(key, ""), packed)
        if ensure == "absent":
            return await self._delete(key, found)
        if not found.exists:
            return await self._create(key, packed)
        self.ids[key] = found.id
        asked = {"subject": self._subject(kind, found.id), "state": found.state, "inputs": packed}
        answer = await self._call("Diff", "DiffRequest", differs=found.differs, **asked)
        changes = [Difference(each.path, each.kind, each.replaces) for each in answer.differences]
        if any(each.replaces for each in changes):
            return [*await self._delete(key, found), *await self._create(key, packed)]
        if changes:
            await self._call("Update", "UpdateRequest", expected_revision=found.revision, **asked)
        return [each.path for each in changes]

    async def refusal(self, kind: str, **arguments: Any) -> str:
        """Return the provider's reason why a deletion would fail, as in a plan; empty if it gives none."""
        found = await self._read(kind, "", await self.check(kind, **arguments))
        subject = self._subject(kind, found.id)
        try:
            await self._call("Delete", "DeleteRequest", subject=subject, state=found.state, dry_run=True)
        except Failed as error:
            return str(error)
        return ""

    async def read_all(self, kind: str, declared: list[dict[str, Any]]) -> list[Any]:
        """Return the results of one read of many."""
        packed = [await self.check(kind, **each) for each in declared]
        items = [message["ReadItem"](subject=self._subject(kind, ""), inputs=each) for each in packed]
        return list((await self._call("Read", "ReadRequest", items=items)).results)

    async def update(self, kind: str, found: Reading, **arguments: Any) -> None:
        """Update what was read to these arguments."""
        state = self._payloads.pack_state(self._schema.kinds[kind], self._decoded(kind, found.state))
        inputs = await self.check(kind, **arguments)
        members = {"state": state, "inputs": inputs, "expected_revision": found.revision}
        await self._call("Update", "UpdateRequest", subject=self._subject(kind, found.id), **members)

    def _decoded(self, kind: str, state: dict[str, Any]) -> dict[str, Any]:
        return Decoder(self._schema, wire=False).outputs(self._schema.kinds[kind], state)

    @asynccontextmanager
    async def watching(self, *kinds: str, noop: bool = False) -> AsyncIterator[Callable[[], Awaitable[str]]]:
        """Watch kinds; yield a function that waits for the next event and returns its module, class and identifier.

        Reports that something is not watched are not events.
        """
        tokens = [remote_of(self._schema.kinds[each]).token for each in kinds]
        stream = self.connection.watch(tokens, "", noop=noop)
        first = await anext(stream)
        assert first.armed

        async def event() -> str:
            async with asyncio.timeout(DEADLINE):
                while (found := await anext(stream)).unwatched:
                    pass
            return f"{found.token.partition(':')[2]} {found.id}"

        try:
            yield event
        finally:
            await stream.aclose()  # type: ignore[attr-defined] - it is a generator

    async def _create(self, key: tuple[str, str], packed: bytes) -> list[str]:
        answer = await self._call("Create", "CreateRequest", subject=self._subject(key[0], ""), inputs=packed)
        self.ids[key] = answer.id
        return ["create"]

    async def _delete(self, key: tuple[str, str], found: Any) -> list[str]:
        if not found.exists:
            return []
        subject = self._subject(key[0], found.id)
        await self._call(
            "Delete", "DeleteRequest", subject=subject, state=found.state, expected_revision=found.revision
        )
        self.ids.pop(key, None)
        return ["delete"]
