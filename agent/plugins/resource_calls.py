"""Answers the calls of the protocol for resources with an author's operations."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from holdfast.agent.model.model import KindModel
from holdfast.agent.plugins.construct import construct
from holdfast.agent.plugins.differences import differences
from holdfast.agent.plugins.failures import failure_of, log_failure
from holdfast.agent.plugins.messages import message
from holdfast.agent.plugins.payloads import InvalidPayload, Payloads
from holdfast.agent.plugins.schema import Schema, outputs, remote_of
from holdfast.agent.plugins.stub import Found, Key, Operations, Partial, plain
from holdfast.agent.plugins.values import UNKNOWN, Violation, has_unknown
from holdfast.resources.errors import Permanent


class ResourceCalls:
    """Decodes and validates a request, calls the author's code, and validates and encodes its result."""

    def __init__(self, schema: Schema, operations: Mapping[str, Operations[Any]]) -> None:
        self.schema = schema
        self.operations = operations
        self.payloads = Payloads(schema, os.environ)

    async def check(self, request: Any) -> Any:
        """Return the inputs with defaults and, if they have no name, a new one."""
        kind, operations = self._kind(request.subject)
        values = self.payloads.inputs(kind, request.inputs, defaults=True)
        if remote_of(kind).named and "name" not in values:
            before = self.payloads.inputs(kind, request.old_inputs) if request.old_inputs else {}
            values["name"] = before.get("name") or f"{kind.name.rpartition('.')[2]}-{secrets.token_hex(4)}"
        found: Sequence[Violation] = ()
        if not has_unknown(values):
            found = await operations.check(construct(operations.struct, values))
        return message["CheckResponse"](inputs=self.payloads.pack_inputs(kind, values), violations=encoded(found))

    async def diff(self, request: Any) -> Any:
        """Return the fields that an update would change, and those that replace the resource."""
        kind, operations = self._kind(request.subject)
        state, values = self.payloads.state(kind, request.state), self.payloads.inputs(kind, request.inputs)
        found = Found(request.subject.id, construct(operations.struct, state))
        more = await operations.diff(found, construct(operations.struct, values))
        changed = differences(kind, state, values, more, request.differs)
        return message["DiffResponse"](
            differences=[message["Difference"](**each._asdict()) for each in changed],
            delete_first=remote_of(kind).delete_first,
        )

    async def read(self, request: Any) -> Any:
        """Return the resources in the order of the items. Those of one kind are read together, and fail together."""
        results: list[Any] = [None] * len(request.items)
        groups: dict[str, list[int]] = {}
        for number, item in enumerate(request.items):
            groups.setdefault(item.subject.token, []).append(number)
        for numbers in groups.values():
            try:
                found = await self._read_group([request.items[number] for number in numbers])
            except Exception as error:  # noqa: BLE001 - the code of an author may raise anything
                log_failure("Read", error)
                found = [message["ReadResult"](failure=failure_of(error, request))] * len(numbers)
            for number, result in zip(numbers, found, strict=True):
                results[number] = result
        return message["ReadResponse"](results=results)

    async def _read_group(self, items: Sequence[Any]) -> Sequence[Any]:
        kind, operations = self._kind(items[0].subject)
        results: list[Any] = [None] * len(items)
        wanted: dict[int, tuple[Key, Any]] = {}
        for number, item in enumerate(items):
            try:
                inputs = construct(operations.struct, self.payloads.inputs(kind, item.inputs))
                wanted[number] = Key(item.subject.id, item.subject.trace, item.subject.intent), inputs
            except InvalidPayload as error:
                results[number] = message["ReadResult"](violations=encoded(error.violations))
        found = await operations.read_many(list(wanted.values())) if wanted else ()
        if len(found) != len(wanted):
            raise TypeError(f"read_many returned {len(found)} results for {len(wanted)} resources")
        for number, each in zip(wanted, found, strict=True):
            results[number] = self._read_result(kind, each, items[number])
        return results

    def _read_result(self, kind: KindModel, found: Found[Any] | Exception | None, item: Any) -> Any:
        if found is None:
            return message["ReadResult"](exists=False)
        try:
            if isinstance(found, Exception):
                raise found  # noqa: TRY301 - one place makes failures
            state, differs = self._returned(kind, found), _differing(kind, found)
            return message["ReadResult"](
                exists=True, id=found.id, revision=found.revision, state=state, differs=differs
            )
        except Exception as error:  # noqa: BLE001 - the code of an author may raise anything
            return message["ReadResult"](failure=failure_of(error, item))

    async def create(self, request: Any) -> Any:
        """Create a resource. With `dry_run` the author's code is not called."""
        kind, operations = self._kind(request.subject)
        values = self.payloads.inputs(kind, request.inputs)
        if request.dry_run:
            return self._predicted(kind, "", values)
        made = construct(operations.struct, values)
        return await self._changed(kind, request, lambda: operations.create_once(made, request.subject.intent))

    async def update(self, request: Any) -> Any:
        """Change a resource. With `dry_run` the author's code is not called."""
        kind, operations = self._kind(request.subject)
        state, values = self.payloads.state(kind, request.state), self.payloads.inputs(kind, request.inputs)
        if request.dry_run:
            return self._predicted(kind, request.subject.id, {**state, **values})
        found = Found(request.subject.id, construct(operations.struct, state), request.expected_revision)
        made = construct(operations.struct, values)
        return await self._changed(kind, request, lambda: operations.update(found, made))

    async def delete(self, request: Any) -> Any:
        """Delete a resource. With `dry_run` the author is only asked whether that would fail."""
        kind, operations = self._kind(request.subject)
        state = self.payloads.state(kind, request.state)
        found = Found(request.subject.id, construct(operations.struct, state), request.expected_revision)
        async with asyncio.timeout(request.timeout_ms / 1000 or None):
            if not request.dry_run:
                await operations.delete(found)
            elif why := await operations.refusal(found):
                raise Permanent(why)
        return message["ChangeResponse"](id=request.subject.id)

    async def upgrade_state(self, request: Any) -> Any:
        """Return a state of an older version as one of the present version."""
        kind, operations = self._kind(request.subject)
        state = await operations.upgrade(request.subject.version, json.loads(request.state))
        data = json.dumps(state).encode()
        try:
            self.payloads.state(kind, data)
        except InvalidPayload as error:
            raise ValueError(f"the provider returned a wrong {kind.name}: {error}") from None
        return message["UpgradeStateResponse"](state=data)

    def _kind(self, subject: Any) -> tuple[KindModel, Operations[Any]]:
        if subject.token not in self.operations:
            raise Permanent(f"there is no resource {subject.token} in version {self.schema.package.version}")
        return self.schema.resources[subject.token], self.operations[subject.token]

    async def _changed(self, kind: KindModel, request: Any, change: Callable[[], Awaitable[Found[Any]]]) -> Any:
        """Return the response to a change. After an unfinished one, it has the state of the resource."""
        try:
            async with asyncio.timeout(request.timeout_ms / 1000 or None):
                found = await change()
        except Partial as error:
            return self._unfinished(kind, request, error.found, error)
        try:
            state = self._returned(kind, found)
            return message["ChangeResponse"](id=found.id, state=state, revision=found.revision)
        except (TypeError, ValueError) as error:
            return self._unfinished(kind, request, found, error)

    def _unfinished(self, kind: KindModel, request: Any, found: Found[Any], error: Exception) -> Any:
        """Return the response to a change that has failed after it created something: the next attempt needs its id.

        The state is empty if the author has returned a wrong one.
        """
        state = b""
        try:
            state = self._returned(kind, found)
        except (TypeError, ValueError) as wrong:
            if not isinstance(found, Found) or not isinstance(found.id, str) or not found.id:
                raise
            error = wrong
            log_failure("the check of what it returned", wrong)
        told = failure_of(error, request)
        return message["ChangeResponse"](id=found.id, state=state, partial=True, failure=told)

    def _predicted(self, kind: KindModel, id_: str, values: Mapping[str, Any]) -> Any:
        """Return the expected state after a change: fields that only the provider sets are unknown."""
        required = {each.name: UNKNOWN for each in outputs(kind.fields) if each.required}
        return message["ChangeResponse"](id=id_, state=self.payloads.pack_state(kind, {**required, **values}))

    def _returned(self, kind: KindModel, found: Any) -> bytes:
        """Return the state that an author has returned, after checking it against the schema."""
        if not isinstance(found, Found) or not isinstance(found.id, str) or not found.id:
            raise TypeError(f"the provider must return plugin.Found with an id, not {type(found).__name__}")
        try:
            data = self.payloads.pack_state(kind, plain(found.state))
            self.payloads.state(kind, data)
        except InvalidPayload as error:
            raise ValueError(f"the provider returned a wrong {kind.name}: {error}") from None
        except (TypeError, AttributeError, KeyError, StopIteration) as error:
            raise ValueError(f"the provider returned a {kind.name} with a value of a wrong type: {error}") from None
        return data


def _differing(kind: KindModel, found: Found[Any]) -> list[str]:
    """Return the write-only fields that differ according to the author's code."""
    known = [each.name for each in kind.fields if each.write_only]
    if wrong := [each for each in found.differs if each not in known]:
        listed = ", ".join(known) or "none"
        raise ValueError(f"the provider says that {wrong[0]!r} differs; only write-only fields may be named: {listed}")
    return list(found.differs)


def encoded(violations: Sequence[Violation]) -> list[Any]:
    """Return violations as messages."""
    return [message["Violation"](**each._asdict()) for each in violations]
