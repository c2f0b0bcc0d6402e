"""A provider within one process, with the interface by which the agent calls a plugin. Tests of providers use it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from holdfast.agent.plugins.messages import METHODS, message
from holdfast.agent.plugins.servicer import Servicer
from holdfast.resources.errors import Temporary


class ProviderConnection(Protocol):
    """The interface by which the agent calls a provider, wherever the provider runs."""

    async def call(self, method: str, request: Any, timeout: float | None = None) -> Any:
        """Return the response. Raises `Temporary` if the provider cannot be reached, or does not answer in time."""
        ...

    def watch(self, tokens: Sequence[str], revision: str, *, noop: bool = False) -> AsyncIterator[Any]:
        """Yield the events of resources; with `noop`, the watch does not change the server.

        Raises `Temporary` if the connection ends.
        """
        ...


class InProcess:
    """Calls a provider in this process. Requests and responses are encoded and decoded as they are on the wire."""

    def __init__(self, servicer: Servicer) -> None:
        self._servicer = servicer

    async def call(self, method: str, request: Any, timeout: float | None = None) -> Any:
        """Return the response. Raises `Temporary` after `timeout` seconds."""
        names = METHODS[method]
        received = message[names.request].FromString(request.SerializeToString())
        try:
            async with asyncio.timeout(timeout):
                answer = await self._servicer.answer(method, received)
        except TimeoutError:
            raise Temporary(f"{method}: no answer in time") from None
        return message[names.response].FromString(answer.SerializeToString())

    def watch(self, tokens: Sequence[str], revision: str, *, noop: bool = False) -> AsyncIterator[Any]:
        """Yield the events of resources."""
        return self._servicer.watch(tokens, revision, noop=noop)
