"""A provider within the process of its tests: `plugin.Trial`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any, TypeVar

from holdfast.agent.model.model import KindModel
from holdfast.agent.plugins.construct import construct
from holdfast.agent.plugins.in_process import InProcess
from holdfast.agent.plugins.messages import message
from holdfast.agent.plugins.payloads import InvalidPayload, Payloads
from holdfast.agent.plugins.schema import remote_of
from holdfast.agent.plugins.servicer import Servicer
from holdfast.agent.plugins.stub import (
    Configure,
    Conflict,
    Found,
    Function,
    Operations,
    Partial,
    Struct,
    Unwatched,
    plain,
)
from holdfast.agent.plugins.values import Violation
from holdfast.resources.errors import HoldfastError, Permanent, Temporary

S = TypeVar("S", bound=Struct)
RAISED: dict[str, type[HoldfastError]] = {"retry": Temporary, "conflict": Conflict}
"""Code of a failure -> the exception for it; `Permanent` for any other code."""


class Trial:
    """Calls a provider as the agent does: arguments and results are validated, encoded and decoded as on the wire.

    Inputs and states are generated dataclasses. Wrong values raise `plugin.Invalid`; a failure raises `Temporary`,
    `Conflict`, `Partial` or `Permanent`, as the provider did. A defect of the provider is `Permanent`.
    """

    def __init__(
        self, schema: str, *operations: Operations[Any] | Function[Any, Any], configure: Configure | None = None
    ) -> None:
        servicer = Servicer(schema, operations, configure)
        self._connection = InProcess(servicer)
        self._payloads = Payloads(servicer.schema)
        self._kinds: dict[type[Struct], KindModel] = {}
        for each in operations:
            if isinstance(each, Operations):
                self._kinds[each.struct] = servicer.schema.resources[each.token]

    async def configure(self, **config: Any) -> None:
        """Configure the provider, with values as in agent.yaml."""
        packed = self._payloads.pack_config(self._payloads.config_given(config))
        await self._call("Configure", message["ConfigRequest"](config=packed))

    async def check(self, inputs: S) -> S:
        """Return inputs as the provider gets them in other calls: with defaults, and with a name."""
        answer = await self._call("Check", self._request("Check", inputs))
        values = self._payloads.inputs(self._kinds[type(inputs)], answer.inputs)
        return construct(type(inputs), values)  # type: ignore[no-any-return]

    async def read(self, inputs: S, id: str = "", intent: str = "") -> Found[S] | None:
        """Return the resource with this identifier or these inputs; None if it does not exist.

        `intent`: token of a creation whose result is unknown.
        """
        item = message["ReadItem"](subject=self._subject(type(inputs), id, intent), inputs=self._inputs(inputs))
        answer = await self._call("Read", message["ReadRequest"](items=[item]))
        result = _succeeded(answer.results[0])
        if not result.exists:
            return None
        return replace(self._found(type(inputs), result), differs=tuple(result.differs))

    async def create(self, inputs: S, intent: str = "") -> Found[S]:
        """Check inputs, and create a resource. `intent`: token of this creation, the same whenever it is repeated."""
        request = self._request("Create", await self.check(inputs))
        request.subject.intent = intent
        return await self._change("Create", type(inputs), request)

    async def update(self, found: Found[S], inputs: S) -> Found[S]:
        """Check inputs, and change a resource."""
        more = {"state": self._state(found), "expected_revision": found.revision}
        request = self._request("Update", await self.check(inputs), found.id, **more)
        return await self._change("Update", type(inputs), request)

    async def delete(self, found: Found[S]) -> None:
        """Delete a resource."""
        subject, state = self._subject(type(found.state), found.id), self._state(found)
        request = message["DeleteRequest"](subject=subject, state=state, expected_revision=found.revision)
        await self._call("Delete", request)

    async def watch(
        self, struct: type[Struct], revision: str = "", *, noop: bool = False
    ) -> AsyncGenerator[str | Unwatched, None]:
        """Yield an empty text once changes are reported, and then the identifier of each resource that has changed.

        An empty text again says that changes may have been missed, `Unwatched` that they are not reported.
        """
        events = self._connection.watch([remote_of(self._kinds[struct]).token], revision, noop=noop)
        async for event in events:
            yield Unwatched(event.unwatched, event.id) if event.unwatched else event.id

    # -- messages ----------------------------------------------------------------------------------------------

    def _subject(self, struct: type[Struct], id: str = "", intent: str = "") -> Any:
        return message["Subject"](token=remote_of(self._kinds[struct]).token, id=id, intent=intent)

    def _inputs(self, inputs: Struct) -> bytes:
        return self._payloads.pack_inputs(self._kinds[type(inputs)], plain(inputs))

    def _state(self, found: Found[Any]) -> bytes:
        return self._payloads.pack_state(self._kinds[type(found.state)], plain(found.state))

    def _request(self, method: str, inputs: Struct, id: str = "", **more: Any) -> Any:
        subject = self._subject(type(inputs), id)
        return message[f"{method}Request"](subject=subject, inputs=self._inputs(inputs), **more)

    def _found(self, struct: type[S], answer: Any) -> Found[S]:
        state = self._payloads.state(self._kinds[struct], answer.state)
        return Found(answer.id, construct(struct, state), answer.revision)

    async def _change(self, method: str, struct: type[S], request: Any) -> Found[S]:
        answer = await self._connection.call(method, request)
        if answer.partial:
            raise Partial(answer.failure.message, self._found(struct, answer))
        return self._found(struct, _succeeded(answer))

    async def _call(self, method: str, request: Any) -> Any:
        return _succeeded(await self._connection.call(method, request))


def _succeeded(answer: Any) -> Any:
    """Return a response without violations and failure; raise the exceptions for these."""
    if answer.violations if "violations" in answer.DESCRIPTOR.fields_by_name else ():
        raise InvalidPayload([Violation(each.code, each.path, each.message) for each in answer.violations])
    if answer.failure.code:
        raise RAISED.get(answer.failure.code, Permanent)(answer.failure.message)
    return answer
