"""The calls of one run of a remote resource to its plugin: they check answers and turn failures into exceptions."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from holdfast.agent.plugins.differences import Difference
from holdfast.agent.plugins.masking import redactor_of, texts_of
from holdfast.agent.plugins.messages import message
from holdfast.agent.plugins.payloads import InvalidPayload
from holdfast.agent.plugins.values import steps
from holdfast.agent.remote.kind import RemoteKind, without_secrets
from holdfast.resources.errors import HoldfastError, Permanent, Temporary, WrongArguments
from holdfast.resources.plugin import Plugin, RemoteRecord

CHANGE = 600.0
"""Seconds within which a provider must create, update or delete a resource."""
ASK = 30.0
"""Seconds within which a provider must say whether such a change would be refused."""
ANSWER = 10.0
"""Seconds that the answer may take in addition."""
TIMEOUT = 2.0
"""Seconds for which a cancelled run still waits for the answer to a change, so that its result is remembered."""


class Conflicting(Temporary):
    """The resource has changed since it was read."""


class NotBegun(Permanent):
    """The provider says that it cannot execute the request, and has not begun."""


class Present(NamedTuple):
    """A resource that exists, as it was read or changed."""

    id: str
    state: dict[str, Any]
    revision: str = ""
    differs: tuple[str, ...] = ()
    """Write-only fields that differ according to the provider."""


class HalfMade(HoldfastError):
    """A resource was created, but not finished. `state` is empty if the provider could not tell it."""

    def __init__(self, id_: str, state: dict[str, Any], revision: str, failure: HoldfastError) -> None:
        super().__init__(str(failure))
        self.id, self.state, self.revision, self.failure = id_, state, revision, failure


class RemoteCalls:
    """Calls a plugin about one resource. `inputs` are its arguments; secrets among them appear in no error."""

    def __init__(self, kind: RemoteKind, plugin: Plugin, identity: str, inputs: Mapping[str, Any]) -> None:
        self.kind, self.plugin, self.identity = kind, plugin, identity
        self.inputs = inputs
        self.intent = ""
        """Token of the creation of the resource, while its result is unknown."""
        self.cancelled: asyncio.CancelledError | None = None
        """The cancellation of the run during a change; raised once the result of the change is recorded."""

    def _subject(self, id_: str = "", version: int | None = None) -> Any:
        version = self.kind.remote.version if version is None else version
        intent = "" if id_ else self.intent
        return message["Subject"](token=self.kind.token, id=id_, version=version, trace=self.identity, intent=intent)

    def packed(self) -> bytes:
        """Return the inputs as on the wire."""
        return self.kind.payloads.pack_inputs(self.kind.model, self.inputs)

    def item(self, id_: str) -> Any:
        """Return the item of a request to read the resource."""
        return message["ReadItem"](subject=self._subject(id_), inputs=self.packed())

    async def read(self, id_: str) -> Present | None:
        """Return the resource as it is; None if it does not exist."""
        answer = await self.plugin.read(self.item(id_))
        self._refuse("Read", answer)
        if not answer.exists:
            return None
        return Present(
            self._id("Read", answer), self._state("Read", answer.state), answer.revision, tuple(answer.differs)
        )

    async def check(self) -> dict[str, Any]:
        """Return the inputs as the provider completes them. Raises `WrongArguments` for those that it refuses."""
        given, checked = self.packed(), self.plugin.checked
        if (made := checked.get(self.kind.token, given)) is None:
            answer = await self._call("Check", "CheckRequest", inputs=given)
            made = answer.inputs
            self._inputs(made)
            checked.put(self.kind.token, given, made)
        self.inputs = self._inputs(made)
        return dict(self.inputs)

    async def diff(self, seen: Present, differs: Collection[str]) -> tuple[list[Difference], bool]:
        """Return the fields that an update would change, and whether a replacement deletes before it creates."""
        state = self.kind.payloads.pack_state(self.kind.model, seen.state)
        answer = await self._call(
            "Diff", "DiffRequest", seen.id, state=state, inputs=self.packed(), differs=sorted(differs)
        )
        found: list[Difference] = [Difference(each.path, each.kind, each.replaces) for each in answer.differences]
        if unknown := [each.path for each in found if each.path not in self.kind.inputs]:
            raise self.defect("Diff", f"it names {unknown[0]!r}, which is not an argument")
        return found, answer.delete_first

    async def create(self, *, dry_run: bool) -> Present | None:
        """Create the resource. A dry run only checks whether the request is valid."""
        return await self._change("Create", "", dry_run, inputs=self.packed())

    async def update(self, seen: Present, *, dry_run: bool) -> Present | None:
        """Update the resource. A dry run only checks whether the request is valid."""
        state = self.kind.payloads.pack_state(self.kind.model, seen.state)
        more = {"state": state, "inputs": self.packed(), "expected_revision": seen.revision}
        return await self._change("Update", seen.id, dry_run, **more)

    async def delete(self, seen: Present, *, dry_run: bool) -> None:
        """Delete the resource. A dry run only checks whether the request is valid."""
        state = self.kind.payloads.pack_state(self.kind.model, seen.state)
        more = {"state": state, "expected_revision": seen.revision}
        await self._call("Delete", "DeleteRequest", seen.id, changes=True, dry_run=dry_run, **more)

    async def upgraded(self, record: RemoteRecord) -> RemoteRecord:
        """Return a record with the state in the form of the present version; without a state if that cannot be made."""
        version = self.kind.remote.version
        if not record.state or record.version > version:
            return record._replace(state=b"", version=version)
        subject = self._subject(record.id, record.version)
        request = message["UpgradeStateRequest"](subject=subject, state=record.state)
        answer = await self.plugin.call("UpgradeState", request)
        if answer.failure.code == "unsupported":
            return record._replace(state=b"", version=version)
        self._refuse("UpgradeState", answer)
        state = without_secrets(self._state("UpgradeState", answer.state))
        return record._replace(state=self.kind.payloads.pack_state(self.kind.model, state), version=version)

    async def _change(self, method: str, id_: str, dry_run: bool, **members: Any) -> Present | None:
        answer = await self._call(method, f"{method}Request", id_, changes=True, dry_run=dry_run, **members)
        if dry_run:
            return None
        return Present(self._id(method, answer), self._state(method, answer.state), answer.revision)

    async def _call(self, method: str, name: str, id_: str = "", *, changes: bool = False, **members: Any) -> Any:
        """Return the answer to a call. Raises the exceptions for its violations and its failure."""
        if changes:
            limit, wait = (ASK, self.plugin.call) if members["dry_run"] else (CHANGE, self._patiently)
            request = message[name](subject=self._subject(id_), timeout_ms=int(limit * 1000), **members)
            answer = await wait(method, request, limit + ANSWER)
        else:
            answer = await self.plugin.call(method, message[name](subject=self._subject(id_), **members))
        self._refuse(method, answer)
        return answer

    async def _patiently(self, method: str, request: Any, timeout: float) -> Any:
        """Return the answer to a change. If the run is cancelled meanwhile, an answer that comes soon still counts."""
        call = asyncio.ensure_future(self.plugin.call(method, request, timeout))
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError as error:
            await asyncio.wait([call], timeout=TIMEOUT)
            if not call.done() or call.cancelled() or call.exception() is not None:
                raise
            self.cancelled = error
            return call.result()
        finally:
            call.cancel()  # this has no effect on a call that is done

    # -- answers ---------------------------------------------------------------------------------------------------

    def _refuse(self, method: str, answer: Any) -> None:
        """Raise the exception for the answer of a failed call."""
        if violations := getattr(answer, "violations", ()):
            raise WrongArguments([(steps(each.path), self._masked(each.message)) for each in violations])
        if not answer.failure.code:
            return
        failure = self._failure(method, answer.failure.code, self._masked(answer.failure.message))
        if getattr(answer, "partial", False) and answer.id:
            raise HalfMade(answer.id, self._partial_state(answer.state), answer.revision, failure)
        raise failure

    def _failure(self, method: str, code: str, said: str) -> HoldfastError:
        """Return the exception for a failure of the provider."""
        match code:
            case "retry":
                return Temporary(said)
            case "conflict":
                return Conflicting(said)
            case "cancelled":
                return Temporary(f"the provider of {self.kind.package} was ended")
            case "unsupported":
                return NotBegun(f"the provider of {self.kind.package} does not support {method} of {self.kind.token}")
            case "fault":
                return self.defect(method, said)
        return NotBegun(said)

    def defect(self, method: str, said: str) -> Permanent:
        """Return the error for an answer that no provider may give."""
        where = f"{method} of {self.kind.token}"
        return Permanent(f"the provider of {self.kind.package} has a defect: {where}: {self._masked(said)}")

    def _masked(self, text: str) -> str:
        return str(redactor_of(texts_of(dict(self.inputs)))(text))

    def _id(self, method: str, answer: Any) -> str:
        if not answer.id:
            raise self.defect(method, "it returned no id")
        return str(answer.id)

    def _state(self, method: str, data: bytes) -> dict[str, Any]:
        try:
            return self.kind.payloads.state(self.kind.model, data)
        except InvalidPayload as error:
            raise self.defect(method, f"it returned a wrong state: {error}") from None

    def _partial_state(self, data: bytes) -> dict[str, Any]:
        """Return the state of a resource that is not finished; empty if it is not valid."""
        try:
            return self.kind.payloads.state(self.kind.model, data)
        except InvalidPayload:
            return {}

    def _inputs(self, data: bytes) -> dict[str, Any]:
        try:
            return self.kind.payloads.inputs(self.kind.model, data)
        except InvalidPayload as error:
            raise self.defect("Check", f"it returned wrong inputs: {error}") from None
