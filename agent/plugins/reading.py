"""Batches of reads: reads that are called together are sent in one request.

If the request fails, all of its items fail, whichever has caused that. Each of them is then read alone until it
succeeds, so that a resource whose read crashes the plugin does not prevent the reads of others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.agent.plugins.messages import message

MOST = 200
"""Most items of a request."""
Key = tuple[str, str, bytes]
Waiting = tuple[Any, asyncio.Future[Any]]


class Reads:
    """The reads of one plugin. `ask` sends one request."""

    def __init__(self, ask: Callable[[Any], Awaitable[Any]]) -> None:
        self._ask = ask
        self._waiting: list[Waiting] = []
        self._alone: set[Key] = set()
        """The items of failed requests."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def read(self, item: Any) -> Any:
        """Return the result for one item. Raises what `ask` raises."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if _key(item) in self._alone:
            self._begin([(item, answer)])
        else:
            if not self._waiting:
                asyncio.get_running_loop().call_soon(self._flush)
            self._waiting.append((item, answer))
        return await answer

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for first in range(0, len(waiting), MOST):
            self._begin(waiting[first : first + MOST])

    def _begin(self, waiting: list[Waiting]) -> None:
        task = asyncio.create_task(self._answer(waiting))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, waiting: list[Waiting]) -> None:
        """Send a request for these items, and give the results to their callers."""
        waiting = [each for each in waiting if not each[1].done()]
        if not waiting:
            return
        keys = {_key(item) for item, _ in waiting}
        try:
            response = await self._ask(message["ReadRequest"](items=[item for item, _ in waiting]))
        except BaseException as error:
            if len(waiting) > 1:
                self._alone |= keys
            for _, answer in waiting:
                if not answer.done():
                    answer.set_exception(error) if isinstance(error, Exception) else answer.cancel()
            if not isinstance(error, Exception):
                raise
            return
        self._alone -= keys
        for (_, answer), result in zip(waiting, _results(response, len(waiting)), strict=True):
            if not answer.done():
                answer.set_result(result)


def _results(response: Any, number: int) -> list[Any]:
    """Return the results of a response: exactly one for each item, also if the provider has sent another number."""
    if response.failure.code:
        return [message["ReadResult"](failure=response.failure)] * number
    if len(response.results) != number:
        told = f"the provider answered {len(response.results)} results for {number} resources"
        return [message["ReadResult"](failure=message["Failure"](code="fault", message=told))] * number
    return list(response.results)


def _key(item: Any) -> Key:
    return item.subject.token, item.subject.id, b"" if item.subject.id else item.inputs
