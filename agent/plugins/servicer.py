"""Answers all calls of the protocol for one provider.

The gRPC server (`server.py`) and the adapter within one process (`in_process.py`) call `answer` and `watch`.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

from holdfast.agent.plugins.failures import failure_of, log_failure
from holdfast.agent.plugins.function_calls import FunctionCalls
from holdfast.agent.plugins.masking import mask, redactor_of, texts_of
from holdfast.agent.plugins.messages import METHODS, NEWEST, OLDEST, message
from holdfast.agent.plugins.payloads import InvalidPayload, Payloads
from holdfast.agent.plugins.resource_calls import ResourceCalls, encoded
from holdfast.agent.plugins.schema import Schema
from holdfast.agent.plugins.stub import Configure, Function, Operations, Unwatched
from holdfast.resources.errors import DeclarationError, Permanent
from holdfast.resources.secrets import Redactor

CAPABILITIES = ("events", "read-many", "upgrade-state")
EVENTS = 1000
"""Most events of watches that wait for the agent; watches wait while the queue is full."""


class Servicer:
    """One provider. `configure` receives its configuration, decoded and validated, before any other operation."""

    def __init__(
        self,
        text: str,
        operations: Iterable[Operations[Any] | Function[Any, Any]],
        configure: Configure | None = None,
    ) -> None:
        self.text = text
        self.start = secrets.token_hex(16)
        """Identifies this start of the provider."""
        self.schema = Schema.read(text)
        given = list(operations)
        self.operations = {each.token: each for each in given if isinstance(each, Operations)}
        functions = {each.token: each for each in given if isinstance(each, Function)}
        self._payloads = Payloads(self.schema, os.environ)
        self._configure = configure
        self._redactor = Redactor()
        """Masks the secrets of the configuration."""
        self._running: set[asyncio.Task[Any]] = set()
        wanted = {*self.schema.resources, *self.schema.functions}
        if missing := sorted(wanted - self.operations.keys() - functions.keys()):
            raise DeclarationError(f"nothing provides {', '.join(missing)}: pass an instance of each to serve()")
        calls = ResourceCalls(self.schema, self.operations)
        self._handlers: dict[str, Callable[[Any], Awaitable[Any]]] = {
            "Handshake": self._handshake,
            "GetSchema": self._get_schema,
            "CheckConfig": self._check_config,
            "Configure": self._set_config,
            "Check": calls.check,
            "Diff": calls.diff,
            "Read": calls.read,
            "Create": calls.create,
            "Update": calls.update,
            "Delete": calls.delete,
            "Invoke": FunctionCalls(self.schema, functions).invoke,
            "Cancel": self._cancel,
            "Health": self._health,
            "UpgradeState": calls.upgrade_state,
        }

    def hide(self, configuration: Any) -> None:
        """Mask the secrets of a configuration in all texts of the author's code from now on."""
        self._redactor = redactor_of(texts_of(configuration))

    def masked(self, text: str) -> str:
        """Return a text of the author's code without these secrets."""
        return str(self._redactor(text))

    async def answer(self, method: str, request: Any) -> Any:
        """Return the response to a request. Failures of the author's code are part of it."""
        return mask(await self._answer(method, request), self._redactor)

    async def _answer(self, method: str, request: Any) -> Any:
        task = asyncio.ensure_future(self._handlers[method](request))
        self._running.add(task)
        try:
            return await task
        except InvalidPayload as error:
            return message[METHODS[method].response](violations=encoded(error.violations))
        except asyncio.CancelledError as error:
            if not task.cancelled() or asyncio.current_task().cancelling():  # type: ignore[union-attr]
                task.cancel()
                raise
            return self._failed(method, error, request)
        except Exception as error:  # noqa: BLE001 - the code of an author may raise anything
            return self._failed(method, error, request)
        finally:
            self._running.discard(task)

    def _failed(self, method: str, error: BaseException, request: Any) -> Any:
        """Return the failure of a call."""
        log_failure(method, error)
        return message[METHODS[method].response](failure=failure_of(error, request))

    async def _handshake(self, request: Any) -> Any:
        package, common = self.schema.package, min(request.newest, NEWEST)
        if common < max(request.oldest, OLDEST):
            spoken = f"{request.oldest} to {request.newest}"
            raise Permanent(f"the plugin speaks versions {OLDEST} to {NEWEST} of the protocol, the agent {spoken}")
        if request.package != package.name:
            raise Permanent(f"the plugin provides the package {package.name!r}, not {request.package!r}")
        return message["HandshakeResponse"](
            protocol=common,
            capabilities=CAPABILITIES,
            package=package.name,
            version=package.version,
            schema_digest=self.schema.digest,
            start=self.start,
        )

    async def _get_schema(self, _: Any) -> Any:
        return message["GetSchemaResponse"](schema=self.text.encode())

    async def _check_config(self, request: Any) -> Any:
        self._payloads.config(request.config)
        return message["ConfigResponse"]()

    async def _set_config(self, request: Any) -> Any:
        values = self._payloads.config(request.config)
        self.hide(values)
        if self._configure is not None:
            await self._configure(values)
        return message["ConfigResponse"]()

    async def _health(self, _: Any) -> Any:
        return message["HealthResponse"](serving=True)

    async def _cancel(self, _: Any) -> Any:
        for task in self._running - {asyncio.current_task()}:
            task.cancel()
        return message["CancelResponse"]()

    def _watched(self, token: str) -> Operations[Any]:
        if token not in self.operations:
            raise Permanent(f"there is no resource {token} in version {self.schema.package.version}")
        return self.operations[token]

    async def watch(self, tokens: Sequence[str], revision: str, *, noop: bool = False) -> AsyncIterator[Any]:
        """Yield the events of these resources; one event says that all of them are watched.

        Raises errors of the author's code.
        """
        events: asyncio.Queue[Any] = asyncio.Queue(EVENTS)
        unarmed = set(tokens)

        async def follow(token: str) -> None:
            async for item in self._watched(token).watch(revision, noop):
                if isinstance(item, Unwatched):
                    why = self.masked(item.why) or "the provider does not say why"
                    await events.put(message["WatchEvent"](token=token, id=item.id, unwatched=why))
                elif token not in unarmed:
                    id_, at = item
                    await events.put(message["WatchEvent"](token=token, id=id_, revision=at, relist=not id_))
                if token in unarmed:
                    unarmed.discard(token)
                    if not unarmed:
                        await events.put(message["WatchEvent"](armed=True))

        followers = [asyncio.ensure_future(follow(token)) for token in tokens]
        waiting = None
        try:
            while True:
                waiting = asyncio.ensure_future(events.get())
                done, _ = await asyncio.wait([waiting, *followers], return_when=asyncio.FIRST_COMPLETED)
                if waiting in done:
                    yield waiting.result()
                    continue
                next(iter(done)).result()
                return  # a watch has ended without an error; the agent starts it again
        finally:
            tasks = [*followers, waiting] if waiting else followers
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
